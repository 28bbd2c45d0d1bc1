"""How good the runs of a tuning are. It is pure and imports no package that trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from suites.records.bundle import Bundle, Scalar
from suites.records.events import Episode
from suites.statistics.crossings import learning

START = 20
"""Episodes that tell with what return a run began. In a short rung a hundred, as in a training mean, can be all that it had."""
LEAST = 0.01
"""Share of the way to the return below which a run made no progress, as means scatter. Then its speed is all that counts."""


class Outcome(NamedTuple):
    """What a run came to."""

    seconds: float | None
    """To the training return; None if it was not reached within the budget."""
    best_return: float | None
    """Best mean over 100 training episodes."""
    loss: float
    """What is minimised; infinite for a run that failed."""


def outcome(bundle: Bundle) -> Outcome:
    """Seconds to the training return, and the loss.

    The loss of a run that reached the return is its seconds to it, at most the budget of its rung, B. That of a run that missed
    it is::

        share = (best - start) / (return - start)    at least LEAST
        loss  = B + 1 / (1 / B + share / seconds)

    Here `seconds` are those of the whole run, `start` is the mean of its first `START` episodes, and `share` is how much of the
    way to the return it came. So `seconds / share` is how long it would take on a straight line. That sees time: in the first
    rungs nobody reaches the return, all runs have equally many steps, and returns alone cannot tell quick from slow.

    The seconds on a straight line are no forecast, they only rank. B comes on top, so that a run which missed the return is
    worse than any that reached it. The greater of both would make all runs equal, as a budget lasts far longer than they do.
    The other 1 / B changes no rank, but no loss is more than 2 B. So one run that learnt nothing does not decide over a mean
    of seeds.

    The loss is infinite for a run that failed, and for one with fewer episodes than a training mean has.
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
    if best is None:
        return Outcome(None, None, math.inf)
    share = _progress(bundle, best, float(workload["thresholds"]["training"]))
    return Outcome(None, best, budget_s + 1 / (1 / budget_s + share / learnt.measured_s))


def _progress(bundle: Bundle, best: float, wanted: float) -> float:
    """Share of the way from a run's first return to the one that it missed."""
    first = sorted(bundle.of(Episode), key=lambda e: e.ns)[:START]
    start = fmean(e.episode_return for e in first)
    return LEAST if start >= wanted else max(LEAST, (best - start) / (wanted - start))


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
