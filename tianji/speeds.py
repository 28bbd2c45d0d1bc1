"""How fast each producer and the learner are: smoothed from measured times, as TCP smooths its round trips (RFC 6298)."""

from __future__ import annotations

import math

DEVIATIONS = 4
"""A time that exceeds the mean by more than so many mean deviations counts as an outlier (RFC 6298, section 2)."""


class Smoothed:
    """A running mean in which the latest measurement weighs an eighth, and a mean deviation in which it weighs a quarter.

    RFC 6298, section 2: the smoothed round-trip time, and its variation.
    """

    def __init__(self) -> None:
        self.mean: float | None = None
        self.deviation = 0.0

    def see(self, value: float) -> None:
        """Take in one measurement."""
        if self.mean is None:
            self.mean, self.deviation = value, value / 2
            return
        self.deviation += (abs(value - self.mean) - self.deviation) / 4
        self.mean += (value - self.mean) / 8

    @property
    def most(self) -> float:
        """What a measurement seldom exceeds; 0 before the first."""
        return 0.0 if self.mean is None else self.mean + DEVIATIONS * self.deviation

    @property
    def least(self) -> float:
        """What a measurement seldom falls below; 0 before the first."""
        return 0.0 if self.mean is None else max(0.0, self.mean - DEVIATIONS * self.deviation)


class Speeds:
    """Measured times of one learner and its producers.

    Parameters
    ----------
    producers
        how many there are.
    round_chunks
        chunks of one round.
    """

    def __init__(self, producers: int, round_chunks: int) -> None:
        self._producers, self._round_chunks = producers, round_chunks
        self._chunks = Smoothed()
        self._rounds = Smoothed()
        self._of: dict[int, Smoothed] = {}
        self._slowest_ns = 0.0
        self._chunks_per_ns = 0.0
        """Of all producers together."""

    @property
    def chunk_ns(self) -> float | None:
        """Mean time of a chunk in the making, over chunks as they arrive: a fast producer counts more often."""
        return self._chunks.mean

    @property
    def round_ns(self) -> float | None:
        """Mean time that the learner takes for a round."""
        return self._rounds.mean

    def produced(self, producer: int, took_ns: int) -> None:
        """A producer took so long for a chunk."""
        self._chunks.see(took_ns)
        own = self._of.setdefault(producer, Smoothed())
        own.see(took_ns)
        # At once: a chunk that took longer than any before it is not held to a bound that knew nothing of it.
        self._slowest_ns = max(self._slowest_ns, own.most)

    def trained(self, took_ns: int) -> None:
        """The learner took so long for a round."""
        self._rounds.see(took_ns)
        self._slowest_ns = max((own.most for own in self._of.values()), default=0.0)
        if len(self._of) == self._producers:
            self._chunks_per_ns = sum(1 / own.mean for own in self._of.values() if own.mean)

    @property
    def cycle_ns(self) -> float | None:
        """Shortest time from one round to the next; None before every producer and the learner were heard of.

        The larger one of what the learner seldom falls below, and of the time in which all producers together make a round's
        chunks. A round that was slow once thus shortens no bound.
        """
        if not self._chunks_per_ns:
            return None
        return max(self._rounds.least, self._round_chunks / self._chunks_per_ns)

    def lag_rounds(self) -> int | None:
        """Rounds by which the slowest producer's chunk is behind when its turn comes; None before all were heard of.

        As many as end while it is being made, and one more: the round that had begun before it arrived.
        """
        cycle = self.cycle_ns
        return None if cycle is None else math.ceil(self._slowest_ns / cycle) + 1
