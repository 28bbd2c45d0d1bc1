"""Analysis of price bundles: steps to a return, their ratio to those without lag within blocks, and ages. It is pure.

Runs are in lockstep, so their seconds are no system's and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suites.convergence import analysis as convergence
from suites.records.bundle import Bundle
from suites.staleness import analysis as staleness
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
