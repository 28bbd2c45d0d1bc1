"""Roles of unequal speed on a simulated clock, which show the production that a discipline allows.

Actors and a learner are the real state machines. Work takes its stated time, messages take none, and nothing is computed. So
figures are the same on every machine, to the last digit.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as replaced
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
    Cut,
    Effect,
    Event,
    PublishWeights,
    Release,
    Renew,
    Role,
    Send,
    WeightsArrived,
    WeightsWait,
    Work,
    WorkDone,
)
from tianji.roles.training import Update, UpdateDone
from tianji.topology import RoleSpec
from tianji.worlds.assembly import learner

LAYOUT, PORT = 1, "chunks"
Durations = Callable[[int], Iterator[float]]
"""Function from an actor's number to the endless durations of its chunks, in seconds."""


@dataclass(frozen=True)
class Span:
    """A piece of work."""

    role: str
    start: float
    """In seconds."""
    end: float
    version: int
    """Of a fragment's policy, or of the learner before a round."""


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
    spans: list[Span] = field(default_factory=list)
    """Every piece of work that has ended, in order of ends."""

    def __post_init__(self) -> None:
        config = replace(self.config, stop_steps=1 << 50)
        self._order = count()
        self._due: list[tuple[float, int, Role, WorkDone]] = []
        self._mail: deque[tuple[Role, Event]] = deque()
        self._began: dict[str, tuple[float, float, int]] = {}
        """By role that works: start and duration of its work, and the version."""
        self._news: dict[str, WeightsArrived] = {}
        """By actor that works: the latest weights, which it gets when its work is done."""
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
            start, _, version = self._began.pop(role.name)
            self.spans.append(Span(role.name, start, self.now, version))
            if isinstance(role, Actor):
                self._idle_since[role.producer] = self.now
                self.produced += done.result.count
            news = self._news.pop(role.name, None)
            self._tell(role, done, *([] if news is None else [news]))
        self.now = until

    def _tell(self, role: Role, *events: Event) -> None:
        """Hand events over, and then all messages that follow from them, in the order in which they were sent."""
        self._handle(role, *events)
        while self._mail:
            self._handle(*self._mail.popleft())

    def _handle(self, role: Role, *events: Event) -> None:
        work: Work | None = None
        busy = role.working and not any(isinstance(event, WorkDone) for event in events)
        for event in events:
            if isinstance(event, WeightsArrived) and busy:
                # They replace those of the work under way when it is done, unless the role says otherwise.
                self._news[role.name] = event
        told = [WeightsWait() if event is self._news.get(role.name) else event for event in events]
        for effect in role.handle(*told):
            if isinstance(effect, Work):
                work = effect
            else:
                self._perform(role, effect)
        if work is not None:
            self._work(role, work)

    def _perform(self, role: Role, effect: Effect) -> None:
        match effect:
            case Send(chunks=chunks):
                self._mail.append((self.learner, Arrived(PORT, chunks)))
            case Release(slots=slots):
                self._mail.extend((self.actors[slot.arena], Credited(PORT, [slot])) for slot in slots)
            case PublishWeights(version=version, closing=closing):
                self._mail.extend((actor, WeightsArrived(version, closing)) for actor in self.actors)
            case Cut():
                # The step that is under way is the last one.
                self._change(role, lambda done, row: replaced(done, count=done.count * (row + 1) // self.config.fragment_steps))
            case Renew():
                version = self._news.pop(role.name).version
                self._change(role, lambda done, row: replaced(done, renewals=(*done.renewals, (row, version))))

    def _change(self, actor: Role, change: Callable[[RolloutDone, int], RolloutDone]) -> None:
        """Change the result of a fragment under way, given it and the row that is under way."""
        place = next(n for n, (_, _, other, _) in enumerate(self._due) if other is actor)
        _, order, _, done = self._due[place]
        start, whole_s, _ = self._began[actor.name]
        row = min(int((self.now - start) / whole_s * self.config.fragment_steps + 1e-9), self.config.fragment_steps - 1)
        result = change(done.result, row)
        took = whole_s * result.count / self.config.chunk_samples
        self._due[place] = start + took, order, actor, WorkDone(result, round(took * 1e9))
        heapq.heapify(self._due)

    def _work(self, role: Role, work: Work) -> None:
        if isinstance(role, Actor) and isinstance(work.argument, Rollout):
            took, version = next(self._times[role.producer]), role.version
            if work.argument.brief:
                took /= self.config.fragment_steps
            idle_since, self._idle_since[role.producer] = self._idle_since[role.producer], None
            self.waited[role.producer] += self.now - (self.now if idle_since is None else idle_since)
            samples = self.config.chunk_samples // (self.config.fragment_steps if work.argument.brief else 1)
            done = WorkDone(RolloutDone(work.argument.slot, samples, 0, 1), round(took * 1e9))
        else:
            assert isinstance(work.argument, Update)
            share = 1.0 if work.argument.share is None else work.argument.share
            took = self.round_s * share if work.argument.train or work.argument.share is not None else 0.0
            version = self.learner.version
            steps = self.config.round_updates if work.argument.train else 0
            rows = round(self.config.reuse * self.config.round_steps) if steps else 0
            done = WorkDone(UpdateDone(work.argument.chunks, steps, rows), round(took * 1e9))
        self._began[role.name] = self.now, took, version
        heapq.heappush(self._due, (self.now + took, next(self._order), role, done))
