"""When a run reached its workload's thresholds: learning curves, crossings, and what several runs' crossings come to.

Two definitions of time to threshold (both reported): *training*, the mean of the preceding 100 finished episodes of
all actors; *evaluated*, greedy episodes of stamped snapshots, an interval between two snapshots of which the upper end
is taken. Pure functions; imports no package that trains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import AnyEvent, Episode, Evaluation, FirstStep, Snapshot, Usage
from suites.statistics.intervals import (
    Estimate,
    bootstrap_iqm,
    expected_running_time,
    paired_ratio,
    restricted_mean,
    running_mean,
    streaks,
    training_crossing,
)

KINDS = ("evaluated", "training")
"""Definitions of a return, the one that nothing but the policy tells of first."""


@dataclass(frozen=True)
class Crossing:
    """When and with how many steps a threshold was reached; the interval is closed above."""

    seconds: float
    steps: int
    core_seconds: float | None
    seconds_before: float
    """Lower end: the last moment at which it was known not to have been reached."""


@dataclass(frozen=True)
class Learning:
    """What one run learned, and when."""

    training: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each episode from the hundredth on."""
    evaluated: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each snapshot."""
    crossings: dict[str, Crossing | None]
    measured_s: float
    snapshots: tuple[Snapshot, ...]
    """Within the budget."""


class Watched(Protocol):
    """A run that was watched until its end for its crossings."""

    @property
    def crossings(self) -> Mapping[str, Crossing | None]: ...

    @property
    def measured_s(self) -> float: ...


def learning(bundle: Bundle) -> Learning:
    """Learning curves and crossings of a completed run whose configuration has a `workload` with thresholds.

    Raises
    ------
    ValueError
        when the bundle lacks a first step or snapshots.
    """
    workload: Mapping[str, Any] = bundle.manifest.configuration["workload"]
    firsts = [e for e in bundle.events if isinstance(e, FirstStep)]
    snapshots = [e for e in bundle.events if isinstance(e, Snapshot)]
    if not firsts or not snapshots:
        raise ValueError(f"{bundle.path}: a completed run has a first step and snapshots")
    start = firsts[0].ns
    budget = workload["budget_steps"]
    # A final oversized batch is not counted.
    snapshots = [s for s in snapshots if s.steps <= budget]
    episodes = sorted((e for e in bundle.events if isinstance(e, Episode) and e.steps <= budget), key=lambda e: e.ns)
    training = pd.DataFrame(
        {
            "seconds": [(e.ns - start) / 1e9 for e in episodes],
            "steps": [e.steps for e in episodes],
            "mean_return": running_mean([e.episode_return for e in episodes]),
        }
    ).dropna()
    evaluations = [e for e in bundle.events if isinstance(e, Evaluation)]
    curve = {e.steps: float(np.mean(e.returns)) for e in evaluations if e.purpose == "curve"}
    judged = [s for s in snapshots if s.steps in curve]
    evaluated = pd.DataFrame(
        {
            # The initial policy is published just before the first step.
            "seconds": [max(0, s.ns - start) / 1e9 for s in judged],
            "steps": [s.steps for s in judged],
            "mean_return": [curve[s.steps] for s in judged],
        }
    )
    clock = _CoreClock(bundle.events, start)
    thresholds = workload["thresholds"]
    crossings: dict[str, Crossing | None] = dict.fromkeys(KINDS)
    index = training_crossing([e.episode_return for e in episodes], thresholds["training"])
    if index is not None:
        episode = episodes[index]
        seconds = (episode.ns - start) / 1e9
        crossings["training"] = Crossing(seconds, episode.steps, clock.until(episode.ns), seconds)
    confirmed = {e.steps for e in evaluations if e.purpose == "confirm" and np.mean(e.returns) >= thresholds["evaluated"]}
    for i in streaks([curve[s.steps] for s in judged], thresholds["evaluated"], workload["evaluation"]["in_a_row"]):
        if judged[i].steps in confirmed:
            snapshot, before = judged[i], judged[i - 1] if i else judged[i]
            crossings["evaluated"] = Crossing(
                max(0, snapshot.ns - start) / 1e9,
                snapshot.steps,
                clock.until(snapshot.ns),
                max(0, before.ns - start) / 1e9,
            )
            break
    end = max(snapshots[-1].ns, episodes[-1].ns if episodes else 0)
    return Learning(training, evaluated, crossings, (end - start) / 1e9, tuple(snapshots))


class _CoreClock:
    """CPU seconds of the whole run since its first step, where they were sampled from then on."""

    def __init__(self, events: Iterable[AnyEvent], start: int) -> None:
        usage = sorted((e for e in events if isinstance(e, Usage)), key=lambda u: u.ns)
        self._start = start
        self._known = len(usage) > 1 and usage[0].ns <= start
        self._at, self._used = [u.ns for u in usage], [u.cpu_s for u in usage]

    def until(self, at_ns: int) -> float | None:
        if not self._known:
            return None
        start, end = np.interp([self._start, at_ns], self._at, self._used)
        return float(end - start)


def points(run: Watched) -> Iterator[dict[str, Any]]:
    """A line for each definition; `seconds` is empty where the run was censored, at `measured_s`."""
    for kind in KINDS:
        c = run.crossings[kind]
        yield {
            "threshold_kind": kind,
            "seconds": None if c is None else c.seconds,
            "seconds_before": None if c is None else c.seconds_before,
            "steps": None if c is None else c.steps,
            "core_seconds": None if c is None else c.core_seconds,
            "measured_s": run.measured_s,
        }


Quantity = tuple[str, str, Estimate]
"""Metric, unit and value."""
Block = tuple[str, int]
"""Session and number: which runs may be paired."""


def quantities(runs: Sequence[Watched], kind: str, horizon_s: float) -> Iterator[Quantity]:
    """What the crossings of these runs of one system come to; `n` counts those that did not get there, too.

    Parameters
    ----------
    horizon_s
        to which every run of every system that is compared was watched, at least: mean times are restricted to it.
    """
    crossings = [run.crossings[kind] for run in runs]
    reached = [c for c in crossings if c is not None]
    n = len(runs)

    def over_reached(values: list[float]) -> Estimate:
        e = bootstrap_iqm(values)
        return Estimate(e.value, e.low, e.high, n)

    yield "time_to_threshold_s", "s", over_reached([c.seconds for c in reached])
    yield "steps_to_threshold", "steps", over_reached([float(c.steps) for c in reached])
    core_seconds = [c.core_seconds for c in reached if c.core_seconds is not None]
    yield "core_seconds_to_threshold_s", "s", over_reached(core_seconds)
    spent = [run.measured_s if c is None else c.seconds for run, c in zip(runs, crossings, strict=True)]
    solved = [c is not None for c in crossings]
    yield "expected_running_time_s", "s", Estimate(expected_running_time(spent, solved), None, None, n)
    yield "success_rate", "share", Estimate(len(reached) / n, None, None, n)
    yield "restricted_mean_time_s", "s", Estimate(restricted_mean(spent, solved, horizon_s), None, None, n)
    yield "restricted_horizon_s", "s", Estimate(horizon_s, None, None, n)


def horizon_s(runs: Iterable[Watched]) -> float:
    """How long all of these were watched, at least."""
    return min(run.measured_s for run in runs)


def time_ratio(ours: Mapping[Block, Watched], theirs: Mapping[Block, Watched], kind: str) -> tuple[Estimate, int]:
    """How many times faster ours are, within blocks in which both got there; and how many blocks that leaves out."""
    blocks = sorted(ours.keys() & theirs.keys())
    pairs = [(theirs[k].crossings[kind], ours[k].crossings[kind]) for k in blocks]
    both = [(t.seconds, o.seconds) for t, o in pairs if t and o and t.seconds and o.seconds]
    return paired_ratio([t for t, _ in both], [o for _, o in both]), len(blocks) - len(both)


def time_bounds(
    ours: Mapping[Block, Watched], theirs: Mapping[Block, Watched], kind: str
) -> Iterator[tuple[str, Estimate, int]]:
    """One-sided bounds of the same ratio (`at_least`, `at_most`), and how many blocks each leaves out.

    Where the second never got there while the first did, what it took is more than its whole run: a ratio is then at
    least that over the first's time (and at most, the other way round). Bounds are over all blocks in which that one
    side got there. Both at once are of different blocks, and then neither is a bound of the same mean.
    """
    blocks = sorted(ours.keys() & theirs.keys())
    for name, known, other in (("at_least", ours, theirs), ("at_most", theirs, ours)):
        reached = [(known[k], other[k]) for k in blocks if known[k].crossings[kind]]
        if all(o.crossings[kind] for _, o in reached):
            continue
        spent = [c.seconds if (c := o.crossings[kind]) else o.measured_s for _, o in reached]
        took = [c.seconds for r, _ in reached if (c := r.crossings[kind])]
        bound = paired_ratio(spent, took) if name == "at_least" else paired_ratio(took, spent)
        yield name, Estimate(bound.value, None, None, bound.n), len(blocks) - len(reached)
