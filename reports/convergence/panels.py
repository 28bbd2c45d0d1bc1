"""What figures of the convergence suite are made of, on a page and in a paper alike; each returns what it drew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.convergence.breakdown import Breakdown, Share
from reports.dataset import Dataset
from reports.looks import look
from reports.marks import Mark, level, plain_log
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

AGAINST = {"seconds": "seconds from the first environment step (log scale)", "steps": "thousand environment steps"}
"""What returns are drawn over."""


def curves(axis: Axes, data: Dataset, workload: str, kind: str, against: str, labels: Sequence[str]) -> pd.DataFrame:
    """Returns of each run: a thin line, and a thick one for the run of a system that has the median mean.

    Second runs of a system are dotted and faint. Limits of returns are left to whoever has several axes that share them.

    Parameters
    ----------
    kind
        of return, of `KINDS`.
    against
        of `AGAINST`.
    """
    frame = data.series[f"curves-{kind}"]
    frame = frame[frame["workload"] == workload]
    usual = plt.rcParams["lines.linewidth"]
    drawn = []
    # The first system lies on top.
    for label in reversed(labels):
        again = label.endswith(AGAIN)
        runs = [run for _, run in frame[frame["system"] == label].groupby(["session", "block"])]
        middle = sorted(runs, key=lambda run: float(run["mean_return"].mean()))[len(runs) // 2] if runs and not again else None
        for run in runs:
            axis.plot(
                run[against] / (1000 if against == "steps" else 1),
                run["mean_return"],
                color=look(label).colour,
                linestyle=":" if again else look(label).line,
                linewidth=usual * (1.2 if run is middle else 0.45),
                alpha=1.0 if run is middle else 0.5,
            )
            drawn.append(run.assign(drawn="thick" if run is middle else "thin"))
    level(axis, data.workloads[workload]["thresholds"][kind])
    axis.set_xlabel(AGAINST[against])
    if against == "seconds":
        later = frame["seconds"][frame["seconds"] > 0]
        axis.set_xlim(left=max(0.1, later.min()) if len(later) else 0.1)
        plain_log(axis.xaxis)
    return pd.concat(drawn, ignore_index=True) if drawn else pd.DataFrame()


def lowest(data: Dataset, workload: str) -> float:
    """Where an axis of returns begins, of all `KINDS`: at 0, or a little below all points but the lowest twentieth."""
    frames = [data.series[f"curves-{kind}"] for kind in KINDS]
    returns = pd.concat([frame["mean_return"][frame["workload"] == workload] for frame in frames])
    if returns.empty or returns.min() >= 0:
        return 0.0
    low = float(returns.quantile(0.05))
    return min(0.0, low - 0.03 * (float(returns.max()) - low))


def names(data: Dataset, labels: Sequence[str]) -> list[Line2D]:
    """What a legend of curves names: systems, and second runs all together."""
    first = [label for label in labels if not label.endswith(AGAIN)]
    lines = [Line2D([], [], color=look(label).colour, linestyle=look(label).line, label=data.titles[label]) for label in first]
    if len(first) < len(labels):
        lines.append(Line2D([], [], color=look("sync").colour, linestyle=":", linewidth=0.8, label="same system again"))
    return lines


def times(axes: Sequence[Axes], data: Dataset, workload: str, labels: Sequence[str]) -> list[Mark]:
    """Seconds to either threshold, an axis each: the interquartile mean with its interval, and below it every run.

    A run's bar reaches down to the last moment before which it was not there. An open triangle is one that ended without.
    """
    frame = data.series["crossings"]
    frame = frame[frame["workload"] == workload]
    drawn: list[Mark] = []
    for axis, kind in zip(axes, KINDS, strict=True):
        for height, label in enumerate(reversed(labels)):
            colour, _, marker = look(label)
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            places = height + np.linspace(-0.27, 0.0, max(2, len(runs)))
            for place, (_, run) in zip(places, runs.iterrows(), strict=False):
                reached = not pd.isna(run["seconds"])
                at = run["seconds"] if reached else run["measured_s"]
                before = run["seconds_before"] if reached else at
                axis.hlines(place, before, at, color=colour, linewidth=0.7, alpha=0.7)
                shape: dict[str, Any] = {"marker": "." if reached else ">", "markerfacecolor": colour if reached else "none"}
                axis.plot(at, place, markersize=3, color=colour, alpha=0.7, **shape)
                mark = {"mark": "run" if reached else "censored", "seconds": at, "seconds_before": before}
                drawn.append({"system": label, "kind": kind, **mark})
            row = data.find(workload, label, "time_to_threshold_s", kind)
            if row is not None and row["value"] is not None:
                if row["ci_low"] is not None:
                    axis.hlines(height + 0.18, row["ci_low"], row["ci_high"], color=colour, linewidth=1.4)
                axis.plot(row["value"], height + 0.18, marker=marker, markersize=4, color=colour)
                mark = {"seconds": row["value"], "low": row["ci_low"], "high": row["ci_high"], "n": row["n"]}
                drawn.append({"system": label, "kind": kind, "mark": "interquartile mean", **mark})
        axis.set_title(f"{kind.capitalize()} ≥ {data.workloads[workload]['thresholds'][kind]:g}", loc="left")
        plain_log(axis.xaxis)
        axis.set_xlabel("seconds (log scale)")
        axis.set_yticks(range(len(labels)), [data.titles[label] for label in reversed(labels)])
        axis.set_ylim(-0.5, len(labels) - 0.4)
    return drawn


def shares(axis: Axes, data: Dataset, processes: Sequence[Breakdown]) -> tuple[list[Mark], list[Patch]]:
    """Where the measured seconds of processes went, a bar each, waiting hatched; and what a legend names."""
    used: dict[str, Share] = {}
    drawn: list[Mark] = []
    for height, found in enumerate(reversed(processes)):
        for share in found.shares:
            bar: dict[str, Any] = {"hatch": _hatch(share), "edgecolor": "white", "linewidth": 0}
            axis.barh(height, share.percent, left=share.left, color=share.shade, height=0.7, **bar)
            used[share.title] = share
            mark = {"state": share.state, "cause": share.cause, "percent": share.percent, "n": found.runs}
            drawn.append({"system": found.label, "process": found.process, **mark})
    texts = [f"{data.titles[found.label]}: {_short(found.process)}" for found in reversed(processes)]
    axis.set_yticks(range(len(texts)), texts)
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the measured seconds")
    return drawn, [
        Patch(facecolor=share.shade, hatch=_hatch(share), edgecolor="white", label=title) for title, share in used.items()
    ]


def _hatch(share: Share) -> str | None:
    return "////" if share.state == "wait" else None


def _short(process: str) -> str:
    """A role and its number: where there is one group, it goes without saying."""
    kind, _, place = process.partition(" ")
    return f"{kind} {place.partition('.')[2] or place.removeprefix('g0')}".strip()
