"""Buffer: gathers chunks in order of arrival and pushes them on in batches, without touching what is in them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tianji.messages import ChunkHeader
from tianji.roles.role import Arrived, Credited, Effect, Event, Release, Role, Send, Trigger, Waiting


@dataclass
class Buffer(Role):
    """State of one buffer.

    Parameters
    ----------
    batch_chunks
        chunks in a message to the learner.
    of_each
        True gathers until there is one of each of so many producers, and passes on all that came: a producer that was
        started again may send one more than the others.
    """

    batch_chunks: int
    of_each: bool = False
    fifo: deque[ChunkHeader] = field(default_factory=deque, init=False)
    forwarded: int = field(default=0, init=False)
    deepest: int = field(default=0, init=False)

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("forward", self._may_forward, self._forward),)

    def _may_forward(self) -> bool:
        if self.of_each:
            return len({chunk.producer for chunk in self.fifo}) >= self.batch_chunks
        return len(self.fifo) >= self.batch_chunks

    def _forward(self) -> list[Effect]:
        batch = [self.fifo.popleft() for _ in range(len(self.fifo) if self.of_each else self.batch_chunks)]
        self.forwarded += len(batch)
        return [Send("batches", batch)]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Arrived(chunks=chunks):
                self.fifo.extend(chunks)
                self.deepest = max(self.deepest, len(self.fifo))
            case Credited(slots=slots):
                # The final reader is done: its credit goes back to the actors that own the slots.
                return [Release("chunks", slots)]
        return []

    def waiting_for(self) -> Waiting:
        return "samples"

    def counters(self) -> dict[str, float]:
        return {"chunks_forwarded": float(self.forwarded), "queue_depth_max": float(self.deepest)}
