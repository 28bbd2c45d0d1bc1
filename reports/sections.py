"""How each suite is reported: its views, its tables, and in what order a page shows tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from reports import words
from reports.convergence import tables as convergence
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.scaling import tables as scaling
from reports.scaling.view import Scaled
from reports.staleness import tables as staleness
from reports.staleness.view import Balanced
from reports.tables import markdown
from reports.transmission import tables as transmission
from reports.transmission.view import Traffic
from reports.view import View


class Section(NamedTuple):
    """Of one suite."""

    of: type[View]
    tables: Mapping[str, Callable[[Any], pd.DataFrame]]
    """By how their names end, after the view's."""
    parts: tuple[str, ...]
    """Tables and figures of a page in the order of reading; a table goes before a figure of the same name."""


SECTIONS = (
    Section(Trained, convergence.TABLES, ("ratios", "threshold", "curves", "time", "resources", "certificate")),
    Section(Balanced, staleness.TABLES, ("balance", "waiting", "lag")),
    Section(Traffic, transmission.TABLES, ("size", "explorers", "share", "latency", "ratio", "room", "goodput", "cost")),
    Section(
        Scaled,
        scaling.TABLES,
        (
            *("most", "speedup", "throughput", "efficiency", "nodes", "convergence", "times", "laws"),
            *("wire", "traffic", "busy", "checks", "setup"),
        ),
    ),
)


def views(data: Dataset) -> Iterator[tuple[Section, View]]:
    """Everything that a page has a section of, in the order of reading."""
    for section in SECTIONS:
        for view in section.of.all(data):
            yield section, view


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table that says anything, by name."""
    made = {f"{view.slug}-{name}": make(view) for section, view in views(data) for name, make in section.tables.items()}
    return {name: frame for name, frame in made.items() if not frame.empty}


def headlines(data: Dataset) -> list[str]:
    """What came of staleness, messages and nodes, in a sentence a view."""
    return [line for section, view in views(data) if section.of is not Trained for line in view.words.lines("headlines")]


def write(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write each table three times: as CSV, Markdown and LaTeX."""
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.md").write_text(markdown(frame), encoding="utf-8")
        (folder / f"{name}.tex").write_text(words.render("table.tex.j2", table=frame), encoding="utf-8")
