"""Reactor: rounds are instants of logical time, and all that happens at one instant is handled in one fixed order.

This is the rule of reactors (Kwok et al., 2023, arXiv 2312.04704): ports are fixed, events carry tags, and nobody begins a tag
before all are done with the one before. Here a tag has one chunk of every actor. The learner takes it when it is complete, in
the order of producers, and its new weights start the next tag. Without a replay this is `strict` to the bit. What it adds is a
replay: what training draws from does not depend on the order in which chunks come, so runs of DQN repeat bit for bit too.

The tags that fill a replay change no weights. All of them, and the first tag that is trained on, are sampled with the initial
weights, so an actor begins them one after the other. They are taken in whole and in turn as well.
"""

from __future__ import annotations

from typing import ClassVar

from programs.cli import ConfigError
from tianji.disciplines.laws import Law, each_chunk_once, in_order_of_producers, lag_at_most, whole_tags_in_turn
from tianji.disciplines.strict import Strict


class Reactor(Strict):
    """Barrier of logical time."""

    name = "reactor"
    waits: ClassVar = {
        "an actor": "for tag k: the weights of tag k - 1, once a replay is warm",
        "the learner": "a chunk of every actor, of one tag",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (lag_at_most(0), whole_tags_in_turn, in_order_of_producers, each_chunk_once)
    whole_rounds: ClassVar = True

    def check(self) -> None:
        facts = self.facts
        if facts.gathered not in (None, 1):
            raise ConfigError(
                f"batch_chunks {facts.gathered}: under discipline {self.name!r} a buffer passes chunks on one by one"
            )
        if facts.round_chunks != facts.producers:
            raise ConfigError(
                f"discipline {self.name!r} has one chunk of each of {facts.producers} actors in a round, not "
                f"{facts.round_chunks}; leave send_steps out"
            )

    @property
    def gathered(self) -> int:
        # The tags that fill a replay may be under way at once, and a fast actor's chunks would keep a gathering buffer from
        # the one that it waits for.
        return 1

    @property
    def silent(self) -> int:
        """Tags that end without new weights, because a replay fills."""
        # The chunk that makes the replay warm is the first one that a round is paid with.
        unpaid = max(0, -(-self.facts.free_samples // self.facts.chunk_samples) - 1)
        return -(-unpaid // self.facts.producers)

    def may_begin(self, begun: int, heard: int) -> bool:
        return heard > 0 and begun < heard + self.silent
