"""Ratios of times to a threshold as they may be told: where one side did not always get there, a bound stands for the ratio.

The ratio itself is over the blocks in which both got there, the easy ones; a bound also knows of the others
(`suites.crossings.time_bounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from reports.tables import with_interval

METRIC = "time_to_threshold_ratio"
SIGNS = {"at_least": ">", "at_most": "<"}
WORDS = {"at_least": "more than ", "at_most": "less than ", "": ""}
NOTHING = "-"

Row = dict[str, Any]


class Told(NamedTuple):
    """A row of the summary that has a value."""

    row: Row
    bound: str
    """One of `SIGNS`; empty: the ratio itself."""


def told(find: Callable[[str], Row | None]) -> list[Told]:
    """What there is to tell of a pair: its bounds (two, where either was without the other), or its ratio, or nothing.

    Parameters
    ----------
    find
        from a metric to the pair's row.
    """

    def having(suffix: str) -> list[Told]:
        row = find("_".join(filter(None, (METRIC, suffix))))
        return [] if row is None or row["value"] is None else [Told(row, suffix)]

    return [one for bound in SIGNS for one in having(bound)] or having("")


def text(found: list[Told]) -> str:
    """`1.35x [1.21, 1.51]`, or `> 3.29x`."""
    return " and ".join(f"{SIGNS.get(one.bound, '')} {with_interval(one.row, 'x')}".lstrip() for one in found) or NOTHING
