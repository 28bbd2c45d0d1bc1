"""Analysis of disciplines bundles: throughput, the bound by round times, and lag. It is pure.

The bound says how many samples a second a discipline allows if nothing but its rule makes anybody wait. It follows from
durations that were measured in the same run. With B samples in a round, L the learner's time for a round, and t_i the time of a
fragment of actor i, a round takes to first order

==================  ======================  =====================================================
round               time                    disciplines
==================  ======================  =====================================================
barrier             E[max t_i] + L          strict, reactor, and admitted with eta = 0
any samples         B / sum r_i + L         quota-free: r_i samples a second of actor i
exactly one round   max(E[max t_i], L)      exactly one round (HTS-RL)
in order            max(max E[t_i], L)      admitted in order with eta >= 1, and stream with ahead >= 1: the slowest
                                            actor sets the pace
stream              `streamed_round_s`      stream with ahead = 0: work on a chunk overlaps with waiting for others
free                max(B / sum r_i, L)     relaxed, one-sided, free, periodic, off
window              `admitted_round_s`      admitted in any order with eta >= 1
==================  ======================  =====================================================

E[max] is that of independent actors: the sum over m >= 0 of 1 - prod_i P(t_i <= m).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from suites.convergence import analysis as convergence
from suites.records.bundle import Bundle
from suites.records.events import Counter, Evaluation, FirstStep, Histogram, Process, Progress
from suites.staleness import analysis as staleness
from suites.statistics import summary
from suites.statistics.intervals import bootstrap_iqm, paired_ratio
from suites.statistics.summary import Row, label_of

WARM_UP_SHARE = 0.25
"""Share of a run that is left out of its throughput: start-up rounds are fresher, or slower."""
WORKS = ("env", "infer")
"""Kinds of work of an actor that makes a fragment. Waiting for a simulator counts to it."""

CONSUMED = "learner_samples_consumed_unique"
"""A learner's total of samples that it trained on, each counted once."""

row = partial(summary.row, "disciplines")


def strict_system(workload: Mapping[str, Any]) -> str:
    """The system that waits for everybody on this workload: strict, or with a replay the reactor. Ratios are to it."""
    return {"ppo": "tianji", "dqn": "tianji-reactor"}.get(workload["algo"], "tianji-strict")


@dataclass(frozen=True)
class Times:
    """Durations of one run, in seconds."""

    fragments_s: tuple[float, ...]
    """t_i: mean time of a whole fragment of each actor."""
    fragment_samples: float
    """Samples in a whole fragment."""
    fragment_max_s: float | None
    """E[max t_i]; None if some actor had no whole fragment."""
    round_s: float
    """L: the learner's mean time for a round."""
    round_samples: float
    """B: mean number of samples in a round, of all groups together."""

    @property
    def fragment_mean_s(self) -> float:
        """Mean fragment over all actors."""
        return sum(self.fragments_s) / len(self.fragments_s)

    @property
    def produced_per_s(self) -> float:
        """Samples that all actors would make in a second if they never waited: the sum of r_i."""
        return sum(self.fragment_samples / one for one in self.fragments_s)

    @property
    def rho(self) -> float:
        """Mean fragment over the learner's round."""
        return self.fragment_mean_s / self.round_s

    @property
    def spread(self) -> float | None:
        """M: the expected largest fragment over the mean one."""
        return None if self.fragment_max_s is None else self.fragment_max_s / self.fragment_mean_s


def expected_max(distributions: Sequence[dict[int, int]]) -> float:
    """Expectation of the largest of independent whole numbers, one from each distribution of counts."""
    shares = []
    top = max(max(counts) for counts in distributions)
    for counts in distributions:
        below = np.zeros(top + 1)
        for value, count in counts.items():
            below[value] = count
        shares.append(np.cumsum(below) / below.sum())
    return float(np.sum(1 - np.prod(shares, axis=0)))


def _mean(counts: dict[int, int]) -> float:
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def times(b: Bundle) -> Times | None:
    """Durations of a run; None if it lacks them."""
    whole = [event.counts for event in b.of(Histogram) if event.counts and event.name == "actor_fragment_ms"]
    rounds = staleness.histogram(b, "learner_round_ms")
    consumed = sum(event.value for event in b.of(Counter) if event.name == CONSUMED)
    seconds = _seconds_a_sample(b)
    workload, system = b.manifest.configuration["workload"], b.manifest.configuration["system"]
    # The account of an actor that was killed is missing, and means over the others would be of another crew.
    if not rounds or not consumed or len(seconds) != system["actors"] * system["groups"]:
        return None
    steps = workload[workload["algo"]].get("rollout_steps")
    if steps is None:
        return None  # With a replay, rounds are not made of fragments.
    samples = workload["environments"] * steps / len(seconds)
    return Times(
        fragments_s=tuple(samples * one for one in seconds),
        fragment_samples=samples,
        # Where fragments are cut, an actor may have no whole one.
        fragment_max_s=expected_max(whole) / 1e3 if len(whole) == len(seconds) else None,
        round_s=_mean(rounds) / 1e3,
        # Groups have rounds of their own, at the same time.
        round_samples=consumed * system["groups"] / rounds.total(),
    )


