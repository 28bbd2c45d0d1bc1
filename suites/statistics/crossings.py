"""Time to threshold: learning curves, the crossings of single runs, and summaries over runs.

There are two definitions, and both are reported. *Training* uses the mean of the last 100 finished episodes of all actors.
*Evaluated* uses greedy episodes of snapshots, in the mean over ten of them; the crossing lies between two snapshots, and the
later one counts. Functions are pure, and no package that trains is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from suites.records.bundle import Bundle
from suites.records.events import Episode, Evaluation, FirstStep, Snapshot, Usage
from suites.statistics.curves import AVERAGED, crossing, running_mean, streaks
from suites.statistics.intervals import (
    Estimate,
    bootstrap_iqm,
    bootstrap_ratio,
    expected_running_time,
    paired_ratio,
)

RATIO, RESTRICTED, RUNNING = "time_to_threshold_ratio", "restricted_mean_time_ratio", "expected_running_time_ratio"
"""Ratios of times: of the blocks in which both sides reached the target, and of all blocks in two ways."""
KINDS = ("evaluated", "training")
"""Definitions of a return, the one that nothing but the policy tells of first."""


@dataclass(frozen=True)
class Crossing:
    """Time and steps at which a threshold was reached. The interval is closed above."""

    seconds: float
    seconds_before: float
    """Lower end: the last moment at which it was known not to have been reached."""
    steps: int
    core_seconds: float | None


@dataclass(frozen=True)
class Learning:
    """Learning curve and crossings of one run."""

    training: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each episode from the hundredth on."""
    evaluated: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each snapshot."""
    crossings: dict[str, Crossing | None]
    measured_s: float
    measured_steps: int
    """Steps for which it was watched: fewer than its budget where the clock ended it."""
    pace: tuple[NDArray[np.float64], NDArray[np.float64]]
    """Steps and seconds of its snapshots, both ascending."""
    snapshots: tuple[Snapshot, ...]
    """Within the budget."""

    def seconds_at(self, steps: float) -> float:
        """Seconds after which it had taken so many steps, at most those for which it was watched."""
        return min(self.measured_s, float(np.interp(steps, *self.pace)))


class Watched(Protocol):
    """A run that was watched until its end for its crossings."""

    @property
    def crossings(self) -> Mapping[str, Crossing | None]: ...

    @property
    def measured_s(self) -> float: ...

    @property
    def measured_steps(self) -> int: ...

    def seconds_at(self, steps: float) -> float: ...


def learning(bundle: Bundle) -> Learning:
    """Learning curves and crossings of a completed run whose configuration has a `workload` with thresholds.

    Raises
    ------
    ValueError
        when the bundle lacks a first step or snapshots.
    """
    workload: Mapping[str, Any] = bundle.manifest.configuration["workload"]
    first = next(iter(bundle.of(FirstStep)), None)
    budget, thresholds = workload["budget_steps"], workload["thresholds"]
    # A final oversized batch is not counted.
    snapshots = [s for s in bundle.of(Snapshot) if s.steps <= budget]
    if first is None or not snapshots:
        raise ValueError(f"{bundle.path}: a completed run has a first step and snapshots")
    start = first.ns
    episodes = sorted((e for e in bundle.of(Episode) if e.steps <= budget), key=lambda e: e.ns)
    returns = [e.episode_return for e in episodes]
    evaluations = [e for e in bundle.of(Evaluation) if e.purpose == "curve"]
    # A learner that went back to its last state may publish other weights at the same number of steps.
    curve = {(e.steps, e.version): mean for e, mean in zip(evaluations, _means(evaluations), strict=True)}
    judged = [s for s in snapshots if (s.steps, s.version) in curve]
    scores = [curve[s.steps, s.version] for s in judged]

    def seconds(event: Episode | Snapshot) -> float:
        # The initial policy is published just before the first step.
        return max(0, event.ns - start) / 1e9

    clock = _CoreClock(bundle.of(Usage), start)
    crossings: dict[str, Crossing | None] = dict.fromkeys(KINDS)

    def crossed(at: Episode | Snapshot, before: Episode | Snapshot) -> Crossing:
        return Crossing(seconds(at), seconds(before), at.steps, clock.until(at.ns))

    at = crossing(returns, thresholds["training"])
    if at is not None:
        crossings["training"] = crossed(episodes[at], episodes[at])
    at = _evaluated(bundle, judged, scores)
    if at is not None:
        crossings["evaluated"] = crossed(judged[at], judged[max(0, at - 1)])
    end = max(snapshots[-1].ns, episodes[-1].ns if episodes else 0)
    if end <= start:
        raise ValueError(f"{bundle.path}: nothing came after its first step")
    means = running_mean(returns)
    whole = np.flatnonzero(~np.isnan(means)).tolist()
    steps = max(snapshots[-1].steps, episodes[-1].steps if episodes else 0)
    return Learning(
        _frame([episodes[i] for i in whole], start, means[whole]),
        _frame(judged, start, scores),
        crossings,
        (end - start) / 1e9,
        steps,
        _pace(snapshots, start, end),
        tuple(snapshots),
    )


def _frame(events: Sequence[Episode | Snapshot], start: int, means: ArrayLike) -> pd.DataFrame:
    """A learning curve. It is made of arrays, since a session has hundreds of runs."""
    since = np.maximum(0, np.array([e.ns for e in events], np.int64) - start)
    steps = np.array([e.steps for e in events], np.int64)
    return pd.DataFrame({"seconds": since / 1e9, "steps": steps, "mean_return": np.asarray(means, np.float64)})


def _means(evaluations: Sequence[Evaluation]) -> list[float]:
    """Mean return of each evaluation. Those of as many episodes are computed at once."""
    found = [0.0] * len(evaluations)
    places: dict[int, list[int]] = {}
    for place, one in enumerate(evaluations):
        places.setdefault(len(one.returns), []).append(place)
    for own in places.values():
        means = np.array([evaluations[place].returns for place in own]).mean(axis=1)
        for place, mean in zip(own, means.tolist(), strict=True):
            found[place] = mean
    return found


def _evaluated(bundle: Bundle, judged: Sequence[Snapshot], scores: Sequence[float]) -> int | None:
    """Index of the snapshot at which the evaluated return is reached.

    Runs that ended soon after their return, before ten snapshots were averaged, were played no further than they had to be.
    Of them the earlier rule is all that can be told: the first of three in a row, confirmed on other episodes. They are pooled
    with no others.
    """
    judging = bundle.manifest.configuration["workload"]["evaluation"]
    threshold = bundle.manifest.configuration["workload"]["thresholds"]["evaluated"]
    if "averaged" in judging or not bundle.manifest.configuration.get("stop_at_goal"):
        return crossing(scores, threshold, judging.get("averaged", AVERAGED))
    confirmed = {
        (e.steps, e.version) for e in bundle.of(Evaluation) if e.purpose == "confirm" and float(np.mean(e.returns)) >= threshold
    }
    found = streaks(scores, threshold, judging["in_a_row"])
    return next((at for at in found if (judged[at].steps, judged[at].version) in confirmed), None)


def _pace(snapshots: Iterable[Snapshot], start: int, end: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and seconds of snapshots; of those that do not go on, because a learner went back, the first one counts."""
    found = [(0, 0.0)]
    for one in sorted(snapshots, key=lambda s: s.ns):
        if one.steps > found[-1][0]:
            found.append((one.steps, max(0, min(one.ns, end) - start) / 1e9))
    steps, seconds = zip(*found, strict=True)
    return np.array(steps, float), np.array(seconds)


