"""The README's two pictures, in light and in dark.

One says how many times as fast TianJi reaches a return, with a row for each opponent. The other is the map of when relaxing
dependencies pays, which `reports.asynchrony.figures` draws.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image

from reports.asynchrony.figures import panels, pays
from reports.asynchrony.view import Mapped
from reports.dataset import Dataset
from reports.looks import look
from reports.overview import STAR, USUAL, Line, Point, machines, overview, scope
from reports.pairs import REFERENCE
from reports.styles import DARK, LIGHT, Style

LIGHT_FILE, DARK_FILE = "ratios.png", "ratios-dark.png"
FILES = {LIGHT_FILE: LIGHT, DARK_FILE: DARK}
"""By file, what it is drawn on."""
MAP_FILES = {"map.png": LIGHT, "map-dark.png": DARK}
"""Those of the map."""
MAP_CELLS = 6
"""Cells of a panel of the map at least."""
WIDTH_PX = 640
"""How wide it is shown where there is room; the file has twice as many pixels."""
SHAPES = "osDP"
"""Of marks, a machine each; from the fifth machine on they repeat."""
TITLE = "TianJi's speed-up over each system"
SUBTITLE = "The other system's time to the same return, divided by TianJi's (log scale)"
TOP_IN, AXIS_IN, ROW_IN, LEGEND_IN = 0.94, 0.24, 0.32, 0.22
"""Heights: above the rows, of the axis's numbers, of a row, and of a line of the legend."""
HEADS = -0.85
"""Where the heads of columns stand, in rows."""
LEFT, RIGHT = 0.45, 0.78
"""Between which shares of the figure's width the axis lies."""
LEGEND_COLUMNS = 2
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TICK_WIDTH = 0.16
"""Of a tick's number, as a share of the axis's width."""
NAMES, MODES, SAID = 0.012, LEFT - 0.015, RIGHT + 0.02
"""Where texts stand beside it."""
ARROW_PT = 15
APART = 0.36
"""Between the first and the last mark of a row, in rows."""
SHORTEST, LONGEST = 0.2, 20.0
"""The axis ends here at the latest, unless a mark lies beyond: wide intervals go on outside."""
COLOURS = 256
LEAST, MOST = 0.5, 2.0
"""What the axis shows at least."""
ROOM = 1.3
"""Times as far as the outermost marks the axis reaches."""


def files(data: Dataset) -> dict[str, Style]:
    """Those that `write` makes."""
    return (FILES if overview(data) else {}) | (MAP_FILES if panels(Mapped.all(data), MAP_CELLS) else {})


def write(data: Dataset, out: Path) -> bool:
    """Write `files` into a folder; False where no two systems were compared."""
    made = files(data)
    for name, style in made.items():
        with style.applied():
            if name in FILES:
                _save(draw(overview(data), style), out / name)
            elif (drawn := pays(Mapped.all(data), style, MAP_CELLS)) is not None:
                _save(drawn.figure, out / name)
    return FILES.keys() <= made.keys()


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file)
    plt.close(figure)
    # A palette takes a third of the bytes.
    with Image.open(file) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def draw(lines: Sequence[Line], style: Style) -> Figure:
    """Draw a group of rows for each division and algorithm, and a legend below them."""
    groups = [list(own) for _, own in groupby(lines, key=lambda line: (line.division, line.algorithm))]
    legend = _legend(lines)
    rows = len(lines) + len(groups)
    below = AXIS_IN + LEGEND_IN * (math.ceil(len(legend) / LEGEND_COLUMNS) + 0.6)
    height = TOP_IN + ROW_IN * rows + below
    figure: Figure = plt.figure(figsize=(style.width_in, height))
    axis = figure.add_axes((LEFT, below / height, RIGHT - LEFT, ROW_IN * rows / height))
    _scale(axis, lines, rows)
    shapes = _shapes(lines)
    for x, text, side in ((NAMES, "Against", "left"), (SAID, "by workload", "left")):
        _write(axis, x, HEADS, text, ha=side, size="small")
    place = 0
    for group in groups:
        _write(axis, NAMES, place, _heading(group), weight="bold")
        _middle(axis, place + 0.5, place + len(group) + 0.5)
        for line, before in zip(group, [None, *group], strict=False):
            place += 1
            _row(axis, place, line, shapes, named=before is None or before.opponent != line.opponent)
        place += 1
    figure.text(NAMES, 1 - 0.1 / height, TITLE, weight="bold", size="large", va="top")
    figure.text(NAMES, 1 - 0.38 / height, SUBTITLE, size="small", va="top")
    figure.legend(handles=legend, loc="lower left", ncols=LEGEND_COLUMNS, borderaxespad=0.1)
    return figure


def _shapes(lines: Sequence[Line]) -> dict[str, str]:
    return {machine: SHAPES[number % len(SHAPES)] for number, machine in enumerate(machines(lines))}


def _heading(group: Sequence[Line]) -> str:
    """What a group is of: `DQN: 2 workloads, 5 paired blocks each`; `DQN, open division: ...`, whose rows say `tuned`."""
    named = f", {group[0].division.partition(',')[0]} division" if group[0].division != USUAL else ""
    return f"{group[0].algorithm.upper()}{named}: {scope(group)}"


