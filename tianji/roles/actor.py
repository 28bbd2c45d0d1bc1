"""Actor: produces chunks of experience whenever its discipline allows it and it has credit."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tianji.disciplines.discipline import Discipline
from tianji.messages import ChunkHeader, SlotRef
from tianji.roles.role import (
    PUBLICATIONS,
    Credited,
    Cut,
    Effect,
    Event,
    Lack,
    Renew,
    Role,
    Send,
    SessionLost,
    Trigger,
    WeightsArrived,
    WeightsWait,
    Work,
    WorkDone,
    milliseconds,
)


@dataclass(frozen=True)
class Rollout:
    """Work: fill this slot with one fragment, sampled with the latest weights. A brief one is a single step."""

    slot: SlotRef
    brief: bool = False


@dataclass(frozen=True)
class RolloutDone:
    """Result of `Rollout`: the slot holds `count` transitions, fewer than usual if the fragment was cut."""

    slot: SlotRef
    count: int
    ragged_rows: int
    size_bytes: int
    renewals: tuple[tuple[int, int], ...] = ()
    """First row under each replacement of the weights, and the new version."""
    goes_on: bool = True
    """Whether it begins where the fragment before ended."""


@dataclass
class Actor(Role):
    """State machine of one actor.

    Parameters
    ----------
    producer
        number of the actor in its chunks' headers.
    layout
        id of the layout of chunks.
    discipline
        decides when it may begin a fragment.
    sequence
        number of its first chunk.
    """

    producer: int
    layout: int
    discipline: Discipline
    sequence: int = 0
    free: deque[SlotRef] = field(default_factory=deque, init=False)
    """Slots to write to. Those that came back last are used first, because a cache is most likely to hold them."""
    version: int = field(default=-1, init=False)
    begun: int = field(default=0, init=False)
    heard: int = field(default=0, init=False)
    """Number of versions of the weights published since it was connected, also those that it missed; `begun` counts
    fragments."""
    handed: int = field(default=0, init=False)
    """Number of last chunks that it has sent since it was connected."""
    round_closes: bool = field(default=False, init=False)
    """Whether the round of its weights closes."""
    acting_version: int = field(default=-1, init=False)
    """Version of the weights of the current fragment."""
    chunks: int = field(default=0, init=False)
    samples: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    """Number of fragments that were dropped."""
    fragment_ms: Counter[int] = field(default_factory=Counter, init=False)
    """Number of fragments that took so many milliseconds. Those that were cut short are not counted."""
    _number: int | None = field(default=None, init=False)
    """Number of the publication of its weights."""
    _news: bool = field(default=False, init=False)
    """Whether newer weights wait about which the discipline was not asked yet."""

    _cut_short: bool = field(default=False, init=False)
    _is_last: bool = field(default=False, init=False)
    """Whether the current fragment is the last one under its weights."""

    def table(self) -> tuple[Trigger, ...]:
        return (
            Trigger("newer weights", lambda: self._news and self.working, self._hear_of_news),
            # The fragment is not needed any more, and the end of the run should not wait for slow environments.
            Trigger("end early", lambda: self.stopping is not None and self.working and not self._cut_short, self._end_early),
            Trigger("sample", self._may_sample, self._sample),
        )

    def _policy_ready(self) -> bool:
        over = self.discipline.hands_over and self.handed >= self.heard
        return not over and self.discipline.may_begin(self.begun, self.heard)

    def _may_sample(self) -> bool:
        if self.working or self.stopping is not None or not self._policy_ready():
            return False
        # A slot is kept for the chunk that ends the round, or the learner would wait for it for ever.
        return len(self.free) > (self.discipline.hands_over and not self.round_closes)

    def _sample(self) -> list[Effect]:
        self.working = True
        self.begun += 1
        self.acting_version = self.version
        # Nothing was under way when the round closed, and its learner waits for an answer.
        self._is_last = brief = self.discipline.hands_over and self.round_closes
        return [Work(Rollout(self.free.popleft(), brief))]

    def _hear_of_news(self) -> list[Effect]:
        """Ask the discipline how to react to weights newer than those of the current fragment."""
        self._news = False
        match self.discipline.when_weights_wait:
            case "finish":
                return []
            case "cut":
                self._is_last = self.discipline.hands_over
                return [Cut()]
            case "renew":
                return [Renew()]

    def _end_early(self) -> list[Effect]:
        self._cut_short = True
        return [Cut()]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Credited(slots=slots):
                self.free.extendleft(reversed(slots))
            case WeightsArrived(version=version, closing=closing, number=number):
                # The latest version wins, so that an actor may miss some. They count, or it would fall behind for good.
                self.heard += 1 if self._number is None else (number - self._number) % PUBLICATIONS
                self.version, self._number = version, number
                self.round_closes = closing
            case WeightsWait():
                self._news = True
            case SessionLost():
                # The learner may wait for the lost chunk before it makes new weights. So begin again with the current ones.
                self.begun, self.heard, self.handed = 0, min(1, self.heard), 0
            case WorkDone(result=RolloutDone() as done, took_ns=took_ns):
                self._news = False
                if not done.count:
                    # Nothing was sent, so no new weights follow from it. The actor may begin again.
                    self.begun -= 1
                    self.dropped += 1
                    self.free.appendleft(done.slot)
                    return []
                header = ChunkHeader(
                    producer=self.producer,
                    sequence=self.sequence,
                    version=self.acting_version,
                    layout=self.layout,
                    count=done.count,
                    ragged_rows=done.ragged_rows,
                    size_bytes=done.size_bytes,
                    slot=done.slot,
                    took_ns=took_ns,
                    renewals=done.renewals,
                    last=self._is_last,
                    goes_on=done.goes_on,
                )
                if not (self._is_last or self._cut_short):
                    self.fragment_ms[milliseconds(took_ns)] += 1
                self.handed += self._is_last
                self.sequence += 1
                self.chunks += 1
                self.samples += done.count
                return [Send("chunks", [header])]
        return []

    def waiting_for(self) -> Lack:
        if self.stopping is None and not self._policy_ready():
            return "weights"
        return "credit"

    def counters(self) -> dict[str, float]:
        return {
            "samples_produced": float(self.samples),
            "chunks_produced": float(self.chunks),
            "fragments_dropped": float(self.dropped),
        }

    def histograms(self) -> Mapping[str, Mapping[int, int]]:
        return {"fragment_ms": self.fragment_ms}
