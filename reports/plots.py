"""Diagrams of `reports.charts` as Matplotlib draws them: for the column of a paper, and for pictures in light and dark."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullFormatter

from reports.charts import Curve, Panel
from reports.looks import DASHED, GREY, INK

SHEET = Path(__file__).parent / "style.mplstyle"
"""What all styles have in common."""
SAFE = {"text.parse_math": False, "svg.fonttype": "none", "figure.max_open_warning": 0}
"""Names are text, whatever they hold: a dollar begins no formula. Text stays text in SVG."""
TALLEST_IN = 100.0
"""What a bitmap of it has room for."""
STEPS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
"""Of each decade of a logarithmic axis, where ticks may stand: the first that leave room for what is written."""
TICKS_AT_MOST, FEWEST = 7, 2
CLOSEST = 0.65
"""Between two of its ticks, in rooms that matplotlib reckons a number takes: 150 and 200 stand nearer than others."""
PLACES = 6
"""Decimals of the places of axes, as shares of a figure."""
ROOM_FOR_TEXT = 1.5
"""Length of an axis of bars with text, in lengths of the longest bar."""


class RoundedLayout(ConstrainedLayoutEngine):
    """Constrained layout with rounded places: the last digits of its solver differ between processes."""

    def execute(self, fig: Figure) -> Any:
        done = super().execute(fig)
        for axes in fig.axes:
            left, bottom, width, height = (round(place, PLACES) for place in axes.get_position(original=True).bounds)
            axes.set_position((left, bottom, width, height), which="original")
            # An axis that was placed by hand would be left out of the next layout.
            axes.set_in_layout(True)
        return done


@dataclass(frozen=True, eq=False)
class Style:
    """How large figures are drawn and written."""

    width_in: float
    legend_columns: int
    settings: Mapping[str, Any]
    """Of matplotlib, beside those of `SHEET`."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """In which figures are drawn and written."""
        with plt.style.context(SHEET), plt.rc_context({**self.settings, **SAFE}), warnings.catch_warnings():
            # A name may have characters that the font lacks: SVG keeps them as text, a bitmap shows boxes.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            yield


_SMALL = dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 7.0)
_SMALL |= dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), 6.5)
_EXACT = {"savefig.bbox": "standard"}
"""A column's width is a column's width."""
PAPER = Style(3.35, 2, {**_SMALL, "lines.linewidth": 1.1, "lines.markersize": 3.5, "savefig.dpi": 300, **_EXACT})
_PICTURE: dict[str, Any] = {"font.size": 11.5, "legend.fontsize": 10, "legend.columnspacing": 1.0, "xtick.labelsize": 10.5}
_PICTURE |= {"savefig.dpi": 200, **_EXACT}
LIGHT = Style(6.0, 2, _PICTURE)
"""Of a picture that is read at any width from 360 px: its text stays legible."""
_INKS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_GROUNDS = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
_NIGHT = dict.fromkeys(_INKS, "#e6edf3") | dict.fromkeys(_GROUNDS, "#0d1117") | {"grid.color": "#30363d"}
DARK = Style(6.0, 2, _PICTURE | _NIGHT)


def draw(panels: Sequence[Panel], style: Style, height_in: float, columns: int = 1) -> Figure:
    """A new figure with a diagram for each panel, in the style that is applied.

    Parameters
    ----------
    height_in
        of a row of lines; rows of bars are as high as they need.
    columns
        diagrams in a row at most.
    """
    across = min(columns, len(panels))
    rows = [panels[first : first + across] for first in range(0, len(panels), across)]
    heights = [max(_height(panel, height_in) for panel in row) for row in rows]
    size = (style.width_in, min(sum(heights) + 0.3, TALLEST_IN))
    more: dict[str, Any] = {"figsize": size, "layout": RoundedLayout(), "squeeze": False, "height_ratios": heights}
    figure: Figure
    figure, axes = plt.subplots(len(rows), across, **more)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel, style.width_in / across)
    for axis in list(axes.flat)[len(panels) :]:
        axis.remove()
    named = {name: handle for axis in axes.flat for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    if named:
        columns = min(style.legend_columns, len(named))
        figure.legend(list(named.values()), list(named), loc="outside upper center", ncols=columns)
    return figure


def _height(panel: Panel, height_in: float) -> float:
    names = {name for one in panel.curves for name in one.y} if panel.kind == "bars" else ()
    return max(height_in, 0.9 + 0.16 * len(names)) if names else height_in


def _panel(axis: Axes, panel: Panel, width_in: float) -> None:
    named: set[str] = set()
    for one in panel.curves:
        label = None if one.name in named or not one.legend else one.name
        named.add(one.name)
        (_bars if panel.kind == "bars" else _line)(axis, one, label)
    axis.set_title("\n".join(textwrap.wrap(panel.title, max(20, int(13 * width_in)))), loc="left")
    axis.set_xlabel(panel.x.title)
    if panel.kind == "bars":
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        if any(one.text for one in panel.curves):
            axis.set_xlim(0, ROOM_FOR_TEXT * max(value or 0 for one in panel.curves for value in one.x))
        return
    axis.set_ylabel(panel.y.title)
    if panel.target is not None:
        axis.axhline(panel.target, color=plt.rcParams["text.color"], linewidth=0.8, linestyle=DASHED)
    for drawn, of in ((axis.xaxis, panel.x), (axis.yaxis, panel.y)):
        if of.log:
            plain_log(drawn)
    if any(one.text for one in panel.curves):
        axis.margins(0.2)


def _ink(colour: str) -> str:
    return str(plt.rcParams["text.color"]) if colour == INK else colour


def _line(axis: Axes, one: Curve, label: str | None) -> None:
    x, y = np.array(one.x, float), np.array(one.y, float)
    colour, alpha = _ink(one.colour), 0.35 if one.faint else 1.0
    style: dict[str, Any] = {"color": colour, "alpha": alpha, "label": label, "linestyle": one.line or "none"}
    front: dict[str, Any] = {} if colour == GREY or one.faint else {"zorder": 3}
    axis.plot(x, y, marker=one.marker or None, linewidth=0.6 if one.faint else None, **style, **front)
    if one.low is not None and one.high is not None:
        low, high = np.array(one.low, float), np.array(one.high, float)
        if one.marker:
            axis.vlines(x, low, high, color=colour, linewidth=2.2, alpha=0.4)
        else:
            axis.fill_between(x, low, high, color=colour, alpha=0.08 if colour == GREY else 0.22, linewidth=0)
    for at, text in enumerate(one.text or ()):
        axis.annotate(text, (x[at], y[at]), (0, 7), textcoords="offset points", ha="center", fontsize="x-small")


def _bars(axis: Axes, one: Curve, label: str | None) -> None:
    """Bars that lie; those of one row follow each other, in the order of curves."""
    names, values = [str(name) for name in one.y], np.array(one.x, float)
    ends: dict[str, float] = getattr(axis, "_ends", {})
    left = np.array([ends.get(name, 0.0) for name in names])
    style: dict[str, Any] = {"edgecolor": "#555555", "hatch": one.hatch, "linewidth": 0.3} if one.hatch else {}
    axis.barh(names, values, left=left, height=0.72, color=one.colour, label=label, **style)
    ends.update(zip(names, left + values, strict=True))
    axis._ends = ends  # type: ignore[attr-defined]
    if one.low is not None and one.high is not None:
        axis.hlines(names, np.array(one.low, float), np.array(one.high, float), color=_ink(INK), linewidth=1.0)
    for name, value, text in zip(names, values, one.text or [""] * len(names), strict=True):
        end = max([value, *(edge for edge in one.high or () if edge is not None)])
        axis.annotate(text, (end, name), (4, 0), textcoords="offset points", va="center")


class FewTicks(Locator):
    """As many ticks of a logarithmic axis as are legible where it is drawn, whose length is known no sooner."""

    def __init__(self, drawn: Axis) -> None:
        self._drawn = drawn

    def __call__(self) -> list[float]:
        return self.tick_values(*self._drawn.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Those between two positive numbers."""
        low, high = sorted((vmin, vmax))
        if low <= 0:
            return []
        decades = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        space = max(1, int(self._drawn.get_tick_space()))
        room = min(TICKS_AT_MOST, space + 1)
        for steps in STEPS:
            there = [float(tick) for tick in np.outer(decades, steps).ravel() if low <= tick <= high]
            closest = np.diff(np.log10(there)).min(initial=math.inf) / math.log10(high / low)
            if FEWEST <= len(there) <= room and closest * space >= CLOSEST:
                return there
        if len(there) < FEWEST:
            # Less than a decade: round numbers at equal distances, as on any other axis.
            even = MaxNLocator(max(FEWEST, room - 1), steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            return [float(tick) for tick in even if low <= tick <= high]
        return there[:: math.ceil(len(there) / room)]


def plain_log(axis: Axis) -> None:
    """Make an axis logarithmic with plain numbers, as many as are legible."""
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    axis.set_major_locator(FewTicks(axis))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
