"""Speeds of the producers and the learner, smoothed from measured times as TCP smooths round trips (RFC 6298)."""

from __future__ import annotations

import math

DEVIATIONS = 4
"""Number of mean deviations above the mean from which a time counts as an outlier (RFC 6298, section 2)."""


class Smoothed:
    """Running mean and mean deviation, as the round-trip time and its variation in RFC 6298, section 2.

    The latest measurement has weight 1/8 in the mean and 1/4 in the deviation.
    """

    def __init__(self) -> None:
        self.mean: float | None = None
        self.deviation = 0.0

    def see(self, value: float) -> None:
        """Add one measurement."""
        if self.mean is None:
            self.mean, self.deviation = value, value / 2
            return
        self.deviation += (abs(value - self.mean) - self.deviation) / 4
        self.mean += (value - self.mean) / 8

    @property
    def most(self) -> float:
        """Value that measurements seldom exceed; 0 before the first."""
        return 0.0 if self.mean is None else self.mean + DEVIATIONS * self.deviation

    @property
    def least(self) -> float:
        """Value below which measurements seldom fall; 0 before the first."""
        return 0.0 if self.mean is None else max(0.0, self.mean - DEVIATIONS * self.deviation)


class Speeds:
    """Measured times of one learner and its producers.

    Parameters
    ----------
    producers
        number of producers.
    round_chunks
        number of chunks in one round.
    bounds
        whether a bound on staleness may follow them. If not, producers are not compared after each round, which may be a single
        chunk of a replay.
    """

    def __init__(self, producers: int, round_chunks: int, *, bounds: bool = True) -> None:
        self._producers, self._round_chunks, self._bounds = producers, round_chunks, bounds
        self._chunks = Smoothed()
        self._rounds = Smoothed()
        self._of: dict[int, Smoothed] = {}
        self._slowest_ns = 0.0
        self._chunks_per_ns = 0.0
        """Rate of all producers together."""

    @property
    def chunk_ns(self) -> float | None:
        """Mean time to make a chunk, in nanoseconds. It is a mean over chunks, so that fast producers count more often."""
        return self._chunks.mean

    @property
    def round_ns(self) -> float | None:
        """Mean time of a round at the learner, in nanoseconds."""
        return self._rounds.mean

    def produced(self, producer: int, took_ns: int) -> None:
        """Add the time that a producer took for a chunk."""
        self._chunks.see(took_ns)
        own = self._of.setdefault(producer, Smoothed())
        own.see(took_ns)
        # At once, so that a chunk that took longer than any before is not judged by an outdated bound.
        self._slowest_ns = max(self._slowest_ns, own.most)

    def trained(self, took_ns: int) -> None:
        """Add the time that the learner took for a round."""
        self._rounds.see(took_ns)
        if not self._bounds:
            return
        self._slowest_ns = max((own.most for own in self._of.values()), default=0.0)
        if len(self._of) == self._producers:
            self._chunks_per_ns = sum(1 / own.mean for own in self._of.values() if own.mean)

    @property
    def cycle_ns(self) -> float | None:
        """Shortest time between two rounds, in nanoseconds. None before every producer and the learner were measured.

        It is the larger of two times: a round's lower estimate at the learner, and the time in which all producers together
        make the chunks of a round. So a single slow round does not shorten the bound.
        """
        if not self._chunks_per_ns:
            return None
        return max(self._rounds.least, self._round_chunks / self._chunks_per_ns)

    def lag_rounds(self) -> int | None:
        """Rounds by which the slowest producer's chunk is behind when it is trained on. None before all were measured.

        These are the rounds that end while the chunk is made, and the round that had begun before it arrived.
        """
        cycle = self.cycle_ns
        return None if cycle is None else math.ceil(self._slowest_ns / cycle) + 1
