"""Figures of the convergence suite, each from a workload and a style; and the picture of all ratios."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports import bounds
from reports.convergence import breakdown
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.looks import DASHED, INK, look
from reports.marks import Mark, level, plain_log
from reports.pairs import REFERENCE
from reports.styles import Drawing, Plot, Style, drawing
from reports.tables import how_many
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

KIND_TITLES = {"training": "Training: mean of 100 episodes", "evaluated": "Evaluated: greedy, seeded episodes"}
SHORT_KINDS = {"evaluated": "evaluated", "training": "training mean of 100 episodes"}
AGAINST = {"seconds": "seconds from the first environment step (log scale)", "steps": "thousand environment steps"}
"""What returns are drawn over."""
PANELS = [(kind, against) for kind in KIND_TITLES for against in AGAINST]
PARTS_AT_MOST = 12
"""Processes of a breakdown in a paper: more are not legible in a column."""
ARROW = {"arrowstyle": "<-", "linewidth": 1.2, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
"""It points to where it is drawn from."""
ARROW_PT = 14


def curves(view: Trained, style: Style) -> Drawing | None:
    """Returns of every run over seconds; on a page both definitions of return, over steps too, and second runs."""
    if view.points("crossings").empty:
        return None
    panels = style.pick(PANELS, [("evaluated", "seconds")])
    figure, axes = style.axes((5.8, 2.2), *style.pick((2, 2), (1, 1)), sharey=True)
    labels = style.pick(view.labels, view.shown)
    parts = []
    for axis, (kind, against) in zip(axes, panels, strict=True):
        parts.append(_returns(axis, view, kind, against, labels))
        if style.name == "page":
            axis.set_title(KIND_TITLES[kind], loc="left")
    for axis, (kind, _) in list(zip(axes, panels, strict=True))[:: len(AGAINST)]:
        axis.set_ylabel(style.pick("return", "evaluated return"))
        if style.name == "page":
            threshold = view.description["thresholds"][kind]
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (0, 3), "textcoords": "offset points"}
            axis.annotate(f"threshold {threshold:g}", (0.01, threshold), fontsize=8, **place)
    axes[0].set_ylim(bottom=lowest(view))
    marks = pd.concat(parts, ignore_index=True)
    counts = marks[["system", "session", "block"]].drop_duplicates()["system"].value_counts()
    named = style.pick(view.shown, [label for label in labels if label in counts])
    handles = [Line2D([], [], color=look(label).colour, linestyle=look(label).line, label=view.title(label)) for label in named]
    if set(labels) > set(view.shown):
        handles.append(Line2D([], [], color=look("sync").colour, linestyle=":", linewidth=0.8, label="same system again"))
    figure.legend(handles=handles, loc="outside upper center", ncols=style.pick(len(handles), style.legend_columns))
    return drawing(figure, marks, how_many(counts))


def _returns(axis: Axes, view: Trained, kind: str, against: str, labels: Sequence[str]) -> pd.DataFrame:
    """Returns of each run: a thin line, and a thick one for the run of a system that has the median mean.

    Second runs of a system are dotted and faint. Limits of returns are left to the figure, whose axes share them.
    """
    frame = view.points(f"curves-{kind}")
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
    level(axis, view.description["thresholds"][kind])
    axis.set_xlabel(AGAINST[against])
    if against == "seconds":
        later = frame["seconds"][frame["seconds"] > 0]
        axis.set_xlim(left=max(0.1, later.min()) if len(later) else 0.1)
        plain_log(axis.xaxis)
    return pd.concat(drawn, ignore_index=True) if drawn else pd.DataFrame()


def lowest(view: Trained) -> float:
    """Where an axis of returns begins, of all `KINDS`: at 0, or a little below all points but the lowest twentieth."""
    returns = pd.concat([view.points(f"curves-{kind}")["mean_return"] for kind in KINDS])
    if returns.empty or returns.min() >= 0:
        return 0.0
    low = float(returns.quantile(0.05))
    return min(0.0, low - 0.03 * (float(returns.max()) - low))


def times(view: Trained, style: Style) -> Drawing | None:
    """Seconds to either threshold, an axis each: the interquartile mean with its interval, and below it every run.

    A run's bar reaches down to the last moment before which it was not there. An open triangle is one that ended without.
    """
    frame = view.points("crossings")
    if frame.empty:
        return None
    labels = style.pick(view.labels, view.shown)
    heights = (0.8 + 0.45 * len(labels), 0.75 + 0.28 * len(labels))
    figure, axes = style.axes(heights, 2, sharex=style.pick(True, False), sharey=True)
    marks: list[Mark] = []
    for axis, kind in zip(axes, KINDS, strict=True):
        for height, label in enumerate(reversed(labels)):
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            found = _runs(axis, label, height, runs) + _mean(axis, view, label, kind, height)
            marks += [{"system": label, "kind": kind, **mark} for mark in found]
        axis.set_title(f"{kind.capitalize()} ≥ {view.description['thresholds'][kind]:g}", loc="left")
        plain_log(axis.xaxis)
        axis.set_xlabel("seconds (log scale)")
        axis.set_yticks(range(len(labels)), [view.title(label) for label in reversed(labels)])
        axis.set_ylim(-0.5, len(labels) - 0.4)
    return drawing(figure, marks)


def _runs(axis: Axes, label: str, height: float, runs: pd.DataFrame) -> list[Mark]:
    """Every run of a system, below its mean."""
    colour, marks = look(label).colour, []
    places = height + np.linspace(-0.27, 0.0, max(2, len(runs)))
    for place, (_, run) in zip(places, runs.iterrows(), strict=False):
        reached = not pd.isna(run["seconds"])
        at = run["seconds"] if reached else run["measured_s"]
        before = run["seconds_before"] if reached else at
        axis.hlines(place, before, at, color=colour, linewidth=0.7, alpha=0.7)
        shape: dict[str, Any] = {"marker": "." if reached else ">", "markerfacecolor": colour if reached else "none"}
        axis.plot(at, place, markersize=3, color=colour, alpha=0.7, **shape)
        marks.append({"mark": "run" if reached else "censored", "seconds": at, "seconds_before": before})
    return marks


def _mean(axis: Axes, view: Trained, label: str, kind: str, height: float) -> list[Mark]:
    """The mean of a system's runs, with its interval."""
    row = view.find(label, "time_to_threshold_s", threshold_kind=kind)
    if row is None:
        return []
    colour, _, marker = look(label)
    if row["ci_low"] is not None:
        axis.hlines(height + 0.18, row["ci_low"], row["ci_high"], color=colour, linewidth=1.4)
    axis.plot(row["value"], height + 0.18, marker=marker, markersize=4, color=colour)
    told = {"seconds": row["value"], "low": row["ci_low"], "high": row["ci_high"], "n": row["n"]}
    return [{"mark": "interquartile mean", **told}]


