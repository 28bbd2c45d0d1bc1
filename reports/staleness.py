"""What the staleness suite shows: a figure, a table and sentences for each of its workloads."""

from __future__ import annotations

import functools
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from reports import bounds
from reports.dataset import REFERENCE, RELAXED, Dataset
from reports.looks import BLUE, VERMILION
from reports.tables import inverse, number, with_interval
from suites.statistics.summary import AGAIN

SUITE = "staleness"
TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Rounds that an axis names."""
PREFIX = "staleness-"
"""Of the names of its figures and tables: its workloads are also those of the convergence suite."""
ORDER = ("tianji", "tianji-relaxed", "tianji-one-sided", "tianji-unbalanced", "tianji-as-published")
THRESHOLDS = {"training": (0.17, "o", "#1c1917"), "evaluated": (-0.17, "s", "#78716c")}
"""Where in a system's row each definition stands, its marker and its colour."""
QUANTITIES = (("insertion_lag", "lag on arrival", "o", VERMILION), ("age", "age when trained on", "s", BLUE))
CAPTIONS = {
    "lag": "How many rounds of updates the learner was ahead of a chunk's policy: median (left end) and 99th percentile "
    "(marker) over the chunks of a run, interquartile means over runs, bars: 95 % intervals of the latter. Right: environment "
    "steps to each threshold, a point a run; an open triangle is a run that did not get there. The scale on the left is linear "
    "to 1 and logarithmic above.",
}
TABLE_TEXTS = {
    "waiting": (
        "Who waits for what",
        "Shares of the time of all actors of a run, and of its learner, from the first step to the end: interquartile means "
        "over runs with 95 % intervals. The rest is work; a simulator that takes its time is an actor's work. Actors wait for "
        "weights where they may not go on with those that they have, and for credit where the learner withholds it. Bound: "
        "rounds that a chunk may be behind, as it stood at the end; window: chunks that may be under way.",
    ),
    "balance": (
        "What the balance holds",
        "Lag on arrival and age when trained on, in rounds of updates. C/P: rows trained on for each environment step "
        "inserted, beside its target. Steps/s: of the steps that are trained on. Steps to the training threshold: environment "
        "steps, those of evicted chunks among them, interquartile mean over the runs that got there. Ratios are formed within "
        "blocks, to the strict system (or to the two-sided one, where there is no strict one): of steps to either threshold, "
        "above 1 more steps (to the evaluated one, steps that were trained on); how many times as fast either is reached; of "
        "steps/s.",
    ),
}


def labels(data: Dataset, workload: str) -> list[str]:
    """Systems that ran on a workload, without second runs of the same."""
    found = {row["system"] for row in data.rows if row["suite"] == SUITE and row["workload"] == workload}
    return sorted(
        (label for label in found if not label.endswith(AGAIN)),
        key=lambda label: (ORDER.index(label) if label in ORDER else len(ORDER), label),
    )


def figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of the suite by file name."""
    return {f"{PREFIX}{workload}-lag": lag(data, workload) for workload in sorted(data.balanced)}


def lag(data: Dataset, workload: str) -> Figure:
    """Lag and age (left) and steps to threshold (right) of each system."""
    shown = labels(data, workload)
    figure: Figure
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.2, 1.5 + 0.55 * len(shown)), sharey=True, layout="constrained", width_ratios=(3, 2)
    )
    for height, label in enumerate(reversed(shown)):
        for offset, (kind, title, marker, shade) in zip((0.14, -0.14), QUANTITIES, strict=True):
            _range(left, data, workload, label, kind, height + offset, marker, shade, title if height == 0 else None)
    left.set_xscale("symlog", linthresh=1)
    end = max(2.0, left.get_xlim()[1] * 1.2)
    left.set_xlim(-0.15, end)
    left.set_xticks([tick for tick in TICKS if tick <= end], [str(tick) for tick in TICKS if tick <= end])
    left.xaxis.set_minor_locator(NullLocator())
    left.set_xlabel("rounds behind the learner")
    left.set_yticks(range(len(shown)), [data.titles[label] for label in reversed(shown)])
    left.set_ylim(-0.6, len(shown) - 0.4)
    _steps(right, data, workload, shown)
    handles = [handle for axis in (left, right) for handle in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _range(
    axis: Axes, data: Dataset, workload: str, label: str, kind: str, height: float, marker: str, shade: str, title: str | None
) -> None:
    p50, p99 = (data.find(workload, label, f"{kind}_{p}_rounds", suite=SUITE) for p in ("p50", "p99"))
    if p50 is None or p99 is None:
        return
    axis.plot([p50["value"], p99["value"]], [height, height], color=shade, linewidth=1.2, alpha=0.6)
    axis.plot(p50["value"], height, marker="|", markersize=9, color=shade)
    axis.plot(p99["value"], height, marker=marker, markersize=6, color=shade, linestyle="", label=title)
    if p99["ci_low"] is not None:
        axis.hlines(height, p99["ci_low"], p99["ci_high"], color=shade, linewidth=4, alpha=0.3)


def _steps(axis: Axes, data: Dataset, workload: str, shown: list[str]) -> None:
    frame = data.series["staleness-crossings"]
    frame = frame[frame["workload"] == workload]
    budget = data.balanced[workload]["budget_steps"]
    for kind, (offset, marker, shade) in THRESHOLDS.items():
        for height, label in enumerate(reversed(shown)):
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            places = height + offset + np.linspace(-0.12, 0.12, max(2, len(runs)))
            for place, (_, run) in zip(places, runs.iterrows(), strict=False):
                reached = not pd.isna(run["steps"])
                axis.plot(
                    (run["steps"] if reached else budget) / 1000,
                    place,
                    marker=marker if reached else ">",
                    markersize=3.5,
                    markerfacecolor=shade if reached else "none",
                    color=shade,
                    linestyle="",
                )
        threshold = data.balanced[workload]["thresholds"][kind]
        axis.plot([], [], marker=marker, markersize=3.5, color=shade, linestyle="", label=f"steps to {threshold:g}, {kind}")
    axis.set_xlim(0, budget / 1000 * 1.06)
    axis.set_xlabel("thousand environment steps to the threshold")


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table of the suite by file name."""
    found = {}
    for workload in sorted(data.balanced):
        found[f"{PREFIX}{workload}-balance"] = balance(data, workload)
        found[f"{PREFIX}{workload}-waiting"] = waiting(data, workload)
    return found


