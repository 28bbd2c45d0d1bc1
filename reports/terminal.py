"""What a terminal is shown of a report, and of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
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
PRICED = ("workload", "machine", "price", "95 %", "blocks", "pairs", "missed")
"""Heads of the prices of staleness."""
PRICED_BELOW = (
    "at the workload's learning rate; at another one, multiply by their ratio",
    "tianji train --set discipline.name=auto --set discipline.price=PRICE chooses by it",
)


def console() -> Console:
    """The terminal: tables are fitted in."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def show(lines: Iterable[str], table: Table | None = None) -> None:
    """Print a table, and lines below it, which are left as long as they are."""
    terminal = console()
    if table is not None:
        terminal.print(table)
    for text in lines:
        terminal.print(visible(text), markup=False, soft_wrap=True)


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

    terminal = console()
    full, open_ended = ("█", "░") if terminal.encoding.lower().startswith("utf") else ("#", ".")
    return answer.lines(data, min(terminal.width, ANSWER_WIDTH), full, open_ended)


def beside(source: Source, lines: Iterable[Line], left_out: Iterable[str]) -> None:
    """Returns beside published ones, and where those are from."""
    from reports.outside import HEADS

    table = table_of("Returns beside published ones", HEADS, (line.cells for line in lines))
    show([*left_out, f"published: {source.source}, {source.seeds} seeds: {source.page}"], table)


def priced(lines: Iterable[Iterable[str]]) -> None:
    """The price of staleness on each workload."""
    show(PRICED_BELOW, table_of("Price of staleness: log of the factor in steps a round of age", PRICED, lines))


def tell(came: Outcome) -> None:
    """What a comparison comes to."""
    styles = ["bold red" if line.verdict == "worse" else "" for line in came.lines]
    table = table_of(came.headline, outcome.HEADS, (outcome.cells(line, came.size) for line in came.lines), styles)
    failed = [f"failed: {text}" for text in came.failed]
    left_out = [f"not compared: {name}: {reason}" for name, reason in came.left_out.items()]
    show([*failed, *left_out, outcome.explained(came)], table)
