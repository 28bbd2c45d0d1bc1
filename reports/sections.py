"""Everything that a report has sections of, in the order of reading, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from reports import escaping, words
from reports.asynchrony.view import Mapped
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.disciplines.view import Ruled
from reports.price.view import Priced
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.tables import markdown
from reports.transmission.view import Traffic
from reports.view import View
from suites.records.limits import BundleError

SUITES: tuple[type[View], ...] = (Trained, Balanced, Ruled, Priced, Mapped, Traffic, Scaled)


def views(data: Dataset) -> Iterator[View]:
    """Each workload of each suite.

    Raises
    ------
    BundleError
        when two would be written under one name.
    """
    taken = set()
    for view in (view for suite in SUITES for view in suite.all(data)):
        if view.slug in taken:
            raise BundleError(
                f"{view.bundles[0].path}: two sections of the report would be called {view.slug}: report them apart"
            )
        taken.add(view.slug)
        yield view


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
        escaping.csv(frame, folder / f"{name}.csv")
        (folder / f"{name}.md").write_text(markdown(frame), encoding="utf-8")
        (folder / f"{name}.tex").write_text(words.render("table.tex.j2", table=frame), encoding="utf-8")
