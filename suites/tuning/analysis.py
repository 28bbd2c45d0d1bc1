"""How good the runs of a tuning are. It is pure and imports no package that trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from suites.records.bundle import Bundle, Scalar
from suites.statistics.crossings import learning


class Outcome(NamedTuple):
    """What a run came to."""

    seconds: float | None
    """To the training return; None if it was not reached within the budget."""
    best_return: float | None
    """Best mean over 100 training episodes."""
    loss: float
    """What is minimised; infinite for a run that failed."""


def outcome(bundle: Bundle) -> Outcome:
    """Seconds to the training return.

    A run that missed it counts with the whole budget, and with how far its best return was from it.
    """
    if bundle.manifest.status != "completed":
        return Outcome(None, None, math.inf)
    try:
        learnt = learning(bundle)
    except ValueError:
        return Outcome(None, None, math.inf)
    workload = bundle.manifest.configuration["workload"]
    best = float(learnt.training["mean_return"].max()) if len(learnt.training) else None
    crossing, budget_s = learnt.crossings["training"], float(workload["budget_seconds"])
    if crossing is not None:
        return Outcome(crossing.seconds, best, min(crossing.seconds, budget_s))
    missing = math.inf if best is None else workload["thresholds"]["training"] - best
    return Outcome(None, best, budget_s + missing)


def options_of(run: Bundle) -> dict[str, Scalar]:
    """The setting that a run tried."""
    return dict(run.manifest.configuration["options"])


def ranked(bundles: Sequence[Bundle]) -> list[Bundle]:
    """Runs of one rung, the best first; of equal ones the earlier."""
    return sorted(bundles, key=lambda b: outcome(b).loss)


def least(bundles: Sequence[Bundle]) -> dict[str, Scalar] | None:
    """The setting whose runs have the least mean loss; of equal ones the one that ran first.

    None if each setting has a run that was not completed.
    """
    tried: dict[tuple[tuple[str, Scalar], ...], list[Bundle]] = {}
    for run in bundles:
        tried.setdefault(tuple(options_of(run).items()), []).append(run)
    whole = {key: runs for key, runs in tried.items() if all(b.manifest.status == "completed" for b in runs)}
    best = min(whole, key=lambda key: fmean(outcome(b).loss for b in whole[key]), default=None)
    return None if best is None else dict(best)
