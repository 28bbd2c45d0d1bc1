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
from matplotlib.figure import Figure
from PIL import Image

from reports.bands import band
from reports.charts import Axis, Curve, Panel
from reports.dataset import Dataset
from reports.front import Column, columns
from reports.looks import GREY, ORANGE, VERMILION
from reports.pairs import REFERENCE, RELAXED, first_runs
from reports.plots import DARK, LIGHT, draw
from reports.tables import number
from reports.training import EARLIEST
from reports.waiting import Mapped

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
            _save(draw([_bars(shown[0], told["seconds"])], style, HEIGHT_IN), out / f"seconds{ending}.png")
            _save(draw([_curves(shown[0], told["curves"])], style, HEIGHT_IN), out / f"curves{ending}.png")
            if cells := _map(data):
                _save(draw(cells, style, HEIGHT_IN * 0.8, len(cells)), out / f"{MAP}{ending}.png")
    return True


def names(data: Dataset) -> list[str]:
    """Files that `write` makes."""
    made = [*FILES, *([MAP] if _map(data) else [])]
    return [VALUES, *(f"{name}{ending}.png" for name in made for ending in STYLES)]


def _map(data: Dataset) -> list[Panel]:
    return [panel for view in Mapped.all(data) for panel in view.panels(MAP_CELLS)]


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
            points = band(runs, EARLIEST["seconds"])
            kept = points[["seconds", "median", "low", "high"]].map(_rounded)
            found.append({"system": system, "runs": len(runs), **{str(name): kept[name].tolist() for name in kept}})
    return found


def _bars(column: Column, shown: Sequence[dict[str, Any]]) -> Panel:
    """A bar a system, the quickest on top; that of a system of which no run got there is hatched and as long as the longest."""
    most = max(one["seconds"] or 0 for one in shown)
    curves = []
    for one in shown:
        missed = f" ({one['reached']}/{one['runs']})" if one["reached"] < one["runs"] else ""
        value = number(one["seconds"]) if one["seconds"] else f"> {number(one['spent'])}"
        told = {"name": one["title"], "x": [one["seconds"] or most], "y": [one["title"]], "text": [f"{value} s{missed}"]}
        hatch = "" if one["seconds"] else "///"
        curves.append(Curve(**told, colour=COLOURS.get(one["system"], GREY), legend=False, hatch=hatch))
    said = Axis(f"seconds to a mean return of {column.target:g}")
    return Panel(f"{column.workload}: time to the return", said, Axis(""), curves, "bars")


def _curves(column: Column, shown: Sequence[dict[str, Any]]) -> Panel:
    """Medians with the middle half of the runs, TianJi on top."""
    names = {REFERENCE: "TianJi, strict", RELAXED: "TianJi, relaxed"}
    others = f"{sum(one['system'] not in names for one in shown)} others"
    curves = [
        Curve(
            name=names.get(one["system"], others),
            x=one["seconds"],
            y=one["median"],
            low=one["low"],
            high=one["high"],
            colour=COLOURS.get(one["system"], GREY),
        )
        for one in sorted(shown, key=lambda one: (one["system"] in COLOURS, one["system"] == REFERENCE))
    ]
    title = f"{column.workload}: mean return of 100 episodes"
    return Panel(title, Axis("seconds from the first step", log=True), Axis(""), curves, "lines", column.target)


def _save(figure: Figure, file: Path) -> None:
    figure.savefig(file)
    plt.close(figure)
    # A palette takes a third of the bytes.
    with Image.open(file) as drawn:
        few = drawn.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
