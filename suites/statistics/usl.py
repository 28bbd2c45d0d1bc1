"""The Universal Scalability Law: throughput on N nodes, from that of one node, contention and coherence.

The law is X(N) = X(1) N / (1 + sigma (N - 1) + kappa N (N - 1)). Contention sigma is the share of serial work. Coherence kappa
is the cost of keeping a pair of nodes up to date.

Source: N. J. Gunther, "A General Theory of Computational Scalability Based on Rational Functions". arXiv:0808.1431 (2008). Also
his book "Guerrilla Capacity Planning". Springer (2007), chapter 4.

This module imports no other package of the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from suites.statistics.intervals import MINIMUM_FOR_INTERVAL, SEED, Estimate, percentile_interval

FEWEST_COUNTS = 5
"""Fewest different numbers of nodes. Three coefficients need more points than that."""
RESAMPLES = 4_000
STEPS = 60
CONVERGED = 1e-9
DIRECTIONS = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficients:
    """The law, fitted."""

    single: float
    """Throughput of one node, by the fit."""
    sigma: float
    kappa: float

    def throughput(self, nodes: ArrayLike) -> Floats:
        """Throughput by the law at these numbers of nodes."""
        n = np.asarray(nodes, np.float64)
        return np.asarray(self.single * n / (1 + self.sigma * (n - 1) + self.kappa * n * (n - 1)))

    @property
    def peak_nodes(self) -> float | None:
        """Number of nodes beyond which throughput falls; None: it never does."""
        if self.sigma >= 1:
            return 1.0
        return float(np.sqrt((1 - self.sigma) / self.kappa)) if self.kappa > 0 else None


@dataclass(frozen=True)
class Law:
    """The law of one system, with intervals where there are blocks enough."""

    coefficients: Coefficients | None
    single: Estimate
    sigma: Estimate
    kappa: Estimate
    reason: str | None
    """Why there are no coefficients."""


def fit(nodes: ArrayLike, throughput: ArrayLike, weights: ArrayLike | None = None) -> Coefficients:
    """Least squares of log throughput, both coefficients at least 0.

    Let a = 1 / X(1). Then N / X(N) = a + a sigma (N - 1) + a kappa N (N - 1). It is linear in a, a sigma and a kappa, which
    must not be negative. So a Gauss-Newton step on the logarithms is a problem of non-negative least squares.

    Parameters
    ----------
    nodes, throughput : [n]
        at least three different numbers of nodes; positive throughputs.
    weights : [n]
        how often each counts; None: once.

    Raises
    ------
    ValueError
        for fewer different numbers of nodes, or a throughput that is not positive.
    """
    n, x = np.asarray(nodes, np.float64), np.asarray(throughput, np.float64)
    counts = np.ones(len(n)) if weights is None else np.asarray(weights, np.float64)
    if len(set(n[counts > 0].tolist())) < DIRECTIONS:
        raise ValueError("a fit needs three different numbers of nodes")
    if (x <= 0).any():
        raise ValueError("throughputs must be positive")
    # In units of one node's share: the three numbers are then of the same size, whatever the throughput.
    unit = float(np.exp(np.mean(np.log(x / n))))
    terms = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)])
    per_node = unit * n / x
    root = np.sqrt(counts)
    solution, _ = nnls(terms * (root / per_node)[:, None], root)
    for _ in range(STEPS):
        modelled = terms @ solution
        better, _ = nnls(terms * (root / modelled)[:, None], root * (1 + np.log(per_node / modelled)))
        # Half a step where a whole one leaves what a logarithm can take.
        while (terms @ better <= 0).any():
            better = (solution + better) / 2
        done = np.max(np.abs(better - solution)) < CONVERGED
        solution = better
        if done:
            break
    a, b, c = (float(value) for value in solution)
    # Without a run on one node contention may explain everything; one node's throughput is then not to be told.
    return Coefficients(unit / a, b / a, c / a) if a > 0 else Coefficients(np.inf, np.inf, np.inf)


def law(blocks: ArrayLike, nodes: ArrayLike, throughput: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED) -> Law:
    """Fit with 95 % intervals: whole blocks are resampled, since what disturbs one run of a block disturbs the others.

    Percentiles of few blocks are taken further out, see `suites.statistics.intervals.wider_tail`.

    Parameters
    ----------
    blocks : [n]
        number of the block of each run, from 0.
    nodes, throughput : [n]
        of each run.
    """
    which, n, x = np.asarray(blocks, np.int64), np.asarray(nodes, np.int64), np.asarray(throughput, np.float64)
    held = int(which.max()) + 1 if len(which) else 0
    counts = np.unique(n)
    nothing = Estimate(None, None, None, held)
    unknown = partial(Law, None, nothing, nothing, nothing)
    if len(counts) < FEWEST_COUNTS:
        return unknown(f"a fit needs {FEWEST_COUNTS} numbers of nodes; there are {len(counts)}")
    logs, there = np.zeros((held, len(counts))), np.zeros((held, len(counts)))
    place = np.searchsorted(counts, n)
    np.add.at(logs, (which, place), np.log(x))
    np.add.at(there, (which, place), 1)

    def weighted(times: Floats) -> tuple[float, float, float] | None:
        """Coefficients from blocks weighted by `times`."""
        runs = times @ there
        known = runs > 0
        if known.sum() < DIRECTIONS:
            return None
        found = fit(counts[known], np.exp((times @ logs)[known] / runs[known]), runs[known])
        return found.single, found.sigma, found.kappa

    best = weighted(np.ones(held))
    if best is None or not np.isfinite(best[0]):
        return unknown("one node's throughput cannot be told from these runs")
    draws = np.empty((0, 3))
    if held >= MINIMUM_FOR_INTERVAL:
        times = np.random.default_rng(seed).multinomial(held, np.full(held, 1 / held), resamples)
        # Few blocks have few combinations: each is fitted once.
        different, again = np.unique(times, axis=0, return_inverse=True)
        draws = np.array([weighted(row.astype(np.float64)) or [np.nan] * 3 for row in different])[again.ravel()]
        draws = draws[np.isfinite(draws).all(axis=1)]
    single, sigma, kappa = (
        percentile_interval(value, own, held) if len(own) else Estimate(value, None, None, held)
        for value, own in zip(best, draws.T, strict=True)
    )
    return Law(Coefficients(*best), single, sigma, kappa, None)