def balance(data: Dataset, workload: str) -> pd.DataFrame:
    """Lag, age, C/P, evictions and steps to threshold, a line a system."""
    lines = []
    for label in labels(data, workload):

        def of(metric: str, kind: str | None = None, label: str = label) -> dict[str, Any] | None:
            return data.find(workload, label, metric, kind, suite=SUITE)

        steps, target = of("steps_to_threshold", "training"), of("consumption_ratio_target")
        against = functools.partial(data.find, workload, REFERENCE, baseline=label, suite=SUITE)
        lines.append(
            {
                "System": data.titles[label],
                "n": str(steps["n"]) if steps else "-",
                "Lag p50": with_interval(of("insertion_lag_p50_rounds")),
                "Lag p99": with_interval(of("insertion_lag_p99_rounds")),
                "Age p50": with_interval(of("age_p50_rounds")),
                "Age p99": with_interval(of("age_p99_rounds")),
                "C/P": f"{with_interval(of('consumption_ratio'))} (of {number(target['value'] if target else None)})",
                "Evicted chunks": with_interval(of("chunks_evicted")),
                "Steps/s": with_interval(of("production_steps_per_s")),
                "Reached": f"{steps['n'] - steps['censored']} of {steps['n']}" if steps else "-",
                "Steps": with_interval(steps),
                "Ratio of steps, training": bounds.counted(against("steps_to_threshold_ratio", "training")),
                "Ratio of steps, evaluated": bounds.counted(against("steps_to_threshold_ratio", "evaluated")),
                "Times as fast, training": bounds.told(functools.partial(against, kind="training")).inverse.words,
                "Times as fast, evaluated": bounds.told(functools.partial(against, kind="evaluated")).inverse.words,
                "Ratio of steps/s": with_interval(inverse(against("production_ratio")), "x"),
            }
        )
    return pd.DataFrame(lines)


def waiting(data: Dataset, workload: str) -> pd.DataFrame:
    """Who waits for what, a line a system: shares of the time of all its actors, and of its learner."""
    lines = []
    for label in labels(data, workload):

        def share(role: str, cause: str, label: str = label) -> str:
            row = data.find(workload, label, f"{role}_waits_for_{cause}_share", suite=SUITE)
            return with_interval(row) if row else "-"

        lines.append(
            {
                "System": data.titles[label],
                "Actors wait for weights": share("actor", "weights"),
                "Actors wait for credit": share("actor", "credit"),
                "Learner waits for samples": share("learner", "samples"),
                "Learner waits at a barrier": share("learner", "barrier"),
                "Bound, rounds": with_interval(data.find(workload, label, "lag_bound", suite=SUITE)),
                "Window, chunks": with_interval(data.find(workload, label, "window_chunks", suite=SUITE)),
            }
        )
    return pd.DataFrame(lines)


def findings(data: Dataset, workload: str) -> list[str]:
    """What the numbers say of relaxed training, a sentence for each definition of the threshold."""
    lines = []
    for kind in ("training", "evaluated"):
        ratio = data.find(workload, REFERENCE, "steps_to_threshold_ratio", kind, RELAXED, suite=SUITE)
        if ratio is None or ratio["value"] is None or ratio["ci_high"] is None:
            continue
        verdict = "non-inferior" if ratio["ci_high"] <= NON_INFERIORITY else "not shown to be non-inferior"
        unpaired = f", {ratio['censored']} more in which one or both did not get there" if ratio["censored"] else ""
        threshold = data.balanced[workload]["thresholds"][kind]
        lines.append(
            f"Relaxed needs {with_interval(ratio, 'x')} the steps of strict training to a return of {threshold:g} ({kind}; "
            f"n = {ratio['n']} blocks{unpaired}): {verdict} (upper bound at most {NON_INFERIORITY:g})."
        )
    return lines


NON_INFERIORITY = 1.10
"""Upper bound of the ratio of steps up to which relaxed training counts as not worse."""
