"""Marks, axes and legends that all panels have in common."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, FuncFormatter, Locator, MaxNLocator, NullFormatter

from reports.looks import DASHED, GREY, INK, look
from reports.table import Row
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL

STEPS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
"""Of each decade of a logarithmic axis, where ticks may stand: the first that leave room for what is written."""
TICKS_AT_MOST = 7
"""Of such an axis, however long it is."""
FEWEST = 2
"""Of them: an axis with one number says nothing of its scale."""
CLOSEST = 0.65
"""Between two of its ticks, in rooms that matplotlib reckons a number takes: 150 and 200 stand nearer than others."""

OPEN = f"no interval (n < {MINIMUM_FOR_INTERVAL})"
"""What a legend says of open marks."""
KEPT = ("metric", "unit", "value", "ci_low", "ci_high", "n", "censored")
"""Of a row, in the mark that is made of it."""

Mark = dict[str, Any]
"""What one mark shows, in the units of the summary: a line of the data beside a figure."""

plain = FuncFormatter(lambda value, _: f"{value:g}")
"""Of ticks: 0.1, 10, 1000."""


def intervals(
    axis: Axes,
    label: str,
    name: str | None,
    x: str,
    rows: Sequence[Row],
    scale: float = 1.0,
    shift: float = 0.0,
    *,
    joined: bool = True,
) -> list[Mark]:
    """Draw a system's rows against what they have in `x`, each with its interval, and return what was drawn.

    A row without an interval has an open mark, so that it does not look like an interval of no width.

    Parameters
    ----------
    label, name
        the system, which says how it looks, and what a legend calls it.
    scale
        what values are multiplied with, for the axis's unit.
    shift
        by how much they stand to the right of their place, so that no interval hides another.
    joined
        with a line from one to the next.
    """
    if not rows:
        return []
    colour, line, marker = look(label)
    # One point makes no line, and ceilings have no marks.
    marker = marker or ("" if joined and len(rows) > 1 else "_")
    places = np.array([row[x] for row in rows], float) + shift
    values = np.array([row["value"] for row in rows], float) * scale
    style = line if joined and len(rows) > 1 else ""
    axis.plot([], [], color=colour, linestyle=style, marker=marker or None, label=name)
    axis.plot(places, values, color=colour, linestyle=style, zorder=2)
    known = np.array([row["ci_low"] is not None for row in rows])
    for some, face in ((known, colour), (~known, "none")):
        axis.plot(places[some], values[some], color=colour, linestyle="", marker=marker or None, markerfacecolor=face, zorder=3)
    for at, row in zip(places, rows, strict=True):
        if row["ci_low"] is not None:
            width = 1.6 * plt.rcParams["lines.linewidth"]
            axis.vlines(at, row["ci_low"] * scale, row["ci_high"] * scale, color=colour, linewidth=width, alpha=0.5)
    return [{"system": label, x: row[x], **{key: row.get(key) for key in KEPT}} for row in rows]


def apart(labels: Sequence[str], label: str, by: float) -> float:
    """How far to the right of their place a system's marks stand, when all stand around it."""
    return by * (labels.index(label) - (len(labels) - 1) / 2) if label in labels else 0.0


def legend(figure: Figure, axes: Iterable[Axes], columns: int, marks: Iterable[Mark] = ()) -> None:
    """One for all axes, above them, each name once; where any of `marks` has no interval, it says what open marks are."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    if any("ci_low" in mark and mark["ci_low"] is None for mark in marks):
        named[OPEN] = Line2D([], [], color=GREY, marker="o", markerfacecolor="none", linestyle="")
    figure.legend(list(named.values()), list(named), loc="outside upper center", ncols=min(columns, max(1, len(named))))


def panel_title(axis: Axes, text: str, characters: int) -> None:
    """Say above a panel what it is of, in as many lines as that takes."""
    axis.set_title("\n".join(textwrap.wrap(text, characters)), loc="left")


def level(axis: Axes, value: float) -> None:
    """A dashed line across: a threshold, a ceiling, as much as can be."""
    axis.axhline(value, color=INK, linewidth=0.8, linestyle=DASHED)


class FewTicks(Locator):
    """As many ticks of a logarithmic axis as are legible where it is drawn, whose length is known no sooner."""

    def __init__(self, drawn: Axis, width: float = 1.0) -> None:
        self._drawn, self._width = drawn, width

    def __call__(self) -> list[float]:
        return self.tick_values(*self._drawn.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Those between two positive numbers."""
        low, high = sorted((vmin, vmax))
        decades = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        # Numbers of one place are narrower than what matplotlib reckons with.
        space = max(1, int(self._drawn.get_tick_space() / self._width))
        room = min(TICKS_AT_MOST, space + 1)
        for steps in STEPS:
            there = [float(tick) for tick in np.outer(decades, steps).ravel() if low <= tick <= high]
            closest = np.diff(np.log10(there)).min(initial=math.inf) / math.log10(high / low)
            if FEWEST <= len(there) <= room and closest * space >= CLOSEST:
                return there
        if len(there) < FEWEST:
            # Less than a decade: round numbers at equal distances, as on any other axis.
            even = MaxNLocator(max(FEWEST, room - 1), steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            return _apart([float(tick) for tick in even if low <= tick <= high], CLOSEST / space * math.log10(high / low))
        return there[:: math.ceil(len(there) / room)]


def _apart(ticks: Sequence[float], least: float) -> list[float]:
    """Those of ascending ticks that stand at least so many decades from the one before."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or math.log10(tick / kept[-1]) >= least:
            kept.append(tick)
    return kept


def plain_log(axis: Axis, numbers: Formatter = plain, width: float = 1.0) -> None:
    """Make an axis logarithmic with plain numbers, as many as are legible.

    Parameters
    ----------
    width
        how many times as wide as plain numbers those of another formatter are.
    """
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    axis.set_major_locator(FewTicks(axis, width))
    axis.set_major_formatter(numbers)
    axis.set_minor_formatter(NullFormatter())