def _seconds_a_sample(b: Bundle) -> list[float]:
    """Seconds of work for a sample, of each actor that made any."""
    processes = {event.role: event for event in b.of(Process)}
    found = []
    for event in b.of(Counter):
        if event.name == "actor_samples_produced" and event.value:
            account = processes[event.role]
            busy = sum(account.busy_s.get(kind, 0.0) for kind in WORKS) + account.wait_s.get("simulator", 0.0)
            found += [busy / event.value] if busy else []
    return found


def bound_per_s(discipline: dict[str, Any], t: Times) -> float | None:
    """Most samples a second that a discipline allows, by the table above; None for one that is not in it."""
    name, eta, samples = discipline["name"], discipline.get("eta", 1), t.round_samples
    anybody = samples / t.produced_per_s
    if name == "quota-free":
        return samples / (anybody + t.round_s)
    if name in ("strict", "reactor", "exactly-one-round") or (name.startswith("admitted") and eta == 0):
        if t.fragment_max_s is None:
            return None
        return samples / (max(t.fragment_max_s, t.round_s) if name == "exactly-one-round" else t.fragment_max_s + t.round_s)
    if name == "stream":
        # The learner counts a round's samples as they come, so its total has a part of a last one that did not end.
        samples = t.fragment_samples * len(t.fragments_s)
        if not discipline.get("ahead", 0):
            return samples / streamed_round_s(t.fragments_s, t.round_s)
    if name in ("admitted-in-order", "stream"):
        return samples / max(*t.fragments_s, t.round_s)
    if name in ("admitted", "admitted-interruptible"):
        chunks = round(samples / t.fragment_samples)
        return samples / admitted_round_s(t.fragments_s, t.round_s, chunks, (eta + 1) * chunks)
    if name in ("relaxed", "one-sided", "free", "off", "periodic"):
        return samples / max(anybody, t.round_s)
    return None


def streamed_round_s(fragments_s: Sequence[float], round_s: float) -> float:
    """Time of a round whose chunks are trained on one by one as they come, an equal share of `round_s` each.

    All fragments begin together. After the last pause of the learner comes the work on all chunks that are left. So the round
    is as long as the greatest sum of a fragment and the work on it and on all longer ones.
    """
    shares = round_s / len(fragments_s)
    return max(one + shares * (len(fragments_s) - shorter) for shorter, one in enumerate(sorted(fragments_s)))


