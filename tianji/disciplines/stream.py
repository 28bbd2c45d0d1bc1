"""Stream: the learner trains on each chunk as it comes; the optimizer step waits for the round.

StreamRL's synchronous form (Zhong et al., 2025, arXiv 2504.15930): gradients of the chunks of a round accumulate, and the step
on their sum follows the last one. So only the slowest chunk's gradient is left to be computed after it has come. With `ahead` =
1 actors begin the next round's fragments meanwhile, as in its asynchronous form. It is for algorithms that make one optimizer
step a round, on a mean over rows: pieces of a batch give the gradient of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from programs.cli import ConfigError
from tianji.disciplines.laws import Law, age_within_the_bound, each_chunk_once, one_of_each_in_a_round
from tianji.disciplines.queues import Waiting
from tianji.disciplines.strict import Strict
from tianji.messages import ChunkHeader
from tianji.settings import Count, Settings


class Stream(Strict):
    """A barrier for actors, and none for the learner's work."""

    name = "stream"
    waits: ClassVar = {
        "an actor": "for round k: the weights of round k - 1 - ahead",
        "the learner": "any chunk of the round; a chunk of every actor before its optimizer step",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (age_within_the_bound, one_of_each_in_a_round, each_chunk_once)
    alternates: ClassVar = False
    accumulates: ClassVar = True

    class Options(Settings):
        """How far actors may be ahead."""

        ahead: Count = 0
        """Fragments that an actor may begin beyond the weights that it was given."""

    options: Options

    def check(self) -> None:
        super().check()
        if not self.facts.one_step:
            raise ConfigError(
                f"discipline {self.name!r} is for algorithms that make one optimizer step a round, on all of its rows: impala"
            )
        if self.facts.gathered not in (None, 1):
            raise ConfigError(
                f"batch_chunks {self.facts.gathered}: under discipline {self.name!r} a buffer passes chunks on one by one"
            )

    def may_begin(self, begun: int, heard: int) -> bool:
        return heard > 0 and begun < heard + self.options.ahead

    @property
    def gathered(self) -> int:
        return 1

    def next_round(self, pending: Waiting, part: Collection[int] = ()) -> Sequence[ChunkHeader]:
        found = {chunk.producer: chunk for chunk in reversed(pending)}  # The oldest of each.
        return [chunk for producer, chunk in found.items() if producer not in part]

    @property
    def bound(self) -> int | None:
        return self.options.ahead
