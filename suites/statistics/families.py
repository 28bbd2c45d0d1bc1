"""Verdicts that are given together: Holm's step-down procedure, and intervals that are widened for how many there are.

One interval in twenty excludes 1 where nothing differs. A table of many verdicts therefore holds some by chance, and so does
the lowest of many ratios. A family's p-values are adjusted (S. Holm, "A Simple Sequentially Rejective Multiple Test
Procedure", Scandinavian Journal of Statistics 6, 1979). An extreme of several intervals gets a wider one (Bonferroni).

Functions are pure. This module imports no other package of the project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ERROR = 0.05
"""The chance that any verdict of a family is wrong where nothing differs; 1 less that is the confidence of an interval."""


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order of `ps`: those at most `ERROR` are shown, for the whole family together.

    The smallest is multiplied by how many there are, the next one by one less, and so on. None is below the one before it.
    """
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda at: ps[at])):
        least = max(least, min(1.0, ps[place] * (len(ps) - rank)))
        adjusted[place] = least
    return adjusted


def p_value(value: float, low: float, high: float, n: int) -> float:
    """Two-sided p-value of a ratio of 1, from a 95 % interval of Student's t on logarithms of n ratios.

    A bootstrap's interval is read in the same way, by its end on the side of 1.
    """
    distance = math.log(value)
    width = math.log(value / low) if distance > 0 else math.log(high / value)
    if width <= 0:
        return 1.0 if distance == 0 else 0.0
    from scipy.special import stdtr

    return 2 * float(stdtr(n - 1, -abs(distance) / width * _quantile(n, 1)))


def widened(value: float, low: float, high: float, n: int, times: float) -> tuple[float, float]:
    """The interval of such a ratio at an error of 5 % divided by `times`."""
    by = _quantile(n, times) / _quantile(n, 1)
    return value * (low / value) ** by, value * (high / value) ** by


def _quantile(n: int, times: float) -> float:
    """Half the width of an interval of n values, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 1 - ERROR / times / 2))
