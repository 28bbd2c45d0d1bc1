"""Ratios of times to a threshold as they may be told: where one side did not always get there, a bound stands for the ratio.

The ratio itself is over the blocks in which both got there, the easy ones; a bound also knows of the others
(`suites.statistics.crossings.time_ratios`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reports.table import Row
from reports.tables import inverse, with_interval

METRIC = "time_to_threshold_ratio"
SIGNS = {"at_least": "> ", "at_most": "< ", "": ""}
WORDS = {"at_least": "more than ", "at_most": "less than ", "": ""}
INVERSES = {"at_least": "at_most", "at_most": "at_least"}
NOTHING, NEITHER = "-", "not comparable"


class Told(NamedTuple):
    """What stands for a pair: nothing, a row of the summary that has a value, or that they cannot be compared."""

    row: Row | None
    bound: str = ""
    """Which one of `SIGNS` the row's value has."""
    neither: bool = False
    """Each got there in blocks in which the other did not: the ratio has no bound on either side."""

    @property
    def words(self) -> str:
        """As a table has it: `1.35x [1.21, 1.51]`, or `> 3.29x (2 of 5)`."""
        if self.row is None:
            return NEITHER if self.neither else NOTHING
        return SIGNS[self.bound] + counted(self.row)

    @property
    def exact(self) -> bool:
        """Whether it is a ratio over all blocks."""
        return self.row is not None and not self.bound and not self.row["censored"]

    @property
    def inverse(self) -> Told:
        """Of the other one to this one."""
        return Told(inverse(self.row), INVERSES.get(self.bound, self.bound), self.neither)


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
    if known.keys() >= {"at_least", "at_most"}:
        return Told(None, neither=True)
    return next((Told(row, bound) for bound, row in known.items()), Told(None))


def counted(row: Row | None) -> str:
    """A ratio with its interval, and of how many of its blocks it is, where not of all."""
    text = with_interval(row, "x")
    return f"{text} ({row['n']} of {row['n'] + row['censored']})" if row and row["value"] and row["censored"] else text
