"""Actor: produces chunks of experience whenever it has a policy it may use and a slot to write to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tianji.messages import ChunkHeader, SlotRef
from tianji.roles.role import Credited, Effect, Event, Role, Send, SessionLost, Trigger, Waiting, WeightsArrived, Work, WorkDone


@dataclass(frozen=True)
class Rollout:
    """Work: fill this slot with one fragment under the latest weights."""

    slot: SlotRef


@dataclass(frozen=True)
class RolloutDone:
    """The fragment lies in its slot."""

    slot: SlotRef
    count: int
    ragged_rows: int
    size_bytes: int


@dataclass
class Actor(Role):
    """State of one actor.

    Parameters
    ----------
    producer
        number that stamps its chunks.
    layout
        id of the chunks' layout.
    fresh_weights
        True waits for weights newer than those of the last fragment (on-policy); False samples on with what it has.
    sequence
        number of its first chunk.
    """

    producer: int
    layout: int
    fresh_weights: bool = True
    sequence: int = 0
    free: deque[SlotRef] = field(default_factory=deque, init=False)
    version: int = field(default=-1, init=False)
    used_version: int = field(default=-1, init=False)
    """What newer weights have to be newer than."""
    acting_version: int = field(default=-1, init=False)
    """Of the fragment that is being filled."""
    chunks: int = field(default=0, init=False)
    samples: int = field(default=0, init=False)

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("sample", self._may_sample, self._sample),)

    def _policy_ready(self) -> bool:
        return self.version > self.used_version if self.fresh_weights else self.version >= 0

    def _may_sample(self) -> bool:
        return not self.working and self.stopping is None and bool(self.free) and self._policy_ready()

    def _sample(self) -> list[Effect]:
        self.working = True
        self.used_version = self.acting_version = self.version
        return [Work(Rollout(self.free.popleft()))]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Credited(slots=slots):
                self.free.extend(slots)
            case WeightsArrived(version=version):
                self.version = version
            case SessionLost():
                # Fresh weights would never come if those that make them wait for what was lost: sample again with these.
                self.used_version = -1
            case WorkDone(result=RolloutDone() as done, took_ns=took_ns):
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
                )
                self.sequence += 1
                self.chunks += 1
                self.samples += done.count
                return [Send("chunks", [header])]
        return []

    def waiting_for(self) -> Waiting:
        if self.stopping is None and not self._policy_ready():
            return "weights"
        return "credit"

    def counters(self) -> dict[str, float]:
        return {"samples_produced": float(self.samples), "chunks_produced": float(self.chunks)}
