"""Statistics of the suites: paired ratios, interquartile means, censored times. Functions are pure and seeded.

This module imports no other package of the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

RESAMPLES = 20_000
SEED = 20_250_221
MINIMUM_FOR_INTERVAL = 5
"""Below this many pairs or runs no interval is given: there is nothing to resample."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, where there is one."""

    value: float | None
    low: float | None
    high: float | None
    n: int


def interquartile_mean(values: ArrayLike) -> float:
    """Mean of the middle half, the outer parts of the quartile values weighted by the fraction that lies inside.

    Equals the mean for fewer than four values that a quarter cannot be cut from; for n divisible by four it is
    `scipy.stats.trim_mean(values, .25)`.
    """
    data = np.sort(np.asarray(values, np.float64))
    return float(data @ _middle_half(len(data)))


def _middle_half(n: int) -> NDArray[np.float64]:
    """Weight of each of n sorted values in an interquartile mean."""
    if n < 4:
        return np.full(n, 1 / n)
    edges = np.arange(n + 1, dtype=np.float64)
    weight = np.clip(np.minimum(edges[1:], 0.75 * n) - np.maximum(edges[:-1], 0.25 * n), 0, None)
    return np.asarray(weight / weight.sum())


def wider_tail(n: int) -> float:
    """Which percentile of a bootstrap of n values bounds a 95 % interval from below; 100 less that bounds it from above.

    With few values, the percentiles 2.5 and 97.5 are too close together. T. C. Hesterberg gives wider ones in "What Teachers
    Should Know About the Bootstrap", The American Statistician 69 (2015). At these percentiles, a normal distribution has the
    quantiles of Student's t. They also correct for a variance that divides by n instead of n - 1.
    """
    return 100 * float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025)))


@lru_cache(maxsize=8)
def _resampled_iqm(n: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """Weights that turn n sorted values into interquartile means of resamples, [resamples, n].

    Which of the values are drawn does not depend on them, and drawing takes most of the time.
    """
    drawn = np.sort(np.random.default_rng(seed).integers(0, n, (resamples, n)), axis=1)
    weights = np.zeros((resamples, n))
    np.add.at(weights, (np.arange(resamples)[:, None], drawn), _middle_half(n))
    return weights


def bootstrap_iqm(values: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED) -> Estimate:
    """Interquartile mean with a 95 % bootstrap interval (none below `MINIMUM_FOR_INTERVAL` values); see `wider_tail`."""
    data = np.asarray(values, np.float64)
    if len(data) == 0:
        return Estimate(None, None, None, 0)
    point = interquartile_mean(data)
    if len(data) < MINIMUM_FOR_INTERVAL:
        return Estimate(point, None, None, len(data))
    return percentile_interval(point, _resampled_iqm(len(data), resamples, seed) @ np.sort(data), len(data))


def percentile_interval(value: float, draws: NDArray[np.float64], n: int) -> Estimate:
    """A value of n things and the interval that its bootstrap says; see `wider_tail`."""
    tail = wider_tail(n)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Estimate(value, float(low), float(high), n)


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike) -> Estimate:
    """Geometric mean of ratios within blocks, with a 95 % interval by Student's t on their logarithms.

    Parameters
    ----------
    numerator, denominator : [n]
        positive values; element i of both comes from the same block.
    """
    top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    if top.shape != bottom.shape:
        raise ValueError(f"{len(top)} and {len(bottom)} values cannot be paired")
    if len(top) == 0:
        return Estimate(None, None, None, 0)
    if (top <= 0).any() or (bottom <= 0).any():
        raise ValueError("ratios need positive values")
    logs = np.log(top / bottom)
    n, mean = len(logs), float(logs.mean())
    if n < MINIMUM_FOR_INTERVAL:
        return Estimate(float(np.exp(mean)), None, None, n)
    width = float(logs.std(ddof=1)) / np.sqrt(n) * float(stdtrit(n - 1, 0.975))
    return Estimate(float(np.exp(mean)), float(np.exp(mean - width)), float(np.exp(mean + width)), n)


def bootstrap_ratio(numerator: ArrayLike, denominator: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED) -> Estimate:
    """Ratio of two means, with a 95 % bootstrap interval over blocks; see `wider_tail`.

    Parameters
    ----------
    numerator, denominator : [n]
        values of 0 or more; element i of both comes from the same block. Without a positive denominator there is no ratio.
    """
    top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    if top.shape != bottom.shape:
        raise ValueError(f"{len(top)} and {len(bottom)} values cannot be paired")
    n = len(top)
    if n == 0 or not (top.sum() > 0 and bottom.sum() > 0):
        return Estimate(None, None, None, n)
    value = float(top.sum() / bottom.sum())
    if n < MINIMUM_FOR_INTERVAL or (top <= 0).any() or (bottom <= 0).any():
        return Estimate(value, None, None, n)
    drawn = np.random.default_rng(seed).integers(0, n, (resamples, n))
    return percentile_interval(value, top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1), n)


def expected_running_time(spent_s: ArrayLike, solved: ArrayLike) -> float | None:
    """All time spent over the number of successes; None without a success.

    Parameters
    ----------
    spent_s : [n]
        seconds to the threshold where solved, seconds of the whole run elsewhere.
    """
    successes = int(np.asarray(solved, bool).sum())
    return float(np.asarray(spent_s, np.float64).sum() / successes) if successes else None


def restricted_mean(times_s: ArrayLike, solved: ArrayLike, horizon_s: float) -> float:
    """Mean of min(time, horizon), an unsolved run counting the horizon: all runs were watched at least that long."""
    times = np.where(np.asarray(solved, bool), np.asarray(times_s, np.float64), horizon_s)
    return float(np.minimum(times, horizon_s).mean())
