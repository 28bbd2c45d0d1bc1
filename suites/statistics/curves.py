"""Curves of returns: running means, and where a curve reaches a threshold. Pure functions.

They need NumPy alone: whatever plays the snapshots of a run starts with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

WINDOW = 100
"""Episodes in a training mean."""
AVERAGED = 10
"""Snapshots in a mean of evaluated returns: that of three in a row scatters twice as much."""


def running_mean(values: ArrayLike, window: int = WINDOW) -> NDArray[np.float64]:
    """Mean of the preceding `window` values, this one included; NaN until there are that many."""
    data = np.asarray(values, np.float64)
    result = np.full(len(data), np.nan)
    if len(data) >= window:
        total = np.concatenate([[0.0], np.cumsum(data)])
        result[window - 1 :] = (total[window:] - total[:-window]) / window
    return result


def crossing(returns: ArrayLike, threshold: float, window: int = WINDOW) -> int | None:
    """Index of the episode or snapshot at which the mean of the preceding `window` first reaches the threshold."""
    reached = np.flatnonzero(running_mean(returns, window) >= threshold)
    return int(reached[0]) if len(reached) else None


def streaks(values: Sequence[float], threshold: float, in_a_row: int) -> Iterator[int]:
    """Indices at which `in_a_row` values at or above the threshold begin, in order."""
    good = np.asarray(values, np.float64) >= threshold
    for i in range(len(good) - in_a_row + 1):
        if good[i : i + in_a_row].all():
            yield i
