"""What a terminal is shown of a report, and of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reports import sections
from reports.convergence.standings import standings
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.regression import outcome
from reports.regression.outcome import Outcome
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.transmission.view import Traffic

WIDTH = 140
"""Columns, where nobody says how many there are."""
HEADLINE_TABLES = ("-threshold", "-ratios", "-ratio", "-balance", "-speedup")
"""How the names of tables end that are shown."""


class Terminal:
    """Tables are fitted in; lines are left as long as they are."""

    def __init__(self) -> None:
        self._console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)

    def line(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table."""
        self._console.print(table)


def table_of(title: str, heads: Iterable[str], lines: Iterable[Iterable[object]], styles: Sequence[str] = ()) -> Table:
    """A table whose texts stand as they are: names with brackets are not markup, and are folded, not cut off.

    Parameters
    ----------
    styles
        of lines; none given: all alike.
    """
    table = Table(title=Text(title), title_justify="left")
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for line, style in zip_longest(lines, styles):
        table.add_row(*(Text(str(cell)) for cell in line), style=style)
    return table


def show(data: Dataset, tables: dict[str, pd.DataFrame]) -> None:
    """The headline tables of a report, what failed, and what it says in sentences."""
    terminal = Terminal()
    for name, frame in tables.items():
        if name.endswith(HEADLINE_TABLES):
            terminal.table(table_of(name, frame.columns, frame.itertuples(index=False)))
    for m in (b.manifest for b in data.bundles if b.manifest.status != "completed"):
        terminal.line(f"failed: {m.workload}, block {m.block}, {m.system}: {(m.error or '').splitlines()[-1]}")
    for m, reason in ((b.manifest, reason) for b, reason in data.unusable):
        terminal.line(f"not counted: {m.workload}, block {m.block}, {m.system}: {reason}")
    for view in (*Balanced.all(data), *Traffic.all(data)):
        for text in view.findings:
            terminal.line(f"{view.subject}: {text}")
    for scaled in Scaled.all(data):
        for text in scaled.words.lines("against_others"):
            terminal.line(f"{scaled.words.say('title')}: {text}")
    compared = [text for trained in Trained.all(data) for text in trained.words.lines("headlines")]
    for text in [*compared, *standings(data).sentences, *sections.headlines(data)]:
        terminal.line(text)


def tell(came: Outcome) -> None:
    """What a comparison comes to."""
    terminal = Terminal()
    styles = ["bold red" if line.verdict == "worse" else "" for line in came.lines]
    terminal.table(table_of(came.headline, outcome.HEADS, map(outcome.cells, came.lines), styles))
    for text in came.failed:
        terminal.line(f"failed: {text}")
    for name, reason in came.left_out.items():
        terminal.line(f"not compared: {name}: {reason}")
    terminal.line(outcome.explained(came))