def shares(view: Trained, style: Style) -> Drawing | None:
    """Where the measured seconds of processes went, a bar each, mean over runs; waiting is hatched."""
    if view.points("crossings").empty:
        return None
    marks = breakdown.shares(view)
    processes = list(marks.groupby(["system", "process"], sort=False))[: style.pick(None, PARTS_AT_MOST)]
    count = max(1, len(processes))
    figure, (axis,) = style.axes((0.9 + 0.32 * count, 0.9 + 0.17 * count))
    handles: dict[str, Patch] = {}
    for height, (_, found) in enumerate(reversed(processes)):
        left = 0.0
        for state, cause, percent in zip(found["state"], found["cause"], found["percent"], strict=True):
            title, shade = breakdown.CAUSES[state, cause]
            bar: dict[str, Any] = {"hatch": "////" if state == "wait" else None, "edgecolor": "white"}
            axis.barh(height, percent, left=left, color=shade, height=0.7, linewidth=0, **bar)
            handles[title] = Patch(facecolor=shade, label=title, **bar)
            left += percent
    axis.set_yticks(range(len(processes)), [_process_title(view, *names) for names, _ in reversed(processes)])
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the measured seconds")
    columns = style.pick(min(8, max(1, len(handles))), style.legend_columns)
    figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=columns)
    return drawing(figure, pd.concat([found for _, found in processes]) if processes else [])


