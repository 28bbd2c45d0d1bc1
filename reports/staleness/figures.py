"""Figures of the staleness suite, each from a workload and a style."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from reports.looks import BLUE, VERMILION, look
from reports.marks import plain
from reports.pairs import first_runs
from reports.staleness.view import Balanced
from reports.styles import Drawing, Plot, Style, drawing

TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Rounds that an axis names."""
THRESHOLDS = {"training": (0.17, "o", "#1c1917"), "evaluated": (-0.17, "s", "#78716c")}
"""Where in a system's row each definition stands, its marker and its colour."""
QUANTITIES = {"insertion_lag": ("lag on arrival", 0.14, "o", VERMILION), "age": ("age when trained on", -0.14, "s", BLUE)}
"""What each is called, where in a system's row it stands, its marker and its colour."""


def lag(view: Balanced, style: Style) -> Drawing:
    """Lag and age (left) and steps to threshold (right) of each system."""
    shown = view.shown
    figure, (left, right) = style.axes((1.5 + 0.55 * len(shown),) * 2, 2, sharey=True, width_ratios=(3, 2))
    for height, label in enumerate(reversed(shown)):
        _rounds(left, view, label, height)
    left.set_xscale("symlog", linthresh=1)
    end = max(2.0, left.get_xlim()[1] * 1.2)
    left.set_xlim(-0.15, end)
    left.set_xticks([tick for tick in TICKS if tick <= end], [str(tick) for tick in TICKS if tick <= end])
    left.xaxis.set_minor_locator(NullLocator())
    left.set_xlabel("rounds behind the learner")
    left.set_yticks(range(len(shown)), [view.title(label) for label in reversed(shown)])
    left.set_ylim(-0.6, len(shown) - 0.4)
    _steps(right, view)
    handles = [handle for axis in (left, right) for handle in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return drawing(figure)


def _rounds(axis: Axes, view: Balanced, label: str, height: int) -> None:
    """How far the learner was ahead, from the median to the 99th percentile."""
    for kind, (title, offset, marker, shade) in QUANTITIES.items():
        p50, p99 = (view.find(label, f"{kind}_{p}_rounds") for p in ("p50", "p99"))
        if p50 is None or p99 is None:
            continue
        at = height + offset
        axis.plot([p50["value"], p99["value"]], [at, at], color=shade, linewidth=1.2, alpha=0.6)
        axis.plot(p50["value"], at, marker="|", markersize=9, color=shade)
        named = title if height == 0 else None
        axis.plot(p99["value"], at, marker=marker, markersize=6, color=shade, linestyle="", label=named)
        if p99["ci_low"] is not None:
            axis.hlines(at, p99["ci_low"], p99["ci_high"], color=shade, linewidth=4, alpha=0.3)


def _steps(axis: Axes, view: Balanced) -> None:
    """Steps to either threshold, a point a run."""
    frame = view.points("staleness-crossings")
    budget = view.description["budget_steps"]
    for kind, (offset, marker, shade) in THRESHOLDS.items():
        for height, label in enumerate(reversed(view.shown)):
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            places = height + offset + np.linspace(-0.12, 0.12, max(2, len(runs)))[: len(runs)]
            reached = runs["steps"].notna().to_numpy()
            steps = runs["steps"].fillna(budget).to_numpy(float) / 1000
            dot: dict[str, Any] = {"markersize": 3.5, "color": shade, "linestyle": ""}
            axis.plot(steps[reached], places[reached], marker=marker, markerfacecolor=shade, **dot)
            axis.plot(steps[~reached], places[~reached], marker=">", markerfacecolor="none", **dot)
        threshold = view.description["thresholds"][kind]
        axis.plot([], [], marker=marker, markersize=3.5, color=shade, linestyle="", label=f"steps to {threshold:g}, {kind}")
    axis.set_xlim(0, budget / 1000 * 1.06)
    axis.set_xlabel("thousand environment steps to the threshold")


def distributions(view: Balanced, style: Style) -> Drawing:
    """Cumulative distributions of lag on arrival, a line a system."""
    frame = view.points("staleness")
    frame = frame[(frame["kind"] == "insertion_lag") & (frame["unit"] == "rounds")]
    figure, (axis,) = style.axes((2.0, 2.0))
    parts = []
    for label in first_runs(sorted(set(frame["system"]))):
        chunks = frame[frame["system"] == label].groupby("value")["chunks"].sum()
        own = pd.DataFrame({"value": chunks.index, "chunks": chunks.to_numpy()})
        share = 100 * own["chunks"].cumsum() / own["chunks"].sum()
        colour, line, _ = look(label)
        axis.step(own["value"], share, where="post", color=colour, linestyle=line, label=view.title(label))
        parts.append(own.assign(system=label, percent=share))
    axis.set_xscale("symlog", linthresh=1)
    axis.xaxis.set_major_formatter(plain)
    axis.set_xlim(left=-0.1)
    axis.set_ylim(0, 101)
    axis.set_xlabel("rounds of updates behind the learner on arrival (linear to 1, then log)")
    axis.set_ylabel("% of chunks no further behind")
    figure.legend(loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, pd.concat(parts, ignore_index=True) if parts else [])


PLOTS = (Plot(lag, Balanced, page="lag"), Plot(distributions, Balanced, paper=""))
