"""Free: no actor ever waits; what the learner does not get to in time is overwritten.

Spreeze's rule (Hou et al., 2023, arXiv 2312.06126): sampling and updates run at their own speeds. The chunks of an actor that
wait at the learner are a ring: when the actor would have no slot left to write to, its oldest chunk there is given up. A replay
is trained on whenever it is warm. Chunks that are trained on once make a round as soon as enough are there, whoever made them.
Spreeze's tuning of batch size and number of samplers to the machine is not part of this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar

from programs.cli import ConfigError
from tianji.disciplines.laws import Law, each_chunk_once, leaves_slots
from tianji.disciplines.off import Off
from tianji.disciplines.queues import Waiting
from tianji.messages import ChunkHeader

ROOM = 2
"""Slots that an actor has at least: one that it writes to, and one that is on its way."""


class Free(Off):
    """A ring for each actor."""

    name = "free"
    waits: ClassVar = {
        "an actor": "nothing",
        "the learner": "the chunks of a round; with a replay nothing, once training has begun",
        "groups": "nobody",
    }
    laws: ClassVar[tuple[Law, ...]] = (leaves_slots(ROOM), each_chunk_once)

    def check(self) -> None:
        if self.facts.slots < self.enough_slots:
            raise ConfigError(
                f"chunk_slots {self.facts.slots}: under discipline {self.name!r} an actor needs {self.enough_slots} slots to "
                "wait for nothing; raise it"
            )
        if self.facts.gathered not in (None, 1):
            raise ConfigError(
                f"batch_chunks {self.facts.gathered}: under discipline {self.name!r} a buffer passes chunks on one by one"
            )
        super().check()

    @property
    def enough_slots(self) -> int:
        # A round may be of one fast actor's chunks alone; beside them one may wait.
        return max(super().enough_slots, (1 if self.facts.replays else self.facts.round_chunks) + 1 + ROOM)

    @property
    def gathered(self) -> int:
        return 1

    def given_up(self, pending: Waiting, under_way: Waiting, arrived: Iterable[int]) -> Sequence[ChunkHeader]:
        found: list[ChunkHeader] = []
        for arena in arrived:
            waiting = pending.in_arena(arena)
            surplus = len(waiting) + len(under_way.in_arena(arena)) - (self.facts.slots - ROOM)
            found += islice(waiting, max(0, surplus))
        return found
