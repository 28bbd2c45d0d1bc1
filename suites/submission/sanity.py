"""Whether the events of a run can have happened: steps and processor time fit the clock, returns fit the task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import gymnasium

from suites.records.bundle import Bundle, Manifest
from suites.records.events import Episode, Evaluation, FirstStep, Phase, Progress, Snapshot, Usage
from suites.session.runner import phases
from suites.submission.division import environments
from suites.submission.session import Session, Verdict, called

RETURNS = {"CartPole-v1": (0.0, 500.0), "ALE/Pong-v5": (-21.0, 21.0)}
"""Least and most undiscounted return of an episode, where the rules of the task bound it."""
STEPS_PER_CORE = 2e6
"""Steps a second of one core that no simulator of the workloads comes near."""
DRIFT_S = 5.0
"""By how much two clocks of a run may drift apart, and how exactly seconds are compared."""
OVERRUN = 1.5
"""How far a run may go beyond its budget of seconds: the last round of some systems is long."""
USED = 0.8
"""Share of its budget, of steps or of seconds, that a completed run has used."""


def check(session: Session, verdict: Verdict) -> None:
    """Check the events of every run; of each run only the first fault is told."""
    if not session.whole:
        return
    for run in session.runs:
        if fault := next(faults(run), None):
            verdict.wrong(f"{called(run.manifest)}: {fault}")
    _turns(session, verdict)


def faults(run: Bundle) -> Iterator[str]:
    """What is wrong with a run's events."""
    yield from _clocks(run)
    if run.manifest.suite in ("convergence", "disciplines", "staleness", "scaling"):
        yield from _training(run)
        yield from _returns(run)


def _clocks(run: Bundle) -> Iterator[str]:
    m, events = run.manifest, run.events
    starts = [event for event in events if isinstance(event, Phase)]
    if not starts:
        if m.status == "completed":
            yield "it completed and has no phase"
        return
    offsets = [event.wall_ns - event.ns for event in starts]
    if max(offsets) - min(offsets) > DRIFT_S * 1e9:
        yield "its two clocks do not agree"
    for kind in (Snapshot, Progress, Usage):
        last: dict[str, int] = {}
        for event in events:
            if isinstance(event, kind):
                role = getattr(event, "role", "")
                if event.ns < last.get(role, 0):
                    yield f"its clock goes backwards between two events `{event.__struct_config__.tag}`"
                    return
                last[role] = event.ns
    began = datetime.fromtimestamp(min(event.wall_ns for event in starts) / 1e9, UTC)
    if began.timestamp() > time.time() + 86_400:
        yield f"it began on {began.date()}, which is in the future"
    date = m.environment.get("date")
    if date is not None and date not in {(began + timedelta(days=days)).date().isoformat() for days in (-1, 0, 1)}:
        yield f"it began on {began.date()} by its clock, and its machine says {date}"
    # Episodes of scaling runs are left out of sealed sessions, so that their last phase cannot be told again.
    if m.suite != "scaling":
        told = phases(events)
        if any(abs(told.get(name, 0.0) - seconds) > DRIFT_S for name, seconds in m.phases_s.items()):
            yield "its manifest has other seconds than its events"
    usage = [event for event in events if isinstance(event, Usage)]
    if usage:
        span = (max(event.ns for event in events) - min(event.ns for event in events)) / 1e9 + DRIFT_S
        cores = m.environment.get("cpu_count") or m.cores
        if usage[-1].cpu_s > 1.1 * cores * span:
            yield f"it used {usage[-1].cpu_s:.0f} s of processor time in {span:.0f} s on {cores} cores"