class _CoreClock:
    """CPU seconds of the whole run since its first step, where they were sampled from then on."""

    def __init__(self, usage: Iterable[Usage], start: int) -> None:
        usage = sorted(usage, key=lambda u: u.ns)
        self._start = start
        self._known = len(usage) > 1 and usage[0].ns <= start
        self._at, self._used = [u.ns for u in usage], [u.cpu_s for u in usage]

    def until(self, at_ns: int) -> float | None:
        if not self._known:
            return None
        # The initial policy is published just before the first step.
        start, end = np.interp([self._start, max(self._start, at_ns)], self._at, self._used)
        return float(end - start)


def points(run: Watched) -> Iterator[dict[str, Any]]:
    """A line for each definition; `seconds` is empty where the run was censored, at `measured_s` and `measured_steps`."""
    for kind in KINDS:
        crossing = run.crossings[kind]
        known = vars(crossing) if crossing else dict.fromkeys(Crossing.__dataclass_fields__)
        yield {"threshold_kind": kind, **known, "measured_s": run.measured_s, "measured_steps": run.measured_steps}


Quantity = tuple[str, str, Estimate]
"""Metric, unit and value."""
Block = tuple[str, int]
"""Session and number: which runs may be paired."""
Ratio = tuple[str, Estimate, int]
"""Metric, value, and how many blocks it leaves out."""


def quantities(runs: Sequence[Watched], kind: str, horizon: int) -> Iterator[Quantity]:
    """Summary of the crossings of one system's runs. `n` also counts runs that did not reach the threshold (censored).

    Parameters
    ----------
    horizon
        steps for which every run of every system that is compared was watched, at least: mean times are restricted to them.
    """
    crossings = [run.crossings[kind] for run in runs]
    reached = [c for c in crossings if c is not None]
    n = len(runs)
    spent = [run.measured_s if c is None else c.seconds for run, c in zip(runs, crossings, strict=True)]
    solved = [c is not None for c in crossings]
    yield "time_to_threshold_s", "s", replace(bootstrap_iqm([c.seconds for c in reached]), n=n)
    yield "steps_to_threshold", "steps", replace(bootstrap_iqm([float(c.steps) for c in reached]), n=n)
    core_seconds = [c.core_seconds for c in reached if c.core_seconds is not None]
    ends = [run.seconds_at(horizon) for run in runs]
    yield "core_seconds_to_threshold_s", "s", replace(bootstrap_iqm(core_seconds), n=n)
    for metric, unit, value in (
        ("expected_running_time_s", "s", expected_running_time(spent, solved)),
        ("success_rate", "share", len(reached) / n),
        ("restricted_mean_time_s", "s", float(np.mean([restricted(run, kind, horizon) for run in runs]))),
        ("restricted_horizon_s", "s", float(np.mean(ends))),
        ("restricted_horizon_steps", "steps", float(horizon)),
    ):
        yield metric, unit, Estimate(value, None, None, n)