def _process_title(view: Trained, label: Hashable, process: Hashable) -> str:
    """A system, a role and its number: where there is one group, it goes without saying."""
    kind, _, place = str(process).partition(" ")
    return f"{view.title(str(label))}: {kind} {place.partition('.')[2] or place.removeprefix('g0')}".rstrip()


def ratio_marks(data: Dataset) -> pd.DataFrame:
    """Ratios of times to threshold, or their bounds: TianJi against every peer, and what ran twice against itself."""
    views = Trained.all(data)
    pairs = {
        (view, row["system"], row["baseline"]): None
        for view in views
        for row in view.table.where(metric=bounds.METRIC).rows
        if row["system"] == REFERENCE or row["baseline"].endswith(AGAIN)
    }
    return pd.DataFrame(
        {
            "workload": view.name,
            "system": system,
            "baseline": baseline,
            "kind": kind,
            "bound": bound,
            **{key: row[key] for key in ("value", "ci_low", "ci_high", "n", "censored")},
            "against": _against(view, baseline),
        }
        for view, system, baseline in pairs
        for kind in KINDS
        for row, bound, _ in [view.fast(system, baseline, kind)]
        if row is not None
    )


def _against(view: Trained, label: str) -> str:
    """Whom TianJi is compared with, in few words: names have as much room as drawing."""
    name = view.title(label.removesuffix(AGAIN)).partition(" (")[0]
    return f"{name} twice" if label.endswith(AGAIN) else f"against {name}"


def forest(data: Dataset, style: Style) -> Drawing | None:
    """Ratios with intervals, one line for each workload and peer; machines beside each other."""
    marks = ratio_marks(data)
    if marks.empty:
        return None
    groups = list(marks.groupby(["workload", "baseline"], sort=True))
    figure, (axis,) = style.axes((0.9 + 0.3 * len(groups),) * 2)
    texts = []
    for height, (_, rows) in enumerate(reversed(groups)):
        for _, row in rows.iterrows():
            _ratio(axis, height, row)
        count = "/".join(str(n) for n in sorted(set(rows["n"])))
        texts.append(f"{rows['workload'].iloc[0]}\n{rows['against'].iloc[0]} (n = {count})")
    axis.axvline(1, color=INK, linewidth=0.7, linestyle=DASHED)
    plain_log(axis.xaxis)
    axis.set_yticks(range(len(groups)), texts)
    axis.set_ylim(-0.6, len(groups) - 0.4)
    # To the right, for there is more room under the names than under the axis.
    axis.set_xlabel("times as fast (ratio, log scale)", loc="right")
    handles = [
        Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor=face, label=SHORT_KINDS[kind])
        for kind, face in (("evaluated", INK), ("training", "white"))
    ]
    if (marks["bound"] != "").any():
        handles.append(Line2D([], [], marker=">", color=INK, label="bound (> or <)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, marks.drop(columns="against"))


def _ratio(axis: Axes, height: float, row: pd.Series[Any]) -> None:
    """One ratio with its interval, or a bound: an arrow to where the ratio is."""
    colour, _, marker = look(str(row["baseline"]))
    at = height + (0.14 if row["kind"] == "evaluated" else -0.14)
    face = colour if row["kind"] == "evaluated" else "white"
    if pd.notna(row["ci_low"]):
        axis.hlines(at, row["ci_low"], row["ci_high"], color=colour, linewidth=1.2)
    if row["bound"]:
        way = (ARROW_PT if row["bound"] == "at_least" else -ARROW_PT, 0)
        axis.annotate("", (row["value"], at), way, textcoords="offset points", arrowprops={**ARROW, "color": colour})
    axis.plot(row["value"], at, marker=marker or "o", markersize=4, markerfacecolor=face, color=colour, linestyle="")


RATIOS = Plot(forest, Dataset, paper="ratios")
PLOTS = (
    Plot(curves, Trained, page="curves", paper="curves"),
    Plot(times, Trained, page="threshold", paper="times", table="threshold"),
    Plot(shares, Trained, page="time", paper="breakdown"),
    RATIOS,
)
