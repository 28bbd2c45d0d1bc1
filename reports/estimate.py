"""How many times as fast one system reaches a return as another: a log-ratio, its error, and a p-value, from single runs.

Runs of one block are paired. Sessions and machines are strata: their means may differ, and an interval holds that variance.
Where every run of a workload reached the return, its log-ratio is the mean over pairs. Where any run missed it, it is that of
expected running times: all time spent over the number of successes. Pure functions; nothing here says who is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from suites.statistics.intervals import MINIMUM_FOR_INTERVAL, SEED, pooled

RESAMPLES = 4_000
"""Bootstrap samples of a ratio of expected running times."""
FEWEST_FOR_SLOPE = 8
"""Pairs beyond the number of strata from which on the machine's speed is taken out."""
STRATUM = ["machine", "session"]
PAIR = [*STRATUM, "block"]


@dataclass(frozen=True)
class Term:
    """The log of a ratio of times, how well it is known, and the runs that it is of."""

    log: float
    variance: float
    """Of `log`; NaN with fewer than `MINIMUM_FOR_INTERVAL` pairs."""
    freedom: float
    """Degrees of freedom of `variance`."""
    pairs: int
    strata: int
    ours: tuple[int, int]
    """Runs of the first system that reached the return, and all of them."""
    theirs: tuple[int, int]
    bound: str = ""
    """`at_least` or `at_most` where one side never reached the return; `log` is then that bound. Empty: none."""

    @property
    def missed(self) -> bool:
        """Whether any run did not reach the return."""
        return self.ours[0] < self.ours[1] or self.theirs[0] < self.theirs[1]


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval and two-sided p-value of 1."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    error: float
    """Standard error of the logarithm."""
    bound: str = ""


def paired(runs: pd.DataFrame, ours: str, theirs: str) -> pd.DataFrame:
    """Times of both systems by block; NaN where a run did not reach the return.

    Parameters
    ----------
    runs
        a line a run with columns `machine`, `session`, `block`, `system`, `seconds` (NaN: not reached) and `measured_s`, and if
        it is known `loop`, how fast the machine was.

    Returns
    -------
    pandas.DataFrame
        columns of `PAIR`, then `ours`, `theirs`, the seconds that were spent, `ours_s` and `theirs_s`, and `speed`, the log of
        how many times as fast the machine was in our run; NaN where that is not known.
    """
    sides = []
    for name, system in (("ours", ours), ("theirs", theirs)):
        own = runs.loc[runs["system"] == system, [*PAIR, "seconds", "measured_s"]]
        spent = own["seconds"].fillna(own["measured_s"])
        loop = runs["loop"].astype(float).loc[own.index] if "loop" in runs else math.nan
        told = {name: own["seconds"], f"{name}_s": spent, f"{name}_loop": loop}
        sides.append(own.assign(**told).drop(columns=["seconds", "measured_s"]))
    pairs = sides[0].merge(sides[1], on=PAIR).sort_values(PAIR, ignore_index=True)
    return pairs.assign(speed=np.log(pairs.pop("ours_loop") / pairs.pop("theirs_loop")))


def term(pairs: pd.DataFrame) -> Term | None:
    """What the pairs of one workload say of the log of theirs over ours; None without any, and where no side succeeded.

    Parameters
    ----------
    pairs
        as `paired` returns them.
    """
    if pairs.empty:
        return None
    n, strata = len(pairs), pairs.groupby(STRATUM).ngroups
    ours, theirs = (int(pairs[side].notna().sum()) for side in ("ours", "theirs"))
    if not ours and not theirs:
        return None
    if ours == theirs == n:
        logs = np.log(pairs["theirs"].to_numpy(float) / pairs["ours"].to_numpy(float))
        codes = pairs.groupby(STRATUM).ngroup().to_numpy()
        logs, fitted = _at_equal_speed(logs, pairs["speed"].to_numpy(float), codes)
        found = pooled([logs[codes == code] for code in range(strata)], fitted)
    else:
        found = _running_times(pairs)
    bound = "at_least" if not theirs else "at_most" if not ours else ""
    return Term(*found, n, strata, (ours, n), (theirs, n), bound)


def _at_equal_speed(
    logs: NDArray[np.float64], speed: NDArray[np.float64], codes: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.float64], int]:
    """Log-ratios as they would be if the machine had been as fast in both runs of each pair, and the number of coefficients.

    The slope is fitted within strata (analysis of covariance); a machine that is faster for our run makes our time shorter.
    Where a pair lacks its readings, or there are too few pairs, nothing is changed.
    """
    n, k = len(logs), int(codes.max()) + 1
    if n < FEWEST_FOR_SLOPE + k or np.isnan(speed).any():
        return logs, 0
    means = np.array([speed[codes == code].mean() for code in range(k)])
    centred = speed - means[codes]
    if not centred.any():
        return logs, 0
    slope = float(centred @ logs / (centred @ centred))
    return logs - slope * speed, 1


def _running_times(pairs: pd.DataFrame) -> tuple[float, float, float]:
    """Log of the ratio of expected running times, its variance by a bootstrap over the blocks of each stratum, and freedom.

    A side that never succeeds counts as if each of its runs did at its end: its expected time is longer than that.
    """
    values = pairs[["ours_s", "theirs_s"]].to_numpy(float)
    solved = pairs[["ours", "theirs"]].notna().to_numpy(float)
    solved[:, solved.sum(axis=0) == 0] = 1.0

    def log(places: NDArray[np.intp]) -> NDArray[np.float64]:
        spent, successes = values[places].sum(axis=-2), np.maximum(solved[places].sum(axis=-2), 1.0)
        running = np.log(spent / successes)
        return np.asarray(running[..., 1] - running[..., 0])

    n, groups = len(pairs), list(pairs.groupby(STRATUM).indices.values())
    point = float(log(np.arange(n)))
    if n < MINIMUM_FOR_INTERVAL or n == len(groups):
        return point, math.nan, math.nan
    generator = np.random.default_rng(SEED)
    drawn = np.concatenate([own[generator.integers(0, len(own), (RESAMPLES, len(own)))] for own in groups], axis=1)
    # A bootstrap divides by n instead of n less the number of strata.
    return point, float(log(drawn).var()) * n / (n - len(groups)), float(n - len(groups))


def combined(terms: Iterable[Term], looks: int = 1) -> Ratio:
    """The ratio over workloads of equal weight.

    Parameters
    ----------
    looks
        how often results were looked at: the interval and the p-value hold for all looks together.
    """
    terms = list(terms)
    share = 1 / len(terms)
    value = sum(one.log for one in terms) * share
    bounds = {one.bound for one in terms} - {""}
    bound = bounds.pop() if len(bounds) == 1 else "open" if bounds else ""
    variances = [one.variance * share**2 for one in terms]
    error = math.sqrt(sum(variances))
    if math.isnan(error):
        return Ratio(math.exp(value), None, None, None, math.nan, bound)
    if error == 0:
        return Ratio(math.exp(value), math.exp(value), math.exp(value), float(value == 0), 0.0, bound)
    freedom = sum(variances) ** 2 / sum(own**2 / one.freedom for own, one in zip(variances, terms, strict=True))
    p = min(1.0, looks * 2 * float(stdtr(freedom, -abs(value) / error)))
    half = error * float(stdtrit(freedom, 1 - 0.05 / looks / 2))
    return Ratio(math.exp(value), math.exp(value - half), math.exp(value + half), p, error, bound)