def horizon_steps(runs: Iterable[Watched]) -> int:
    """Fewest steps for which any of these runs was watched."""
    return min(run.measured_steps for run in runs)


def restricted(run: Watched, kind: str, horizon: int) -> float:
    """Seconds to the target, or to the horizon where the run had not reached the target in so many steps.

    The horizon is in steps, which all systems have in common; each system's rate makes seconds of them. A horizon in seconds
    would be that of the fastest system, and leave a slow one no time to get there.
    """
    crossing = run.crossings[kind]
    if crossing is not None and crossing.steps <= horizon:
        return crossing.seconds
    return run.seconds_at(horizon)


def time_ratios(ours: Mapping[Block, Watched], theirs: Mapping[Block, Watched], kind: str) -> Iterator[Ratio]:
    """Speed-up of ours: ratios of blocks in which both reached the target, and bounds (`at_least`, `at_most`).

    If only the first system reached the target, the time of the second is censored: it is longer than its whole run. The ratio
    is then at least that run's length over the first's time. If only the second reached it, the ratio is at most the inverse.
    A bound covers all blocks in which its side reached the target. Two bounds cover different blocks, so that neither bounds
    the same mean.
    """
    blocks, metric = sorted(ours.keys() & theirs.keys()), RATIO
    pairs = [(theirs[k].crossings[kind], ours[k].crossings[kind], k[0]) for k in blocks]
    both = [(t.seconds, o.seconds, session) for t, o, session in pairs if t and o and t.seconds and o.seconds]
    yield metric, ratio_of(both), len(blocks) - len(both)
    for name, known, other in (("at_least", ours, theirs), ("at_most", theirs, ours)):
        # Of what was there at once there is no ratio.
        lasted = (
            k for k in blocks if all(c is None or c.seconds for c in (ours[k].crossings[kind], theirs[k].crossings[kind]))
        )
        reached = [(known[k], other[k]) for k in lasted if known[k].crossings[kind]]
        if all(o.crossings[kind] for _, o in reached):
            continue
        spent = [c.seconds if (c := o.crossings[kind]) else o.measured_s for _, o in reached]
        took = [c.seconds for r, _ in reached if (c := r.crossings[kind])]
        bound = paired_ratio(spent, took) if name == "at_least" else paired_ratio(took, spent)
        yield f"{metric}_{name}", replace(bound, low=None, high=None), len(blocks) - len(reached)


def ratio_of(pairs: Iterable[tuple[float, float, str]]) -> Estimate:
    """Ratio within blocks, of triples: numerator, denominator and session."""
    listed = list(pairs)
    return paired_ratio(*([one[place] for one in listed] for place in range(3)))


def all_ratios(ours: Mapping[Block, Watched], theirs: Mapping[Block, Watched], kind: str) -> Iterator[Ratio]:
    """Speed-up of ours over all blocks, where a side missed the target in some; nothing where neither did.

    A ratio within blocks knows only those in which both sides reached the target. A restricted mean counts no run with more
    than a horizon (`restricted`): the fewest steps for which a run of the pair was watched that did not reach the target.
    Expected running time divides all time spent by the number of successes. The ratio of restricted means has a bootstrap
    interval over blocks; that of expected running times has no value where a side never succeeded.
    """
    blocks = sorted(ours.keys() & theirs.keys())
    pairs = [(theirs[k], ours[k]) for k in blocks]
    missed = [run for pair in pairs for run in pair if run.crossings[kind] is None]
    if not missed:
        return
    horizon = horizon_steps(missed)
    means = [[restricted(run, kind, horizon) for run in pair] for pair in pairs]
    top, bottom = ([pair[side] for pair in means] for side in (0, 1))
    yield RESTRICTED, bootstrap_ratio(top, bottom, [session for session, _ in blocks]), 0
    theirs_s, ours_s = (
        expected_running_time([_spent(r, kind) for r in side], [r.crossings[kind] is not None for r in side])
        for side in zip(*pairs, strict=True)
    )
    yield RUNNING, Estimate(theirs_s / ours_s if theirs_s and ours_s else None, None, None, len(pairs)), 0


def _spent(run: Watched, kind: str) -> float:
    """Seconds to the target, or of the whole run where it was not reached."""
    crossing = run.crossings[kind]
    return run.measured_s if crossing is None else crossing.seconds
