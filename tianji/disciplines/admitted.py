"""Admitted: a fragment may begin only while few enough are ahead of the learner.

AReaL's rule (Fu et al., 2025, arXiv 2505.24298): with B fragments in a round, fragment number N (from 1) may begin
while floor((N - 1) / B) <= i + eta, i being the rounds that the learner has ended. So at most (eta + 1) B fragments are in
flight: begun, and not yet trained on by the end of a round. That bounds work in flight, not age: a slow fragment grows old
while fast ones pass it. `InOrder` bounds age as well: a round is one fragment of every actor, in order. `Interruptible` gives a
fragment under way the newest weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal

from programs.cli import ConfigError
from tianji.disciplines.balance import Balance
from tianji.disciplines.discipline import Discipline, one_of_each
from tianji.disciplines.laws import (
    Law,
    age_within_the_bound,
    each_chunk_once,
    in_flight_within,
    one_of_each_in_a_round,
)
from tianji.disciplines.queues import Waiting
from tianji.messages import ChunkHeader
from tianji.settings import Count, Settings


class Window(Balance):
    """Credit as long as a fixed number of chunks is not in flight.

    An actor gets credit for one fragment at a time. Credit that it cannot use yet would take a place in the window: a slow
    actor would hold it for many rounds, while fast ones wait.

    Parameters
    ----------
    most
        chunks that may hold credit, wait, or be trained on together.
    """

    def __init__(self, most: int, **facts: Any) -> None:
        self._fixed, self._trains = most, 0
        # A buffer waits for a whole batch, so all actors together need credit for one.
        self.most_each = -(-facts["batch_chunks"] // facts["producers"])
        super().__init__("two-sided", **facts)

    @property
    def first_credit(self) -> int:
        return min(self.slots // self.producers, self.most_each or 1)

    @property
    def window(self) -> int:
        return min(self._fixed, self.slots)

    def may_grant(self) -> bool:
        return self.backlog // self.chunk_samples + self.outstanding + self._trains < self.window

    def begin_round(self, samples: int | None = None) -> None:
        super().begin_round(samples)
        self._trains = self.round_chunks

    def end_round(self, rows: int, took_ns: int) -> None:
        super().end_round(rows, took_ns)
        self._trains = 0

    def may_widen(self, *, idle_actor: bool) -> bool:
        return False


class Admitted(Discipline):
    """Any fragments make a round, in the order in which they come."""

    name = "admitted"
    waits: ClassVar = {
        "an actor": "nothing, until (eta + 1) rounds of fragments are in flight; then the end of a round",
        "the learner": "the chunks of a round, whoever makes them",
        "groups": "nobody",
    }
    laws: ClassVar[tuple[Law, ...]] = (in_flight_within, each_chunk_once)

    class Options(Settings):
        """How far actors may be ahead."""

        eta: Count = 1
        """Rounds of fragments that may be in flight beside the one that the learner needs next."""

    options: Options

    @property
    def window(self) -> int:
        """Chunks that may be in flight."""
        return (self.options.eta + 1) * self.facts.round_chunks

    def check(self) -> None:
        if self.facts.replays:
            raise ConfigError(f"discipline {self.name!r} is for algorithms that train on each chunk once, not for a replay")
        least = max(self.facts.producers, self.facts.round_chunks + self.gathered - 1)
        if self.window < least:
            raise ConfigError(
                f"discipline.eta {self.options.eta}: {self.window} chunks may be in flight, and {self.facts.producers} actors "
                f"with batches of {self.gathered} need {least}; raise eta, or lower batch_chunks"
            )
        super().check()

    def balance(self) -> Balance:
        facts = self.facts
        return Window(
            self.window,
            round_chunks=facts.round_chunks,
            chunk_samples=facts.chunk_samples,
            reuse=facts.reuse,
            producers=facts.producers,
            slots=facts.producers * facts.slots,
            batch_chunks=self.gathered,
        )


class Interruptible(Admitted):
    """A fragment under way goes on with the newest weights."""

    name = "admitted-interruptible"
    when_weights_wait: ClassVar[Literal["finish", "cut", "renew"]] = "renew"


class InOrder(Admitted):
    """A round is one fragment of every actor: with eta = 0, this is `strict`."""

    name = "admitted-in-order"
    waits: ClassVar = {
        "an actor": "for round k: the weights of round k - 1 - eta",
        "the learner": "a chunk of every actor",
        "groups": "each other, at the Root",
    }
    laws: ClassVar[tuple[Law, ...]] = (in_flight_within, age_within_the_bound, one_of_each_in_a_round, each_chunk_once)
    groups_wait = True

    def may_begin(self, begun: int, heard: int) -> bool:
        return heard > 0 and begun < heard + self.options.eta

    def next_round(self, pending: Waiting, part: Collection[int] = ()) -> Sequence[ChunkHeader]:
        return one_of_each(pending, self.facts.producers)

    @property
    def bound(self) -> int | None:
        return self.options.eta

    def balance(self) -> Balance:
        # Actors hold themselves back, by the weights that they were given.
        return Discipline.balance(self)