def _scale(axis: Axes, lines: Sequence[Line], rows: int) -> None:
    """Lay out a logarithmic axis around 1, and say what either side of it means."""
    points = [point for line in lines for point in line.points]
    known = [end for point in points for end in point.ends if 0 < end < math.inf]
    rows_of = [point.told.leading for point in points if point.ends[0] == point.ends[1]]
    ends = [end for row in rows_of if row is not None and row["ci_low"] is not None for end in (row["ci_low"], row["ci_high"])]
    low, high = max(SHORTEST, min(LEAST, *ends, *known)), min(LONGEST, max(MOST, *ends, *known))
    axis.set_xlim(min(low, *known) / ROOM, max(high, *known) * ROOM)
    axis.set_ylim(rows - 0.5, -0.5)
    axis.set_yticks([])
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(ticks(*axis.get_xlim())))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(axis="x", which="both", length=0)
    axis.grid(visible=False)
    for text, side, away in (("TianJi slower", "right", -5), ("TianJi faster", "left", 5)):
        axis.annotate(
            text, (1, HEADS), (away, 0), size="small", ha=side, va="center", textcoords="offset points", annotation_clip=False
        )


def ticks(low: float, high: float) -> list[float]:
    """Those of `TICKS` on a logarithmic axis whose numbers do not touch: 1, and from there outwards."""
    kept = [1.0]
    for side in (
        sorted(one for one in TICKS if 1 < one <= high),
        sorted((one for one in TICKS if low <= one < 1), reverse=True),
    ):
        last = 1.0
        for one in side:
            if abs(math.log(one / last)) >= TICK_WIDTH * math.log(high / low):
                kept.append(one)
                last = one
    return sorted(kept)


def _middle(axis: Axes, top: float, bottom: float) -> None:
    """Mark 1 beside some rows, and the side on which TianJi is faster."""
    ink, most = plt.rcParams["text.color"], axis.get_xlim()[1]
    axis.vlines(axis.get_xticks(), top, bottom, color=ink, alpha=0.12, linewidth=0.8, zorder=0)
    axis.vlines(1, top, bottom, color=ink, linewidth=1.5, zorder=1)
    axis.fill_betweenx([top, bottom], 1, most, color=ink, alpha=0.06, linewidth=0, zorder=0)


def _row(axis: Axes, place: int, line: Line, shapes: Mapping[str, str], *, named: bool) -> None:
    """One line: its names, its range, its workloads, and its median."""
    if named:
        name = "TianJi, strict" if line.opponent == REFERENCE else line.title.partition(" (")[0]
        _write(axis, NAMES, place, name, style="italic" if line.same_code else "normal")
    _write(axis, MODES, place, line.mode, ha="right")
    for at, point in enumerate(line.points):
        # One above the other: marks that agree would hide each other.
        offset = APART * (at - (len(line.points) - 1) / 2) / max(1, len(line.points) - 1)
        _mark(axis, place + offset, point, shapes[point.machine])
    _write(axis, SAID, place, line.values)


def _mark(axis: Axes, place: float, point: Point, shape: str) -> None:
    """One workload: its interval, and a mark that is filled where this excludes 1; an arrow is a bound."""
    low, high = point.ends
    at = high if low == 0 else low
    if not 0 < at < math.inf:
        return
    ink, row = plt.rcParams["text.color"], point.told.leading
    if low != high:
        way = (ARROW_PT if high == math.inf else -ARROW_PT, 0)
        arrow = {"arrowstyle": "<|-", "linewidth": 1.8, "color": ink, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
        axis.annotate("", (at, place), way, textcoords="offset points", arrowprops=arrow, zorder=4)
        axis.plot(at, place, marker="|", markersize=8, markeredgewidth=1.8, color=ink, zorder=4)
        return
    colour = look(REFERENCE).colour
    if row is not None and row["ci_low"] is not None:
        axis.plot([row["ci_low"], row["ci_high"]], [place, place], color=colour, linewidth=1.4, zorder=2)
    face = colour if point.shown else plt.rcParams["figure.facecolor"]
    axis.plot(at, place, marker=shape, markersize=6.5, markeredgewidth=1.5, color=colour, markerfacecolor=face, zorder=5)


def _write(axis: Axes, x: float, place: float, text: str, **how: Any) -> None:
    """Write beside the axis, on the height of a row."""
    where = (axis.figure.transFigure + axis.transData.inverted()).transform((x, 0))[0]
    axis.text(where, place, text, va="center", clip_on=False, **how)


def _legend(lines: Sequence[Line]) -> list[Line2D]:
    """What marks mean, in the colour of text."""
    points = [point for line in lines for point in line.points]
    ink, paper = plt.rcParams["text.color"], plt.rcParams["figure.facecolor"]
    shown: dict[str, Any] = {"color": ink, "linestyle": "", "markersize": 7.5, "markeredgewidth": 1.6, "markerfacecolor": paper}
    mark = shown | {"linestyle": "-", "linewidth": 1.4, "marker": "8"}
    handles = [
        Line2D([], [], **mark | {"markerfacecolor": ink, "label": "interval on one side of 1"}),
        Line2D([], [], **mark | {"label": "no difference shown"}),
    ]
    if any(point.ends[0] != point.ends[1] for point in points):
        handles.append(
            Line2D(
                [],
                [],
                color=ink,
                marker=">",
                markevery=[1],
                markersize=6,
                label="bound: one side missed in some blocks",
            )
        )
    if any(point.starred for point in points):
        handles.append(Line2D([], [], linestyle="", label=f"{STAR} restricted means: a side missed the return"))
    handles += [Line2D([], [], **shown | {"marker": shape, "label": _short(name)}) for name, shape in _shapes(lines).items()]
    if any(line.same_code for line in lines):
        handles.append(Line2D([], [], linestyle="", label="italic: TianJi's own code"))
    return handles


def _short(machine: str) -> str:
    """A machine's name without trade marks."""
    return re.sub(r"\((R|TM)\)| Processor", "", machine)