def admitted_round_s(fragments_s: Sequence[float], round_s: float, chunks: int, window: int, rounds: int = 200) -> float:
    """Mean time of a round if at most `window` fragments are in flight, by playing the rule with constant times.

    A fragment is in flight from its start to the end of the round that trains on it. A round takes the first `chunks` fragments
    that are complete. So a slow fragment takes a place in the window for many rounds, which no formula of means shows.
    """
    free, complete, in_flight, ended = list(range(len(fragments_s))), 0, 0, 0
    # The number of an actor whose fragment ends, or -1 for the learner's round.
    events: list[tuple[float, int]] = []
    training, now, first = False, 0.0, 0.0
    while ended < rounds:
        while free and in_flight < window:
            actor = free.pop(0)
            in_flight += 1
            heapq.heappush(events, (now + fragments_s[actor], actor))
        if not training and complete >= chunks:
            training, complete = True, complete - chunks
            heapq.heappush(events, (now + round_s, -1))
        now, actor = heapq.heappop(events)
        if actor >= 0:
            complete += 1
            free.append(actor)
            continue
        training, ended, in_flight = False, ended + 1, in_flight - chunks
        if ended == rounds // 2:
            first = now
    return (now - first) / (rounds - rounds // 2)


def rate(b: Bundle, name: str, role: str) -> float | None:
    """Samples a second in the steady part of a run, by the progress that processes reported; None without any."""
    began = next((event.ns for event in b.of(FirstStep)), None)
    reports: dict[str, list[tuple[int, float]]] = {}
    for event in b.of(Progress):
        if event.role.startswith(role) and name in event.counts:
            reports.setdefault(event.role, []).append((event.ns, event.counts[name]))
    if began is None or not reports:
        return None
    end = max(points[-1][0] for points in reports.values())
    total = 0.0
    for points in reports.values():
        steady = [point for point in points if point[0] - began >= WARM_UP_SHARE * (end - began)]
        if len(steady) < 2:
            return None
        total += (steady[-1][1] - steady[0][1]) / ((steady[-1][0] - steady[0][0]) / 1e9)
    return total


@dataclass(frozen=True)
class Reading:
    """A run with what several quantities are made of."""

    bundle: Bundle
    times: Times | None
    consumed: float | None
    """Samples trained on a second."""

    @cached_property
    def bound(self) -> float | None:
        """Most samples a second that its discipline allows."""
        return None if self.times is None else bound_per_s(_discipline(self.bundle), self.times)

    @property
    def share(self) -> float | None:
        """Samples trained on a second, over the bound."""
        bound = self.bound
        return None if self.consumed is None or bound is None else self.consumed / bound

    def of_times(self, read: Callable[[Times], float | None]) -> float | None:
        """A value of the run's durations; None where it lacks them."""
        return None if self.times is None else read(self.times)


def _discipline(b: Bundle) -> dict[str, Any]:
    """The discipline of a run. A configuration that leaves it open is strict, as on-policy training is by default."""
    chosen = b.manifest.configuration["system"].get("discipline")
    return chosen if isinstance(chosen, dict) else {"name": chosen or "strict"}


QUANTITIES: dict[str, tuple[str, Callable[[Reading], float | None]]] = {
    "consumption_steps_per_s": ("steps/s", lambda r: r.consumed),
    "production_steps_per_s": ("steps/s", lambda r: rate(r.bundle, "samples_produced", "actor")),
    "bound_steps_per_s": ("steps/s", lambda r: r.bound),
    "share_of_bound": ("ratio", lambda r: r.share),
    "rho": ("ratio", lambda r: r.of_times(lambda t: t.rho)),
    "fragment_max_over_mean": ("ratio", lambda r: r.of_times(lambda t: t.spread)),
    "round_s": ("s", lambda r: r.of_times(lambda t: t.round_s)),
    "chunks_overwritten": ("chunks", lambda r: staleness.counted(r.bundle, "learner_chunks_overwritten")),
    "insertion_lag_mean_rounds": ("rounds", lambda r: _mean_of(r.bundle, "learner_insertion_lag_rounds")),
    "age_mean_rounds": ("rounds", lambda r: _mean_of(r.bundle, "learner_age_rounds")),
}
"""Unit and reading of each scalar, by metric."""


def _mean_of(b: Bundle, name: str) -> float | None:
    counts = staleness.histogram(b, name)
    return _mean(counts) if counts else None


def judged(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Those whose snapshots were played."""
    return [b for b in bundles if b.of(Evaluation)]


def learnt(runs: Sequence[convergence.Run]) -> list[Row]:
    """Rows of runs whose snapshots were played: steps, seconds and core-seconds to both returns, and ratios to strict."""
    if not runs:
        return []
    strict, labels = strict_system(runs[0].bundle.manifest.configuration["workload"]), {run.label for run in runs}
    rows = convergence.summarise(list(runs), [(strict, label) for label in sorted(labels - {strict})])
    return [one | {"suite": "disciplines"} for one in rows if one["metric"] not in QUANTITIES]


def summarise(bundles: Sequence[Bundle]) -> list[Row]:
    """Rows of `summary.json`: what each system did, and its throughput over the strict one's, within blocks."""
    rows: list[Row] = [one | {"suite": "disciplines"} for one in staleness.summarise(list(bundles))]
    by_label: dict[str, list[Bundle]] = {}
    for b in bundles:
        by_label.setdefault(label_of(b), []).append(b)
    rates: dict[str, dict[tuple[str, int], float]] = {}
    for label, own in sorted(by_label.items()):
        workload = own[0].manifest.workload
        readings = [Reading(b, times(b), rate(b, "samples_consumed_unique", "learner")) for b in own]
        for metric, (unit, read) in QUANTITIES.items():
            values = [value for one in readings if (value := read(one)) is not None and math.isfinite(value)]
            if values:
                rows.append(row(workload, label, metric, unit, bootstrap_iqm(values)))
        found = {(one.bundle.manifest.session, one.bundle.manifest.block): one.consumed for one in readings}
        rates[label] = {block: value for block, value in found.items() if value}
    for label, own_rates in rates.items():
        m = by_label[label][0].manifest
        strict = strict_system(m.configuration["workload"])
        common = sorted(own_rates.keys() & rates.get(strict, {}).keys())
        if label != strict and common:
            pair = [own_rates[block] for block in common], [rates[strict][block] for block in common]
            ratio = paired_ratio(*pair, [session for session, _ in common])
            rows.append(row(m.workload, label, "throughput_ratio", "ratio", ratio, baseline=strict))
    return rows
