"""The README's two pictures, in light and in dark: seconds to a return as bars, and learning curves of the same runs.

Both are of one workload on one machine. What they show is kept as JSON beside them, and is what a check compares: another
machine's fonts place points otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from reports.asynchrony.figures import panels, pays
from reports.asynchrony.view import Mapped
from reports.convergence.bands import band
from reports.convergence.figures import EARLIEST_S
from reports.dataset import Dataset
from reports.front import Column, columns
from reports.looks import DASHED, GREY, ORANGE, VERMILION
from reports.marks import plain_log
from reports.pairs import REFERENCE, RELAXED, first_runs
from reports.styles import DARK, LIGHT, Style
from reports.tables import number

VALUES = "pictures.json"
FILES, MAP = ("seconds", "curves"), "map"
"""Names without `.png` and `-dark.png`. The map is that of the documentation."""
MAP_CELLS = 6
"""Cells of a panel of the map at least."""
STYLES = {"": LIGHT, "-dark": DARK}
COLOURS = {REFERENCE: VERMILION, RELAXED: ORANGE}
"""Of TianJi's two modes; all others are grey."""
SHORT = {"rllib-old": "RLlib 2.9"}
"""What a bar is called where a title without its brackets would not do."""
PALETTE = 256
HEIGHT_IN = 4.2
DIGITS = 4


def write(data: Dataset, out: Path) -> bool:
    """Write the pictures and their values into a folder; False where no two systems were compared."""
    shown = columns(data)
    if not shown:
        return False
    out.mkdir(parents=True, exist_ok=True)
    told = values(data)
    (out / VALUES).write_text(json.dumps(told, indent=0) + "\n", encoding="utf-8")
    for ending, style in STYLES.items():
        with style.applied():
            _save(_bars(shown[0], told["seconds"], style), out / f"seconds{ending}.png")
            _save(_curves(shown[0], told["curves"], style), out / f"curves{ending}.png")
            if (drawn := pays(Mapped.all(data), style, MAP_CELLS)) is not None:
                _save(drawn.figure, out / f"{MAP}{ending}.png")
    return True


def names(data: Dataset) -> list[str]:
    """Files that `write` makes."""
    made = [*FILES, *([MAP] if panels(Mapped.all(data), MAP_CELLS) else [])]
    return [VALUES, *(f"{name}{ending}.png" for name in made for ending in STYLES)]


def values(data: Dataset) -> dict[str, Any]:
    """Everything that is drawn: of each system its seconds and counts, and its curve with the band."""
    column = columns(data)[0]
    titles = {b.manifest.system: b.manifest.system_title for b in data.bundles}
    cells = sorted(column.cells.items(), key=lambda one: (one[1].seconds is None, one[1].seconds or one[1].spent))
    seconds = [
        {
            "system": system,
            "title": SHORT.get(system, titles[system].partition(" (")[0]),
            "seconds": _rounded(cell.seconds),
            "spent": _rounded(cell.spent),
            "reached": cell.reached,
            "runs": cell.runs,
        }
        for system, cell in cells
    ]
    return {"workload": column.workload, "machine": column.machine, "seconds": seconds, "curves": _medians(data, column)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _medians(data: Dataset, column: Column) -> list[dict[str, Any]]:
    frame = data.series["curves-training"]
    frame = frame[(frame["workload"] == column.workload) & (frame["machine"] == column.machine) & (frame["options"] == "")]
    found = []
    for system in first_runs(column.cells):
        runs = [run for _, run in frame[frame["system"] == system].groupby(["session", "block"])]
        if runs:
            points = band(runs, EARLIEST_S)
            kept = points[["seconds", "median", "low", "high"]].map(_rounded)
            found.append({"system": system, "runs": len(runs), **{str(name): kept[name].tolist() for name in kept}})
    return found


def _bars(column: Column, shown: Sequence[dict[str, Any]], style: Style) -> Figure:
    """A bar a system, the quickest on top; a bar of a system of which no run got there is hatched."""
    figure, (axis,) = style.axes((HEIGHT_IN, HEIGHT_IN))
    ink = plt.rcParams["text.color"]
    most = max(one["seconds"] or 0 for one in shown)
    for place, one in enumerate(shown):
        colour, length = COLOURS.get(one["system"], GREY), one["seconds"] or most
        bar: dict[str, Any] = {"color": colour} if one["seconds"] else {"color": "none", "edgecolor": colour, "hatch": "///"}
        axis.barh(place, length, height=0.72, **bar)
        missed = f" ({one['reached']}/{one['runs']})" if one["reached"] < one["runs"] else ""
        value = number(one["seconds"]) if one["seconds"] else f"> {number(one['spent'])}"
        axis.annotate(f"{value} s{missed}", (length, place), (4, 0), textcoords="offset points", va="center", color=ink)
    axis.set_yticks(range(len(shown)), [one["title"] for one in shown])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.5 * most)
    axis.set_xlabel(f"seconds to a mean return of {column.target:g}")
    axis.set_title(f"{column.workload}: time to the return", loc="left")
    axis.grid(visible=False, axis="y")
    return figure


def _curves(column: Column, shown: Sequence[dict[str, Any]], style: Style) -> Figure:
    """Medians with the middle half of the runs, TianJi on top."""
    figure, (axis,) = style.axes((HEIGHT_IN, HEIGHT_IN))
    for one in sorted(shown, key=lambda one: (one["system"] in COLOURS, one["system"] == REFERENCE)):
        colour, own = (
            COLOURS.get(one["system"], GREY),
            pd.DataFrame({key: one[key] for key in ("seconds", "median", "low", "high")}),
        )
        front = one["system"] in COLOURS
        axis.plot(own["seconds"], own["median"], color=colour, linewidth=2.2 if front else 1.1)
        axis.fill_between(own["seconds"], own["low"], own["high"], color=colour, alpha=0.22 if front else 0.08, linewidth=0)
    _legend(axis, [one["system"] for one in shown])
    axis.axhline(column.target, color=plt.rcParams["text.color"], linewidth=0.8, linestyle=DASHED)
    plain_log(axis.xaxis)
    axis.set_xlabel("seconds from the first step (log scale)")
    axis.set_title(f"{column.workload}: mean return of 100 episodes", loc="left")
    return figure


def _legend(axis: Axes, systems: Sequence[str]) -> None:
    told = {REFERENCE: "TianJi, strict", RELAXED: "TianJi, relaxed"}
    for system in (system for system in told if system in systems):
        axis.plot([], [], color=COLOURS[system], linewidth=2.2, label=told[system])
    others = len([system for system in systems if system not in told])
    if others:
        axis.plot([], [], color=GREY, linewidth=1.1, label=f"{others} other{'s' * (others != 1)}")
    axis.legend(loc="upper left")


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file)
    plt.close(figure)
    # A palette takes a third of the bytes.
    with Image.open(file) as drawn:
        few = drawn.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