def _training(run: Bundle) -> Iterator[str]:
    """Steps and seconds against the clock and the budget."""
    m, events = run.manifest, run.events
    snapshots = [event for event in events if isinstance(event, Snapshot)]
    episodes = [event for event in events if isinstance(event, Episode)]
    for one, other in pairwise(snapshots):
        if other.steps < one.steps or other.version < one.version:
            yield "a later snapshot has fewer steps, or an older version"
    steps = max([event.steps for event in snapshots] + [event.steps for event in episodes], default=0)
    first = min((event.ns for event in events if isinstance(event, FirstStep)), default=None)
    if first is None:
        if m.status == "completed":
            yield "it completed without a first step"
        return
    last = max((event.ns for event in (*snapshots, *episodes)), default=first)
    seconds = (last - first) / 1e9
    cores = m.environment["cpu_usable"]
    if steps > STEPS_PER_CORE * cores * (seconds + 1.0):
        yield f"it did {steps:,} steps in {seconds:.1f} s on {cores} cores"
    if sum(event.length for event in episodes) > steps * 1.01 + 1_000:
        yield "its episodes have more steps than the run"
    workload = m.configuration["workload"]
    budget, limit = workload["budget_steps"], workload.get("budget_seconds")
    if limit is not None and seconds > OVERRUN * limit + 60.0:
        yield f"it trained for {seconds:.0f} s of a budget of {limit:.0f} s"
    stops = bool(m.configuration.get("stop_at_goal"))
    # A completed run used its budget: a run that was cut when its return was best would look like one that got there.
    trained = m.status == "completed" and m.suite != "scaling" and not stops
    if trained and steps < USED * budget and (limit is None or seconds < USED * limit - DRIFT_S):
        yield f"it ended after {steps:,} of {budget:,} steps and {seconds:.0f} s, with budget left"
    known = {(event.steps, event.version) for event in snapshots}
    judged = [event for event in events if isinstance(event, Evaluation)]
    if any((event.steps, event.version) not in known for event in judged):
        yield "a policy was evaluated that is in no snapshot"


def _returns(run: Bundle) -> Iterator[str]:
    """Returns against what the task can give."""
    workload = run.manifest.configuration["workload"]
    env = str(workload.get("env"))
    low, high = RETURNS.get(env, (float("-inf"), float("inf")))
    found = [event.episode_return for event in run.of(Episode)]
    found += [value for event in run.of(Evaluation) for value in event.returns]
    if outside := next((value for value in found if not low <= value <= high), None):
        yield f"it has a return of {outside:g}; {env} gives {low:g} to {high:g}"
    longest = _longest(env)
    lengths = [event.length for event in run.of(Episode)]
    if longest is not None and max(lengths, default=0) > longest + _slack(longest):
        yield f"it has an episode of {max(lengths)} steps; {env} ends after {longest}"
    if env == "CartPole-v1" and any(
        event.length and abs(event.episode_return - event.length) > _slack(event.length)
        for event in run.events
        if isinstance(event, Episode)
    ):
        yield "a return of CartPole-v1 is not the episode's length"
    episodes = workload.get("evaluation", {}).get("episodes")
    curve = [event for event in run.of(Evaluation) if event.purpose == "curve"]
    if episodes is not None and any(len(event.returns) != episodes for event in curve):
        yield f"a policy was not evaluated in {episodes} episodes"


def _slack(steps: int) -> float:
    """By how much a length may be off: RLlib counts a row more for each piece of an episode."""
    return 2.0 + 0.1 * steps


def _longest(env: str) -> int | None:
    """Steps after which Gymnasium ends an episode; None where it does not know the environment or repeats frames."""
    try:
        return None if env.startswith("ALE/") or env not in environments() else gymnasium.spec(env).max_episode_steps
    except gymnasium.error.Error:
        return None


def _turns(session: Session, verdict: Verdict) -> None:
    """Runs of a session follow one another; none begins before another one ended."""
    begun: list[tuple[int, float, Manifest]] = []
    for run in session.runs:
        starts = [event.wall_ns for event in run.of(Phase)]
        if starts:
            begun.append((min(starts), sum(run.manifest.phases_s.values()), run.manifest))
    begun.sort(key=lambda one: one[0])
    for (start, seconds, one), (later, _, other) in pairwise(begun):
        if (later - start) / 1e9 + 1.0 < seconds:
            verdict.wrong(f"{called(other)} began while {called(one)} ran: runs of a session take turns")
            return
