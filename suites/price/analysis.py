"""Analysis of price bundles: steps to a return, their ratio to those without lag within blocks, and ages. It is pure.

Runs are in lockstep, so their seconds are no system's and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from suites.convergence import analysis as convergence
from suites.records.bundle import Bundle
from suites.staleness import analysis as staleness
from suites.statistics.crossings import Block
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL, RESAMPLES, SEED, Estimate, percentile_interval
from suites.statistics.summary import Row

REFERENCE = "tianji-admitted-in-order-0"
"""Steps of the others are over its, at the same learning rate and seed. It is strict to the bit."""
METRICS = ("steps_to_threshold", "steps_to_threshold_ratio", "success_rate", "age_p50_rounds", "age_p99_rounds")


def pairs(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(first, second) pairs of ratios: the reference against each other system."""
    return [(REFERENCE, label) for label in sorted(set(labels)) if label != REFERENCE]


def summarise(runs: Sequence[convergence.Run], bundles: Sequence[Bundle]) -> list[Row]:
    """Rows of `summary.json` of one workload at one learning rate."""
    rows = convergence.summarise(list(runs), pairs(run.label for run in runs)) + staleness.summarise(list(bundles))
    return [row | {"suite": "price"} for row in rows if row["metric"] in METRICS]


@dataclass(frozen=True)
class Pair:
    """A run with lag beside the run without, of the same block and learning rate."""

    block: Block
    product: float
    """Age of the samples in rounds, times the learning rate over that of the workload."""
    log_ratio: float
    """Logarithm of its steps to the return over those without lag."""


def pair_up(runs: Iterable[convergence.Run], kind: str = "evaluated") -> tuple[list[Pair], int]:
    """Pairs of runs of one workload that both reached the return, and the number of pairs of which one did not."""
    steps: dict[tuple[Block, float], dict[int, float | None]] = {}
    for run in runs:
        manifest, crossing = run.bundle.manifest, run.crossings[kind]
        rate = manifest.options["ppo.learning_rate"] / manifest.configuration["workload"]["ppo"]["learning_rate"]
        lag = int(run.label.rpartition("-")[2])
        steps.setdefault((run.block, rate), {})[lag] = None if crossing is None else float(crossing.steps)
    found, missed = [], 0
    for (block, rate), by_lag in sorted(steps.items()):
        for lag in sorted(by_lag.keys() - {0}) if 0 in by_lag else ():
            with_lag, without = by_lag[lag], by_lag[0]
            if with_lag and without:
                found.append(Pair(block, lag * rate, log(with_lag / without)))
            else:
                missed += 1
    return found, missed


def price(pairs: Sequence[Pair]) -> Estimate:
    """Fit a in log ratio = a x age x learning rate (over the workload's), through zero, by least squares.

    The 95 % interval is of a bootstrap that draws whole blocks, because the runs of a block share a seed. There is none below
    `MINIMUM_FOR_INTERVAL` blocks. `n` of the estimate counts blocks.
    """
    sums: dict[Block, tuple[float, float]] = {}
    for pair in pairs:
        xy, xx = sums.get(pair.block, (0.0, 0.0))
        sums[pair.block] = xy + pair.product * pair.log_ratio, xx + pair.product**2
    if not sums:
        return Estimate(None, None, None, 0)
    each, n = np.array(list(sums.values())), len(sums)
    value = float(each[:, 0].sum() / each[:, 1].sum())
    if n < MINIMUM_FOR_INTERVAL:
        return Estimate(value, None, None, n)
    drawn = each[np.random.default_rng(SEED).integers(0, n, (RESAMPLES, n))].sum(axis=1)
    return percentile_interval(value, drawn[:, 0] / drawn[:, 1], n)
