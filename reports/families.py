"""Verdicts of one table together: p-values of ratios after Holm, and wider intervals of extremes and of several looks."""

from __future__ import annotations

from collections.abc import Sequence

from reports.table import Row
from suites.statistics.families import ERROR, holm, p_value, widened


def adjusted(rows: Sequence[Row | None]) -> list[float | None]:
    """Holm's p-values of ratios of 1; None of a row without an interval, which is no member of the family."""
    known = {place: p for place, row in enumerate(rows) if (p := _p_value(row)) is not None}
    found = dict(zip(known, holm(list(known.values())), strict=True))
    return [found.get(place) for place in range(len(rows))]


def _p_value(row: Row | None) -> float | None:
    if row is None or row["ci_low"] is None:
        return None
    return p_value(row["value"], row["ci_low"], row["ci_high"], row["n"])


def shown(p: float | None) -> bool:
    """Whether a family's adjusted p-value shows a difference."""
    return p is not None and p <= ERROR


def extreme(row: Row, cells: int) -> Row:
    """The least or the greatest of several ratios, with an interval that holds for whichever it is (Bonferroni)."""
    if row["ci_low"] is None:
        return row
    low, high = widened(row["value"], row["ci_low"], row["ci_high"], row["n"], cells)
    return row | {"ci_low": low, "ci_high": high}


def looked(row: Row, looks: int) -> Row:
    """A ratio with an interval that holds for all looks at it together."""
    return row if looks == 1 or row["baseline"] is None else extreme(row, looks)
