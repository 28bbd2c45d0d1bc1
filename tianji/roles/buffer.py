"""Buffer: gathers chunks in order of arrival and passes them on in batches without reading them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tianji.disciplines.discipline import Discipline
from tianji.disciplines.queues import Waiting
from tianji.roles.role import Arrived, Credited, Effect, Event, Lack, Release, Role, Send, Trigger


@dataclass
class Buffer(Role):
    """State machine of one buffer.

    Parameters
    ----------
    discipline
        decides how many of the chunks go on to the learner.
    """

    discipline: Discipline
    fifo: Waiting = field(default_factory=Waiting, init=False)
    forwarded: int = field(default=0, init=False)
    deepest: int = field(default=0, init=False)

    def table(self) -> tuple[Trigger, ...]:
        return (Trigger("forward", self._may_forward, self._forward),)

    def _may_forward(self) -> bool:
        return self.discipline.forwards(self.fifo) > 0

    def _forward(self) -> list[Effect]:
        batch = self.fifo[: self.discipline.forwards(self.fifo)]
        self.fifo.remove(batch)
        self.forwarded += len(batch)
        return [Send("batches", batch)]

    def absorb(self, event: Event) -> list[Effect]:
        match event:
            case Arrived(chunks=chunks):
                self.fifo.extend(chunks)
                self.deepest = max(self.deepest, len(self.fifo))
            case Credited(slots=slots):
                # The last reader released them, so the credit goes back to the actors that own the slots.
                return [Release("chunks", slots)]
        return []

    def waiting_for(self) -> Lack:
        return "samples"

    def counters(self) -> dict[str, float]:
        return {"chunks_forwarded": float(self.forwarded), "queue_depth_max": float(self.deepest)}
