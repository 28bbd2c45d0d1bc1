"""Base class of disciplines: the questions that roles ask about waiting, and the default answers.

=========  ==========================================================  ==========================
who asks   what                                                        answer
=========  ==========================================================  ==========================
an actor   may I begin a fragment?                                     `may_begin`
           what happens to a fragment when newer weights arrive?       `when_weights_wait`
           is what is under way handed over when a round closes?       `hands_over`
a buffer   how many of the chunks go on to the learner now?            `forwards`
a learner  which chunks make the next round?                           `next_round`
           may a round begin, may an actor have more credit?           `balance`
           does the round close, so that actors hand over?             `closes`
           which chunks are given up so that no actor waits?           `given_up`
           may this chunk be trained on, or is it too old?             `staleness`
           does a replay take in whole rounds only?                    `whole_rounds`
           may the weights of the last round go out now?               `may_publish`
a Root     do groups wait for each other's models?                     `groups_wait`
=========  ==========================================================  ==========================

A discipline is pure: it sees counts and headers of chunks, but no clock, socket or array. Each role has its own object, made
from the same facts and options.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar, Literal

from programs.cli import ConfigError
from tianji.disciplines.balance import Balance, Mode
from tianji.disciplines.laws import Law
from tianji.disciplines.queues import Waiting
from tianji.disciplines.sizes import Facts, Unpublished
from tianji.disciplines.staleness import StalenessLedger
from tianji.messages import ChunkHeader
from tianji.settings import Settings


class Discipline(ABC):
    """Rule for who waits for whom.

    Parameters
    ----------
    facts
        sizes of the run.
    options
        options of this discipline.
    """

    name: ClassVar[str]
    """Name in the configuration."""
    waits: ClassVar[dict[str, str]]
    """What each role waits for, in words, for the table of all disciplines."""
    laws: ClassVar[tuple[Law, ...]] = ()
    """Properties that always hold under this discipline."""
    groups_wait: ClassVar[bool] = False
    """Whether groups wait for each other's models, and have equal shares of the budget."""
    alternates: ClassVar[bool] = False
    """Whether no actor samples while the learner trains. One actor may then share the learner's process."""
    mode: ClassVar[Mode] = "one-sided"
    """Mode of the balance of production and consumption; see `tianji.disciplines.balance`."""

    class Options(Settings):
        """Options of the discipline. This one has none."""

    def __init__(self, facts: Facts, options: Settings) -> None:
        self.facts, self.options = facts, options

    def check(self) -> None:
        """Refuse settings that this discipline does not support, or that could block for ever.

        The slots of all actors must hold the n chunks of a round at the learner and the b - 1 chunks that a buffer may hold
        back.

        Raises
        ------
        ConfigError
            names a value that would work.
        """
        facts, held = self.facts, self.facts.round_chunks
        slots = facts.producers * facts.slots
        if not facts.replays and slots == held and held % self.gathered == 0:
            return  # Chunks move in whole batches, and every slot is in the round.
        if slots < self._under_way:
            raise ConfigError(
                f"chunk_slots {facts.slots}: {facts.producers} actors have {slots} slots, and {self._under_way} chunks are "
                f"under way in a round; raise it to {-(-self._under_way // facts.producers)} or more"
            )

    @property
    def _under_way(self) -> int:
        """Chunks that a learner and a buffer hold in a round."""
        # Into a replay chunks go on arrival, so that slots hold no round of them unless credit is withheld.
        held = 1 if self.facts.replays and self.mode != "two-sided" else self.facts.round_chunks
        return held + self.gathered - 1

    @property
    def enough_slots(self) -> int:
        """Slots of each actor with which no role can wait for ever."""
        return -(-self._under_way // self.facts.producers)

    # Questions of an actor.

    def may_begin(self, begun: int, heard: int) -> bool:
        """Whether an actor that has credit may begin a fragment.

        Parameters
        ----------
        begun
            number of fragments that it has begun since it was connected.
        heard
            number of versions of the weights published since then, up to the one that it has.
        """
        return heard > 0

    when_weights_wait: ClassVar[Literal["finish", "cut", "renew"]] = "finish"
    """Reaction to newer weights during a fragment. `finish`: complete it under the old ones. `cut`: end it early. `renew`:
    continue with the new ones."""

    hands_over: ClassVar[bool] = False
    """Whether an actor, when it hears that its round closes, hands over what it has and begins no other fragment before the
    weights of the next round. Its chunk is marked as the last one. A fragment that is under way has to be cut for that."""

    # Questions of a buffer.

    @property
    def gathered(self) -> int:
        """Number of chunks that a buffer gathers before it passes any on."""
        return self.facts.gathered or 1

    def forwards(self, waiting: Waiting) -> int:
        """Number of the chunks waiting at a buffer, oldest first, that go to the learner now."""
        return self.gathered if len(waiting) >= self.gathered else 0

    # Questions of a learner.

    accumulates: ClassVar[bool] = False
    """Whether the learner trains on a round's chunks as they arrive: gradients accumulate, and one optimizer step follows."""

    def next_round(self, pending: Waiting, part: Collection[int] = ()) -> Sequence[ChunkHeader]:
        """Chunks of the next round, out of those admitted; empty while there are too few.

        Where gradients accumulate, it returns the chunks of the round that can be trained on now.
        If chunks go to a replay, it is asked only if that takes in whole rounds. The balance says when a round may begin.

        Parameters
        ----------
        pending
            waiting chunks, oldest first.
        part
            producers whose chunks of the same round were trained on already, where gradients accumulate.
        """
        n = self.facts.round_chunks
        return pending[:n] if len(pending) >= n else ()

    whole_rounds: ClassVar[bool] = False
    """Whether a replay takes in whole rounds only, each in the order of producers. If not, it takes in chunks as they come."""

    def closes(self, pending: Waiting) -> bool:
        """Whether the round closes, given the chunks that wait: actors then hand over what is under way."""
        return False

    def given_up(self, pending: Waiting, under_way: Waiting, arrived: Iterable[int]) -> Sequence[ChunkHeader]:
        """The chunks, of those that wait, which are dropped unused so that actors need not wait.

        Parameters
        ----------
        under_way
            chunks that are being trained on or copied.
        arrived
            arenas from which chunks have come since this was last asked, each once. No other holds more than it did.
        """
        return ()

    def may_publish(self, pending: Waiting, since: Unpublished) -> bool:
        """Whether the weights of the last round may be published. If not, training goes on as `next_round` says.

        Parameters
        ----------
        pending
            chunks admitted since that round began.
        since
            work since weights were last published.
        """
        return True

    @property
    def period(self) -> Unpublished:
        """Least work of a learner between two publications of its weights."""
        return Unpublished()

    @property
    def largest_round(self) -> int:
        """Most chunks that a round can have."""
        return self.facts.round_chunks

    @property
    def bound(self) -> int | None:
        """Bound on staleness: most rounds of updates by which a chunk's policy may be behind. None: no bound."""
        return None

    @property
    def window(self) -> int | None:
        """Fragments that may be in flight, from their start to the end of the round that trains on them; None: any number."""
        return None

    @property
    def on_policy(self) -> bool:
        """Whether only chunks of the current policy are trained on."""
        return self.bound == 0

    def balance(self) -> Balance:
        """Account of production and consumption. It decides on credit, and on when rounds of a replay begin."""
        facts = self.facts
        return Balance(
            self.mode,
            round_chunks=facts.round_chunks,
            chunk_samples=facts.chunk_samples,
            reuse=facts.reuse,
            producers=facts.producers,
            slots=facts.producers * facts.slots,
            batch_chunks=self.gathered,
            lag_rounds=self.bound,
            free_samples=facts.free_samples,
        )

    def staleness(self) -> StalenessLedger:
        """Ledger that decides which chunks are too old to be trained on, and counts the age of all."""
        return StalenessLedger(self.bound)


def one_of_each(waiting: Waiting, producers: int) -> Sequence[ChunkHeader]:
    """Oldest chunk of every producer; empty while one of them is missing."""
    if waiting.producers != producers:
        return ()
    oldest: dict[int, ChunkHeader] = {}
    for chunk in waiting:
        oldest.setdefault(chunk.producer, chunk)
    return tuple(oldest.values())
