"""Exactly one round: actors sample the next round while the learner trains on the current one, followed by a barrier.

This is HTS-RL's rule (Liu, Yeh and Schwing, 2020, arXiv 2012.09849): two storages swap when both sides are done. The chunks
of round j are made with the weights after round j - 2, and those of the first two rounds with the initial weights. So the
result of training does not depend on speeds.
"""

from __future__ import annotations

from typing import ClassVar

from programs.cli import ConfigError
from tianji.disciplines.laws import Law, each_chunk_once, lag_exactly, one_of_each_in_a_round, waits_for_weights
from tianji.disciplines.queues import Waiting
from tianji.disciplines.sizes import Unpublished
from tianji.disciplines.strict import Strict


class ExactlyOneRound(Strict):
    """Barrier at which two storages swap."""

    name = "exactly-one-round"
    waits: ClassVar = {
        "an actor": "for round k: the weights of round k - 2",
        "the learner": "a chunk of every actor, before it publishes and goes on",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (lag_exactly(1), waits_for_weights(2), one_of_each_in_a_round, each_chunk_once)

    alternates: ClassVar = False

    def check(self) -> None:
        super().check()
        if self.facts.gathered not in (None, 1):
            raise ConfigError(
                f"batch_chunks {self.facts.gathered}: under discipline {self.name!r} a buffer passes chunks on one by one"
            )
        if self.facts.slots < 2:
            raise ConfigError(
                f"chunk_slots {self.facts.slots}: under discipline {self.name!r} an actor makes one chunk while another is "
                "trained on; raise it to 2"
            )

    @property
    def enough_slots(self) -> int:
        return max(2, super().enough_slots)

    @property
    def gathered(self) -> int:
        # A buffer that gathers could hold a chunk of this round until those of the next round come, and they wait for this one.
        return 1

    def may_begin(self, begun: int, heard: int) -> bool:
        return heard > 0 and begun < heard + 1

    def may_publish(self, pending: Waiting, since: Unpublished) -> bool:
        # The swap: an actor that still samples with the earlier weights would otherwise get newer ones.
        return bool(self.next_round(pending))

    @property
    def bound(self) -> int | None:
        return 1
