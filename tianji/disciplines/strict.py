"""Strict: a round is one chunk from every actor, all made by the newest policy. No actor samples while the learner trains.

This is the usual rule of distributed on-policy training, for instance in the PPO of RLlib and XingTian. It is a barrier: actors
wait for the weights of each round, and the learner waits for the slowest actor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from programs.cli import ConfigError
from tianji.disciplines.discipline import Discipline, one_of_each
from tianji.disciplines.laws import Law, each_chunk_once, lag_at_most, one_of_each_in_a_round, waits_for_weights
from tianji.disciplines.queues import Waiting
from tianji.messages import ChunkHeader


class Strict(Discipline):
    """Barrier between sampling and training."""

    name = "strict"
    waits: ClassVar = {
        "an actor": "for round k: the weights of round k - 1",
        "the learner": "a chunk of every actor",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (lag_at_most(0), waits_for_weights(1), one_of_each_in_a_round, each_chunk_once)
    groups_wait = True
    alternates: ClassVar = True

    def check(self) -> None:
        if self.facts.replays:
            raise ConfigError(f"discipline {self.name!r} is for algorithms that train on each chunk once, not for a replay")
        if self.gathered not in (1, self.facts.producers):
            raise ConfigError(
                f"batch_chunks {self.gathered}: discipline {self.name!r} passes chunks on one by one, or a round of all "
                f"{self.facts.producers} actors at once; leave it out"
            )

    def may_begin(self, begun: int, heard: int) -> bool:
        return begun < heard

    @property
    def gathered(self) -> int:
        return self.facts.gathered or self.facts.producers

    def forwards(self, waiting: Waiting) -> int:
        # All chunks, because a restarted actor may send one more than the others.
        return len(waiting) if waiting.producers >= self.gathered else 0

    def next_round(self, pending: Waiting, part: Collection[int] = ()) -> Sequence[ChunkHeader]:
        return one_of_each(pending, self.facts.producers)

    @property
    def bound(self) -> int | None:
        return 0
