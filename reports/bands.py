"""Learning curves of several runs as one: a running median, and a band that holds the middle half of the runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

PLACES = 120
"""Of a curve."""
WINDOW = 0.03
"""Half the width of a running median, as a share of the logarithmic axis."""


def band(runs: Sequence[pd.DataFrame], start: float, along: str = "seconds", places: int = PLACES) -> pd.DataFrame:
    """Summarise the curves of one system.

    Each run has a running median over a window of a logarithmic axis. At each place those runs count that have begun and
    have not ended. Where these are fewer than half of all, the curve has no point.

    Parameters
    ----------
    runs
        columns `along` and mean_return, a row a point.
    start
        where the axis begins, above 0.
    along
        column of the axis, `seconds` or `steps`.

    Returns
    -------
    pd.DataFrame
        Columns `along`, median, low, high (quartiles over runs) and runs (how many count there).
    """
    end = max(float(run[along].max()) for run in runs)
    axis = np.geomspace(start, max(end, start * 1.001), places)
    width = (end / start) ** WINDOW
    values = np.array([_running(run, along, axis, width) for run in runs])
    counts = np.isfinite(values).sum(axis=0)
    kept = 2 * counts >= len(runs)
    if not kept.any():
        return pd.DataFrame(columns=[along, "median", "low", "high", "runs"], dtype=float)
    low, median, high = np.nanpercentile(values[:, kept], (25, 50, 75), axis=0)
    return pd.DataFrame({along: axis[kept], "median": median, "low": low, "high": high, "runs": counts[kept]})


def _running(run: pd.DataFrame, along: str, places: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """A run's running median at some places; nothing before its first point and after its last."""
    ordered = run.sort_values(along, kind="stable")
    passed, returns = ordered[along].to_numpy(float), ordered["mean_return"].to_numpy(float)
    first = np.searchsorted(passed, places / width, "left")
    last = np.searchsorted(passed, places * width, "right")
    before = np.searchsorted(passed, places, "right")
    found = np.full(len(places), np.nan)
    for at, (begin, stop, known) in enumerate(zip(first, last, before, strict=True)):
        if known and places[at] <= passed[-1]:
            # Between two points that are far apart the earlier one holds.
            found[at] = np.median(returns[begin:stop]) if stop > begin else returns[known - 1]
    return found
