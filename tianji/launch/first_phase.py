"""First phase of a run whose discipline is `auto`: a barrier, until every actor has made enough fragments to choose by.

The run then stops as it does at any limit, and all processes are launched again from the learner's state under the chosen rule.
So no role knows of a change of rules, and a launch has one rule from its start to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TypeVar

import msgspec

from programs import cores
from tianji.config import TrainConfig
from tianji.disciplines.auto import Auto, Choice
from tianji.disciplines.round_times import Steps, Times, expected_max, longest_rest, mean
from tianji.launch.events import Heard, Listener, Restarted
from tianji.messages import ACTOR_STEPS, Progress, Report, Snapshot
from tianji.telemetry import SLOW_STEP, middle_s, took

K = TypeVar("K", str, int)
V = TypeVar("V", int, float)

FRAGMENTS = 8
"""Least number of fragments of every actor, and of rounds of the learner, to choose by."""
LEAST_MS = 0.5
"""Durations are counted in whole milliseconds; this stands for those that were counted as 0."""
MEASURED = "measured"
"""Reason for the end of the first launch."""


class Trial:
    """Listener of both launches of a run that chooses its discipline.

    Parameters
    ----------
    listener
        receives all messages. A role's report covers both launches.
    """

    def __init__(self, config: TrainConfig, auto: Auto, listener: Listener) -> None:
        self._config, self._auto, self._listener = config, auto, listener
        self._chunks: dict[str, float] = {}
        self._updates: list[float] = []
        """Optimizer steps in the learner's first report and in its last."""
        self._asked = False
        """Whether the first launch was asked to end, because enough was measured."""
        self._ended = False
        """Whether the listener ended the run."""
        self._reports: dict[str, Report] = {}
        self._version = -1
        """Version of the last snapshot."""
        self.choice: Choice | None = None

    def __call__(self, message: Heard) -> str | None:
        return self._first(message) if self.choice is None else self._second(message)

    def _first(self, message: Heard) -> str | None:
        """Hear the first launch."""
        match message:
            case Report(role=role) if self._asked:
                # Kept back until the second launch reports, because a role has one report.
                self._reports[role] = message
                return None
            case Progress(role=role, counters=counters) if role.startswith("actor"):
                self._chunks[role] = counters["chunks_produced"]
            case Progress(role=role, counters=counters) if role.startswith("learner"):
                self._updates = [*self._updates[:1], counters["optimizer_steps"]]
            case Restarted(role=""):
                self._chunks, self._updates, self._reports, self._asked = {}, [], {}, False
            case Snapshot(version=version):
                self._version = version
        reason = self._listener(message)
        self._ended = self._ended or bool(reason)
        if reason is None and not self._asked and self._enough():
            self._asked, reason = True, MEASURED
        return reason

    def _enough(self) -> bool:
        if len(self._chunks) < self._config.actors or len(self._updates) < 2:
            return False
        rounds = (self._updates[1] - self._updates[0]) / self._config.round_updates
        return min(self._chunks.values()) >= FRAGMENTS and rounds >= FRAGMENTS

    def _second(self, message: Heard) -> str | None:
        """Hear the second launch."""
        match message:
            case Snapshot(version=version) if version == self._version:
                return None  # The last one of the first launch.
            case Progress(role=role, counters=counters) if role in self._reports:
                message = msgspec.structs.replace(message, counters=_counters(self._reports[role], counters))
            case Report(role=role) if role in self._reports:
                message = joined(self._reports[role], message)
        return self._listener(message)

    @property
    def measured(self) -> bool:
        """Whether the first launch ended because enough was measured, and for no other reason."""
        return self.choice is None and self._asked and not self._ended

    def choose(self) -> Choice:
        """Choose, after the first launch, by what its roles reported."""
        config = self._config
        times = times_of(self._reports, config.actors, config.fragment_steps, max(1, int(cores.usable())))
        self.choice = self._auto.unmeasured("an actor died as it was measured") if times is None else self._auto.choose(times)
        self._listener(self.choice)
        return self.choice

    def give_up(self) -> None:
        """Hand on the reports that were kept back, if the run has ended with its first launch."""
        for report in self._reports.values() if self.choice is None else ():
            self._listener(report)


def times_of(reports: Mapping[str, Report], actors: int, steps: int, cores: int) -> Times | None:
    """Durations of a launch, by the final reports of its roles; None if one is missing.

    Parameters
    ----------
    actors, steps, cores
        number of actors, of steps in a fragment, and of the cores that there are.
    """
    sampled = [report for name, report in reports.items() if name.startswith("actor") and report.histograms["fragment_ms"]]
    rounds = [report.histograms["round_ms"] for name, report in reports.items() if name.startswith("learner")]
    if len(sampled) < actors or not rounds or not rounds[0]:
        return None
    fragments = [report.histograms["fragment_ms"] for report in sampled]
    slowest_s = max(expected_max(fragments), LEAST_MS) / 1e3
    # The median, because the first round takes longer: libraries warm up.
    round_s = max(float(median(ms for ms, count in rounds[0].items() for _ in range(count))), LEAST_MS) / 1e3
    # A busy second of an actor counts less where there are more of them than cores.
    busy_s = sum((r.busy_s.get("env", 0.0) + r.busy_s.get("infer", 0.0)) / r.counters["chunks_produced"] for r in sampled)
    fragments_s = tuple(max(mean(counts), LEAST_MS) / 1e3 for counts in fragments)
    return Times(
        fragments_s=fragments_s,
        slowest_s=slowest_s,
        round_s=round_s,
        rest_s=longest_rest([_steps(r, one, steps) for r, one in zip(sampled, fragments_s, strict=True)]),
        computing_s=(min(busy_s, cores * slowest_s) + round_s) / cores,
    )


def _steps(report: Report, fragment_s: float, steps: int) -> Steps:
    """Durations of an actor's steps, of which it has recorded the slow ones."""
    made = report.counters["chunks_produced"] * steps
    slow = report.histograms.get(took(SLOW_STEP), {})
    return Steps(mean_s=fragment_s / steps, slow={middle_s(number): count / made for number, count in slow.items()})


def joined(first: Report, second: Report) -> Report:
    """Report of a role over two launches."""
    # A learner's other counts are part of its state, so they continue.
    again = ("round_ms",) if second.role.startswith("learner") else tuple(second.histograms)
    return Report(
        second.role,
        _counters(first, second.counters),
        _sum(first.busy_s, second.busy_s),
        _sum(first.wait_s, second.wait_s),
        first.cpu_s + second.cpu_s,
        max(first.peak_rss_bytes, second.peak_rss_bytes),
        {
            name: _sum(first.histograms.get(name, {}), counts) if name in again else counts
            for name, counts in second.histograms.items()
        },
    )


def _counters(first: Report, second: dict[str, float]) -> dict[str, float]:
    """Counters of a role over two launches. A learner's, and an actor's steps, continue by themselves."""
    if first.role.startswith("learner"):
        return second
    return _sum({name: value for name, value in first.counters.items() if name != ACTOR_STEPS}, second)


def _sum(first: dict[K, V], second: dict[K, V]) -> dict[K, V]:
    return first | {name: first[name] + value if name in first else value for name, value in second.items()}
