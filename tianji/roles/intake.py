"""Chunks of a learner from arrival to use: which of them wait to be trained on, which are dropped, and which slots are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tianji.disciplines.balance import Balance
from tianji.disciplines.credits import Credits
from tianji.disciplines.discipline import Discipline
from tianji.disciplines.queues import Waiting
from tianji.disciplines.staleness import Lag, SequenceLedger, Versions
from tianji.messages import LIFE, ChunkHeader, ProtocolError


class Intake:
    """Checks the chunks that arrive at a learner, and holds them until it trains on them.

    Parameters
    ----------
    layout
        id of the layout that every chunk must have.
    discipline
        decides which chunks are too old, and which are given up so that no actor waits.
    balance, credits
        accounts of the learner, in which chunks are counted.
    replays
        whether chunks go into a replay when they leave.
    """

    def __init__(self, layout: int, discipline: Discipline, balance: Balance, credits: Credits, replays: bool) -> None:
        self._layout = layout
        self._discipline = discipline
        self._balance = balance
        self._credits = credits
        self._replays = replays
        self.sequences = SequenceLedger(LIFE)
        self.staleness = discipline.staleness()
        self.arrived: list[ChunkHeader] = []
        """Chunks that arrived and were not checked yet."""
        self.pending = Waiting()
        """Chunks that were admitted."""
        self.overwritten = 0
        """Chunks that were given up, unused."""
        self._versions = Versions(balance.producers)
        self._under_way = Waiting()
        """Chunks that the worker is reading."""

    def publish(self, version: int, rounds: int) -> None:
        """Record that weights of this version go to the actors after so many rounds."""
        self._versions.publish(version, rounds, self.pending.versions)

    def admit(self, version: int, rounds: int) -> None:
        """Check the chunks that arrived: some may be trained on, others are too old.

        Parameters
        ----------
        version, rounds
            where the learner is: the version of its weights, and the number of its rounds.

        Raises
        ------
        ProtocolError
            if a chunk has another layout.
        ValueError
            if a chunk claims a policy that the learner has not made yet, or one before all that are in use.
        """
        chunks, self.arrived = self.arrived, []
        for chunk in chunks:
            self._balance.speeds.produced(chunk.producer, chunk.took_ns)
        # Before the check, because the bound follows the times that chunks took.
        self._follow_speeds()
        for chunk in chunks:
            if chunk.layout != self._layout:
                raise ProtocolError(f"chunk of producer {chunk.producer} has layout {chunk.layout}, not {self._layout}")
            known = self.sequences.lost, self.sequences.restarted
            lost = self.sequences.see(chunk.producer, chunk.sequence)
            self._credits.spend(chunk.slot.arena)
            if lost is not None and self._within_the_bound(chunk, version, rounds):
                self.pending.append(chunk)
                if not self._replays:
                    self._balance.arrive(1)
                    self._balance.insert(chunk.count)
            else:
                self._balance.arrive(1)
                self._credits.reclaim(chunk.slot)
            if known != (self.sequences.lost, self.sequences.restarted):
                self._recount(chunk.slot.arena)
        self._give_up(dict.fromkeys(chunk.slot.arena for chunk in chunks))

    def evict(self, rounds: int) -> None:
        """Drop admitted chunks that are beyond the bound after so many rounds."""
        self._follow_speeds()
        if self.staleness.bound is None or self.staleness.correct:
            return
        for chunk in self.pending.take_oldest(lambda old: not self.staleness.within(rounds - self._versions.rounds(old))):
            self.staleness.evict(chunk.count)
            self._drop(chunk)

    def take(self, chunks: Sequence[ChunkHeader], version: int, rounds: int) -> None:
        """Hand these chunks to the worker, at this version of the weights and after so many rounds."""
        self.pending.remove(chunks)
        for chunk in chunks:
            if self._replays:
                self._balance.arrive(1)
                self._balance.insert(chunk.count)
            self.staleness.use(Lag(version - chunk.version, rounds - self._versions.rounds(chunk.version)))
        self._under_way = Waiting(chunks)

    def give_back(self, chunks: Iterable[ChunkHeader]) -> None:
        """Take back the slots of these chunks, which the worker has read."""
        for chunk in chunks:
            self._credits.reclaim(chunk.slot)
        self._under_way = Waiting()

    def counters(self) -> dict[str, float]:
        """Totals under the suites' metric names."""
        return {
            "chunks_lost": float(self.sequences.lost),
            "chunks_duplicated": float(self.sequences.duplicated),
            "chunks_overwritten": float(self.overwritten),
            "producers_restarted": float(self.sequences.restarted),
            **self.staleness.counters(),
        }

    def _within_the_bound(self, chunk: ChunkHeader, version: int, rounds: int) -> bool:
        behind = rounds - self._versions.use(chunk.producer, chunk.version)
        return self.staleness.admit(Lag(version - chunk.version, behind), chunk.count)

    def _follow_speeds(self) -> None:
        """Set the bound that follows the producers' speeds."""
        if self.staleness.measured:
            self.staleness.narrow(self._balance.lag_rounds())

    def _recount(self, arena: int) -> None:
        """Count credit again after a process died: its successor may write all its slots that we do not hold."""
        read = len(self.pending.in_arena(arena)) + len(self._under_way.in_arena(arena))
        self._balance.recount(self._credits.recount(arena, read))

    def _give_up(self, arrived: Iterable[int]) -> None:
        """Drop what the discipline gives up so that no actor has to wait."""
        given_up = self._discipline.given_up(self.pending, self._under_way, arrived)
        self.pending.remove(given_up)
        for chunk in given_up:
            self._drop(chunk)
        self.overwritten += len(given_up)

    def _drop(self, chunk: ChunkHeader) -> None:
        """A chunk that was admitted leaves unused."""
        if self._replays:
            self._balance.arrive(1)
        else:
            self._balance.withdraw(chunk.count)
        self._credits.reclaim(chunk.slot)
