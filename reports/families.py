"""Wider intervals: of an extreme of several ratios, and of what was looked at several times."""

from __future__ import annotations

from reports.table import Row
from suites.statistics.families import widened


def extreme(row: Row, cells: int) -> Row:
    """The least or the greatest of several ratios, with an interval that holds for whichever it is (Bonferroni)."""
    if row["ci_low"] is None:
        return row
    low, high = widened(row["value"], row["ci_low"], row["ci_high"], row["n"], cells)
    return row | {"ci_low": low, "ci_high": high}


def looked(row: Row, looks: int) -> Row:
    """A ratio with an interval that holds for all looks at it together."""
    return row if looks == 1 or row["baseline"] is None else extreme(row, looks)
