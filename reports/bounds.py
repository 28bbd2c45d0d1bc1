"""Ratios of times to a threshold as they may be told: where a side did not always get there, what counts all blocks leads.

The ratio itself is over the blocks in which both got there, the easy ones; a bound also knows of the others
(`suites.statistics.crossings.time_ratios`). The ratios of expected running times and of restricted means count every block
(`all_ratios`), so they come first, and a bound never stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reports.table import Row
from reports.tables import number, with_interval
from suites.statistics.crossings import RATIO, RESTRICTED, RUNNING
from suites.statistics.families import widened

METRIC = RATIO
SIGNS = {"at_least": "> ", "at_most": "< ", "": ""}
NOTHING, NEITHER = "-", "not comparable"


class Told(NamedTuple):
    """What stands for a pair: nothing, a row of the summary that has a value, or that they cannot be compared."""

    row: Row | None
    bound: str = ""
    """Which one of `SIGNS` the row's value has."""
    neither: bool = False
    """Each got there in blocks in which the other did not: the ratio has no bound on either side."""
    mean: Row | None = None
    """The ratio of restricted means, where a side missed the target in some block."""
    running: Row | None = None
    """The ratio of expected running times, likewise; none where a side never reached it."""

    @property
    def words(self) -> str:
        """As a table has it: `1.35x [1.21, 1.51]`, or `ERT 1.10x, restricted mean 1.20x [0.9, 1.6]; > 3.29x (2 of 5)`."""
        lead, easy = self.lead, self._easy
        return "; ".join(filter(None, (lead, "" if lead and easy == NOTHING else easy)))

    @property
    def lead(self) -> str:
        """What counts every block, as text; empty where every block is in the ratio."""
        ert = "" if self.running is None else f"ERT {number(self.running['value'])}x"
        mean = "" if self.mean is None else f"restricted mean {with_interval(self.mean, 'x')}"
        return ", ".join(filter(None, (ert, mean)))

    @property
    def _easy(self) -> str:
        """Of the blocks in which both sides, or one, reached the target."""
        if self.row is None:
            return NEITHER if self.neither else NOTHING
        return SIGNS[self.bound] + counted(self.row)

    @property
    def leading(self) -> Row | None:
        """The row that a verdict is read from: the ratio, or the restricted means where it is not of all blocks."""
        return self.row if self.exact or self.mean is None else self.mean

    @property
    def exact(self) -> bool:
        """Whether it is a ratio over all blocks."""
        return self.row is not None and not self.bound and not self.row["censored"]


def told(find: Callable[[str], Row | None]) -> Told:
    """What there is to tell of a pair: a bound, or else its ratio.

    A bound covers the blocks in which one side reached the target. If only the other side missed it, these are all blocks
    that any side solved. If each side missed it in a block that the other solved, no bound covers all of them.

    Parameters
    ----------
    find
        from a metric to the pair's row.
    """
    rows = {bound: find("_".join(filter(None, (METRIC, bound)))) for bound in SIGNS}
    known = {bound: row for bound, row in rows.items() if row is not None and row["value"] is not None}
    mean, running = (row if row and row["value"] is not None else None for row in map(find, (RESTRICTED, RUNNING)))
    if known.keys() >= {"at_least", "at_most"}:
        return Told(None, neither=True, mean=mean, running=running)
    bound, row = next(iter(known.items()), ("", None))
    return Told(row, bound, mean=mean, running=running)


def counted(row: Row | None) -> str:
    """A ratio with its interval, and of how many of its blocks it is, where not of all."""
    text = with_interval(row, "x")
    return f"{text} ({row['n']} of {row['n'] + row['censored']})" if row and row["value"] and row["censored"] else text


def extreme(row: Row, cells: int) -> Row:
    """The least or the greatest of several ratios, with an interval that holds for whichever it is (Bonferroni)."""
    if row["ci_low"] is None:
        return row
    low, high = widened(row["value"], row["ci_low"], row["ci_high"], row["n"], cells)
    return row | {"ci_low": low, "ci_high": high}


def looked(row: Row, looks: int) -> Row:
    """A ratio with an interval that holds for all looks at it together."""
    return row if looks == 1 or row["baseline"] is None else extreme(row, looks)
