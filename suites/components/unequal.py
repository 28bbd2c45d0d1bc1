"""Roles of unequal speed on a simulated clock, which show the production that a discipline allows.

Actors and a learner are the real state machines. Work takes its stated time, messages take none, and nothing is computed. So
figures are the same on every machine, to the last digit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from tianji.config import TrainConfig
from tianji.messages import SlotRef
from tianji.roles.actor import Actor, Rollout, RolloutDone
from tianji.roles.learner import Learner
from tianji.roles.role import (
    Arrived,
    Begin,
    Credited,
    Effect,
    Event,
    PublishWeights,
    Release,
    Role,
    Send,
    WeightsArrived,
    Work,
    WorkDone,
)
from tianji.roles.training import Update, UpdateDone
from tianji.topology import RoleSpec
from tianji.worlds.assembly import learner

LAYOUT, PORT = 1, "chunks"
Durations = Callable[[int], Iterator[float]]
"""Function from an actor's number to the endless durations of its chunks, in seconds."""


@dataclass
class Clockwork:
    """Actors and their learner.

    Parameters
    ----------
    config
        of one group without a Root.
    produce
        how long chunks take.
    round_s
        how long a round of updates takes.
    """

    config: TrainConfig
    produce: Durations
    round_s: float
    now: float = 0.0
    produced: int = 0
    """Environment steps of all actors."""
    waited: list[float] = field(default_factory=list)
    """Seconds that each actor did nothing."""

    def __post_init__(self) -> None:
        config = replace(self.config, stop_steps=1 << 50)
        self._order = count()
        self._due: list[tuple[float, int, Role, WorkDone]] = []
        self._times = [self.produce(number) for number in range(config.actors)]
        self._idle_since: list[float | None] = [0.0] * config.actors
        self.waited = [0.0] * config.actors
        self.learner: Learner = learner(RoleSpec("learner", 0, 0, "learner"), config, LAYOUT, PORT)
        self.actors = [
            Actor(f"actor {number}", producer=number, layout=LAYOUT, discipline=config.rule) for number in range(config.actors)
        ]
        for number, actor in enumerate(self.actors):
            self._tell(actor, Credited(PORT, [SlotRef(number, n) for n in range(self.learner.balance.first_credit)]))
        self._tell(self.learner, Begin())

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        until = self.now + seconds
        while self._due[0][0] <= until:
            self.now, _, role, done = heapq.heappop(self._due)
            if isinstance(role, Actor):
                self._idle_since[role.producer] = self.now
                self.produced += done.result.count
            self._tell(role, done)
        self.now = until

    def _tell(self, role: Role, event: Event) -> None:
        work: Work | None = None
        for effect in role.handle(event):
            if isinstance(effect, Work):
                work = effect
            else:
                self._perform(role, effect)
        if work is not None:
            self._work(role, work)

    def _perform(self, role: Role, effect: Effect) -> None:
        match effect:
            case Send(chunks=chunks):
                self._tell(self.learner, Arrived(PORT, chunks))
            case Release(slots=slots):
                for slot in slots:
                    self._tell(self.actors[slot.arena], Credited(PORT, [slot]))
            case PublishWeights(version=version):
                for actor in self.actors:
                    self._tell(actor, WeightsArrived(version))

    def _work(self, role: Role, work: Work) -> None:
        if isinstance(role, Actor) and isinstance(work.argument, Rollout):
            took = next(self._times[role.producer])
            idle_since, self._idle_since[role.producer] = self._idle_since[role.producer], None
            self.waited[role.producer] += self.now - (self.now if idle_since is None else idle_since)
            done = WorkDone(RolloutDone(work.argument.slot, self.config.chunk_samples, 0, 1), round(took * 1e9))
        else:
            assert isinstance(work.argument, Update)
            took = self.round_s if work.argument.train else 0.0
            steps = self.config.round_updates if work.argument.train else 0
            rows = round(self.config.reuse * self.config.round_steps) if steps else 0
            done = WorkDone(UpdateDone(work.argument.chunks, steps, rows), round(took * 1e9))
        heapq.heappush(self._due, (self.now + took, next(self._order), role, done))
