"""What is drawn: diagrams as plain values, which pages draw with Plotly and papers with Matplotlib.

A page has its diagrams in a data file beside it. A page opened from a disk may not fetch JSON, so that file is a script that
calls `charts`. The library is Plotly's own bundle, a file of the package `plotly`, copied once for all pages.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reports.looks import Line, look
from reports.table import Row

LIBRARY = "plotly.min.js"
FOLDER = "charts"
DIGITS = 4
"""Significant digits of a coordinate: more than a screen shows."""
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
MARKERS = {
    "o": "circle", "D": "diamond", "d": "diamond-tall", "s": "square", "^": "triangle-up", "v": "triangle-down", "X": "x",
    "<": "triangle-left", ">": "triangle-right", "P": "cross", "p": "pentagon", "h": "hexagon", "H": "hexagon", "*": "star",
}  # fmt: skip
"""Markers of Matplotlib as Plotly calls them."""


class Axis(Struct, frozen=True):
    """One axis of a diagram."""

    title: str
    log: bool = False


class Curve(Struct, frozen=True, kw_only=True):
    """One line, set of marks or set of bars."""

    name: str
    """Of the legend; curves of one name are shown and hidden together."""
    x: list[float | None]
    y: list[float | str | None]
    """Names of rows, where it is bars."""
    colour: str
    line: Line = "-"
    """As Matplotlib has it; empty: no line."""
    marker: str = ""
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    """Ends of intervals: a band around a line, strokes at marks and bars."""
    text: list[str] | None = None
    """Beside each mark or bar."""
    faint: bool = False
    legend: bool = True
    hatch: str = ""
    """Of bars in a paper, which may be grey."""


class Panel(Struct, frozen=True):
    """One diagram."""

    title: str
    x: Axis
    y: Axis
    curves: list[Curve]
    kind: Literal["lines", "bars"] = "lines"
    """Bars lie; several in one row follow each other."""
    target: float | None = None
    """Height of a horizontal line."""


class Group(Struct, frozen=True):
    """Diagrams among which a reader chooses, and what they show."""

    title: str
    about: str
    panels: list[Panel]


def curve(label: str, name: str, x: Iterable[float], y: Iterable[float], **more: object) -> Curve:
    """A line in the look of a system, rounded; what is no number becomes a gap."""
    own = look(label)
    edges = {key: rounded(values) for key in ("low", "high") if (values := more.pop(key, None)) is not None}
    told = {"name": name, "colour": own.colour, "line": own.line, "x": rounded(x), "y": rounded(y)}
    return msgspec.structs.replace(Curve(**told), **edges, **more)  # type: ignore[arg-type]


def of_rows(label: str, name: str, against: str, rows: Sequence[Row], scale: float = 1.0) -> Curve:
    """Rows of one system against what they have in `against`, with their intervals where all have one."""
    x, y, low, high = ([row[key] for row in rows] for key in (against, "value", "ci_low", "ci_high"))
    told = {} if None in low else {"low": [scale * one for one in low], "high": [scale * one for one in high]}
    return curve(label, name, x, [scale * one for one in y], marker=look(label).marker, **told)


def stacked(title: str, unit: str, parts: Iterable[tuple[str, str, float]], looks: Mapping[str, tuple[str, str]]) -> Panel:
    """Shares of rows as bars that follow each other.

    Parameters
    ----------
    parts
        row, part and percent.
    looks
        colour and pattern of each part, in their order.
    """
    curves = {part: Curve(name=part, x=[], y=[], colour=colour, hatch=hatch) for part, (colour, hatch) in looks.items()}
    for row, part, percent in parts:
        curves[part].x.append(round(percent, 1))
        curves[part].y.append(row)
    return Panel(title, Axis(unit), Axis(""), [one for one in curves.values() if one.x], "bars")


def rounded(values: object) -> list[float | None]:
    """Numbers with as many digits as are seen; None where there is none."""
    found = [None if value is None else float(value) for value in values]  # type: ignore[attr-defined]
    return [None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}") for value in found]


def library() -> Path | None:
    """The bundle of the package `plotly`, or None where that is not installed."""
    spec = find_spec("plotly")
    places = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    files = (Path(place, "package_data", LIBRARY) for place in places)
    return next((file for file in files if file.is_file()), None)


def write(pages: Mapping[str, Sequence[Group]], out: Path) -> None:
    """Write the data file of each page that has diagrams, and the library if it is installed."""
    (out / FOLDER).mkdir(exist_ok=True)
    if (source := library()) is not None:
        shutil.copyfile(source, out / LIBRARY)
    for name, groups in pages.items():
        told = [{"panels": [_plotly(panel) for panel in group.panels]} for group in groups]
        # JSON in ASCII is JavaScript, and nothing in it can end the script.
        text = json.dumps(told, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        (out / FOLDER / f"{name}.js").write_text(f"charts({text});\n", encoding="ascii")


def _plotly(panel: Panel) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(panel)
    told["curves"] = [
        {key: value for key, value in msgspec.to_builtins(one).items() if value not in (None, "", False) or key == "legend"}
        | {"line": _dash(one.line), "marker": MARKERS.get(one.marker, "")}
        for one in panel.curves
    ]
    return told


def _dash(line: Line) -> str:
    if isinstance(line, str):
        return DASHES.get(line, "")
    return ",".join(f"{2 * part:g}px" for part in line[1])
