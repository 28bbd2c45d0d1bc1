"""Interactive curves of a page: lines with intervals as JSON, and the library that draws them in a browser.

The library is Plotly's own bundle, a file of the package `plotly`. It is copied into the report and loaded when a reader opens
the curves. A page opened from a disk may not fetch JSON, so a data file is a script that calls `curves`.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from reports.looks import Line as LineStyle
from reports.looks import look

LIBRARY = "plotly.min.js"
FOLDER = "curves"
DIGITS = 5
"""Significant digits of a coordinate: more than a screen shows."""
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


class Axis(Struct, frozen=True):
    """One axis of a panel."""

    title: str
    log: bool = False


class Curve(Struct, frozen=True, kw_only=True):
    """One line of a panel."""

    name: str
    """The system's title; the curves of one system are shown and hidden together."""
    colour: str
    dash: str
    x: list[float | None]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    faint: bool = False
    marks: bool = False
    legend: bool = True


class Panel(Struct, frozen=True):
    """One diagram; a reader chooses among several."""

    title: str
    x: Axis
    y: Axis
    lines: list[Curve]
    target: float | None = None
    """Height of a horizontal line."""


def curve(label: str, name: str, x: Iterable[float], y: Iterable[float], **more: object) -> Curve:
    """A curve in the look of a system, rounded; what is no number becomes a gap."""
    own = look(label)
    edges = {key: rounded(values) for key in ("low", "high") if (values := more.pop(key, None)) is not None}
    told = {"name": name, "colour": own.colour, "dash": dash(own.line), "x": rounded(x), "y": rounded(y)}
    return msgspec.convert(told | edges | more, Curve)


def dash(line: LineStyle) -> str:
    """A line style of Matplotlib as Plotly calls it."""
    return DASHES.get(line, "dash") if isinstance(line, str) else ",".join(f"{2 * part:g}px" for part in line[1])


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


def write(panels: Iterable[tuple[str, list[Panel]]], out: Path) -> set[str]:
    """Write the data files and the library; the names of the pages that have interactive curves.

    Parameters
    ----------
    panels
        Name of a page and its diagrams, which are made only if the library is there.
    """
    source = library()
    known = {} if source is None else {name: found for name, found in panels if found}
    if source is None or not known:
        return set()
    shutil.copyfile(source, out / LIBRARY)
    (out / FOLDER).mkdir(exist_ok=True)
    for name, found in known.items():
        # JSON in ASCII is JavaScript, and nothing in it can end the script.
        text = json.dumps(msgspec.to_builtins(found), allow_nan=False, separators=(",", ":"))
        (out / FOLDER / f"{name}.js").write_text(f"curves({text});\n", encoding="ascii")
    return set(known)
