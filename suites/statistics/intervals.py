"""Statistics of the suites: paired ratios, interquartile means, censored times. Functions are pure and seeded.

Sessions are strata: their means may differ, and an interval holds that variance. This module imports no other package of the
project.

References
----------
R. DerSimonian and N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7 (1986): variance between strata.
F. E. Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    # Whatever starts a session imports this module, and SciPy would be most of the time that it takes.
    from scipy.special import ndtr, stdtrit

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


def codes(strata: Sequence[Hashable] | None, n: int) -> NDArray[np.intp]:
    """Number of the stratum of each of n values; None: all are of one."""
    if strata is None:
        return np.zeros(n, np.intp)
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in strata], np.intp)


def pooled(strata: Sequence[NDArray[np.float64]], fitted: int = 0) -> tuple[float, float, float]:
    """Mean of values in strata whose means may differ (random effects); its variance, and that variance's degrees of freedom.

    Parameters
    ----------
    strata
        values of each stratum, at least one in each.
    fitted
        number of coefficients that were fitted to the same values before.
    """
    sizes = np.array([len(values) for values in strata], float)
    means = np.array([values.mean() for values in strata])
    n, k = sizes.sum(), len(strata)
    if n < MINIMUM_FOR_INTERVAL or n <= k + fitted:
        return float(np.average(means, weights=sizes)), math.nan, math.nan
    free = n - k - fitted
    within = sum(((values - values.mean()) ** 2).sum() for values in strata) / free
    between = 0.0
    if k > 1:
        centre = np.average(means, weights=sizes)
        spread = (sizes * (means - centre) ** 2).sum()
        between = max(0.0, (spread - (k - 1) * within) / (n - (sizes**2).sum() / n))
    if within + between == 0:
        return float(means.mean()), 0.0, free
    weights = 1 / (within / sizes + between)
    weights = weights / weights.sum()
    parts = float((weights**2 * within / sizes).sum()), float((weights**2 * between).sum())
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / free + (parts[1] ** 2 / (k - 1) if k > 1 else 0.0))
    return float(weights @ means), sum(parts), freedom


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike, strata: Sequence[Hashable] | None = None) -> Estimate:
    """Geometric mean of ratios within blocks, with a 95 % interval by Student's t on their logarithms (`pooled`).

    Parameters
    ----------
    numerator, denominator : [n]
        positive values; element i of both comes from the same block.
    strata : [n]
        session of each block. None: all are of one.
    """
    top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    if top.shape != bottom.shape:
        raise ValueError(f"{len(top)} and {len(bottom)} values cannot be paired")
    if len(top) == 0:
        return Estimate(None, None, None, 0)
    if (top <= 0).any() or (bottom <= 0).any():
        raise ValueError("ratios need positive values")
    logs = np.log(top / bottom)
    own = codes(strata, len(logs))
    n, (mean, variance, freedom) = len(logs), pooled([logs[own == code] for code in range(own.max() + 1)])
    if math.isnan(variance):
        return Estimate(float(np.exp(mean)), None, None, n)
    from scipy.special import stdtrit

    width = math.sqrt(variance) * float(stdtrit(freedom, 0.975))
    return Estimate(float(np.exp(mean)), float(np.exp(mean - width)), float(np.exp(mean + width)), n)


def bootstrap_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    strata: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """Ratio of two means, with a 95 % bootstrap interval over the blocks of each session; see `wider_tail`.

    Parameters
    ----------
    numerator, denominator : [n]
        values of 0 or more; element i of both comes from the same block. Without a positive denominator there is no ratio.
    strata : [n]
        session of each block. None: all are of one.
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
    own, generator = codes(strata, n), np.random.default_rng(seed)
    places = [np.flatnonzero(own == code) for code in range(own.max() + 1)]
    drawn = np.concatenate([some[generator.integers(0, len(some), (resamples, len(some)))] for some in places], axis=1)
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
