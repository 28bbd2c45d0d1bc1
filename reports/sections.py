"""Everything that a report has sections of, in the order of reading, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from reports import words
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.tables import markdown
from reports.transmission.view import Traffic
from reports.view import View

SUITES: tuple[type[View], ...] = (Trained, Balanced, Traffic, Scaled)


def views(data: Dataset) -> Iterator[View]:
    """Each workload of each suite."""
    for suite in SUITES:
        yield from suite.all(data)


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table by name."""
    return {f"{view.slug}-{kind}": frame for view in views(data) for kind, frame in view.tables().items()}


def headlines(data: Dataset) -> list[str]:
    """What came of staleness, messages and nodes, in a sentence a view."""
    return [line for suite in SUITES[1:] for view in suite.all(data) for line in view.words.lines("headlines")]


def write(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write each table three times: as CSV, Markdown and LaTeX."""
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.md").write_text(markdown(frame), encoding="utf-8")
        (folder / f"{name}.tex").write_text(words.render("table.tex.j2", table=frame), encoding="utf-8")
