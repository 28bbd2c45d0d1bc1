"""What a terminal is shown of a report, and of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from programs.characters import visible
from reports.regression import outcome
from reports.regression.outcome import Outcome

if TYPE_CHECKING:
    from reports.dataset import Dataset
    from reports.outside import Line, Source

WIDTH = 140
"""Columns of a table, where nobody says how many there are."""
ANSWER_WIDTH = 100
"""Columns of an answer at most."""


class Terminal:
    """Tables are fitted in; lines are left as long as they are."""

    def __init__(self) -> None:
        self._console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)

    @property
    def columns(self) -> int:
        """How wide it is."""
        return self._console.width

    @property
    def draws(self) -> bool:
        """Whether it can show more than ASCII."""
        return self._console.encoding.lower().startswith("utf")

    def line(self, text: str) -> None:
        """Print a line."""
        self._console.print(visible(text), markup=False, soft_wrap=True)

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
    table = Table(title=Text(visible(title)), title_justify="left")
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for line, style in zip_longest(lines, styles):
        table.add_row(*(Text(visible(str(cell))) for cell in line), style=style)
    return table


def told(data: Dataset) -> list[str]:
    """The answer, as it fits in."""
    from reports import answer  # A comparison needs none of what this imports.

    terminal = Terminal()
    full, open_ended = ("█", "░") if terminal.draws else ("#", ".")
    return answer.lines(data, min(terminal.columns, ANSWER_WIDTH), full, open_ended)


def show(lines: Iterable[str], page: Path) -> None:
    """The answer, and where the page is."""
    terminal = Terminal()
    for text in lines:
        terminal.line(text)
    terminal.line(f"report: {page}")


def beside(source: Source, lines: Iterable[Line], left_out: Iterable[str]) -> None:
    """Returns beside published ones, and where those are from."""
    from reports.outside import HEADS

    terminal = Terminal()
    terminal.table(table_of("Returns beside published ones", HEADS, (line.cells for line in lines)))
    for text in left_out:
        terminal.line(text)
    terminal.line(f"published: {source.source}, {source.seeds} seeds: {source.page}")


PRICED = ("workload", "machine", "price", "95 %", "blocks", "pairs", "missed")
"""Heads of the prices of staleness."""


def priced(lines: Iterable[Iterable[str]]) -> None:
    """The price of staleness on each workload."""
    terminal = Terminal()
    terminal.table(table_of("Price of staleness: log of the factor in steps a round of age", PRICED, lines))
    terminal.line("at the workload's learning rate; at another one, multiply by their ratio")
    terminal.line("tianji train --set discipline.name=auto --set discipline.price=PRICE chooses by it")


def tell(came: Outcome) -> None:
    """What a comparison comes to."""
    terminal = Terminal()
    styles = ["bold red" if line.verdict == "worse" else "" for line in came.lines]
    lines = [outcome.cells(line, came.size) for line in came.lines]
    terminal.table(table_of(came.headline, outcome.HEADS, lines, styles))
    for text in came.failed:
        terminal.line(f"failed: {text}")
    for name, reason in came.left_out.items():
        terminal.line(f"not compared: {name}: {reason}")
    terminal.line(outcome.explained(came))
