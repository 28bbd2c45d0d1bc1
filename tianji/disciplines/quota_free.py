"""Quota-free: a round is any number of samples, whoever made them; what is under way when it closes is handed over.

VER's rule (Wijmans, Essa and Batra, NeurIPS 2022): experience is collected until there is enough, and no environment has to
give a share of it. Here the learner closes a round when `whole` fragments are complete. Each actor then ends its fragment at
the next step, hands over the rows that it has, and waits for the weights of the next round. An actor between two fragments
adds a single step, so that every actor answers. So a round waits for one step of the slowest actor, and not for its fragment.
All samples of a round are of one policy, and nothing has to be corrected for.

The closing is a second publication of the same weights, marked as such: it costs a copy of the weights a round. An actor goes
on until it hears of it. Where fragments are short and cores are few, a round can so become several times a usual one: what
bounds it is the memory of the actors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from programs.cli import ConfigError
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.laws import (
    Law,
    each_chunk_once,
    each_hands_over_once,
    lag_at_most,
    nothing_after_handing_over,
    rounds_within_memory,
)
from tianji.disciplines.queues import Waiting
from tianji.messages import ChunkHeader
from tianji.settings import Positive, Settings


class QuotaFree(Discipline):
    """A barrier without a quota."""

    name = "quota-free"
    waits: ClassVar = {
        "an actor": "nothing, until the round closes; then the weights of that round",
        "the learner": "enough whole fragments from anybody; then one step of every actor",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (
        lag_at_most(0),
        each_hands_over_once,
        nothing_after_handing_over,
        each_chunk_once,
        rounds_within_memory,
    )
    groups_wait: ClassVar = True
    hands_over: ClassVar = True
    when_weights_wait: ClassVar[Literal["finish", "cut", "renew"]] = "cut"

    class Options(Settings):
        """When a round closes."""

        whole: Positive | Literal["auto"] = "auto"
        """Complete fragments at which a round closes. `auto`: those of a usual round without half of one for each actor,
        because what is under way is half a fragment on average. So a round has about as many samples as under `strict`."""

    options: Options

    @property
    def whole(self) -> int:
        """Complete fragments at which a round closes."""
        chosen = self.options.whole
        return max(1, self.facts.round_chunks - self.facts.producers // 2) if chosen == "auto" else chosen

    def check(self) -> None:
        facts = self.facts
        if facts.replays:
            raise ConfigError(f"discipline {self.name!r} is for algorithms that train on each chunk once, not for a replay")
        if facts.gathered not in (None, 1):
            raise ConfigError(
                f"batch_chunks {facts.gathered}: under discipline {self.name!r} a buffer passes chunks on one by one"
            )
        if facts.slots < self.enough_slots:
            raise ConfigError(
                f"chunk_slots {facts.slots}: {facts.producers} actors fill all but one slot each before the {self.whole} "
                f"fragments that close a round are there; raise it to {self.enough_slots} or more"
            )

    @property
    def enough_slots(self) -> int:
        # Each actor keeps a slot for its last chunk.
        return -(-self.whole // self.facts.producers) + 1

    @property
    def gathered(self) -> int:
        return 1

    def closes(self, pending: Waiting) -> bool:
        return len(pending) >= self.whole

    def next_round(self, pending: Waiting, part: Collection[int] = ()) -> Sequence[ChunkHeader]:
        return pending[:] if pending.handed_over == self.facts.producers else ()

    @property
    def largest_round(self) -> int:
        return self.facts.producers * self.facts.slots

    @property
    def bound(self) -> int | None:
        return 0
