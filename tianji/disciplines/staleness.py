"""Ledgers of chunks at the learner: their staleness, and how many were lost or duplicated."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Histogram = Counter[int]
"""Number of chunks with each value."""

TOTALS = ("admitted_samples", "evicted_samples", "evicted_chunks", "corrected_chunks")
"""Counts of a ledger besides its histograms."""


@dataclass(frozen=True)
class Lag:
    """Staleness: how far the learner is ahead of a chunk's behaviour policy."""

    versions: int
    """Changes of the weights in between: optimizer steps, and means adopted."""
    rounds: int
    """Rounds of updates in between."""


class Versions:
    """Number of rounds after which each version of the weights was published, kept as long as its chunks may arrive.

    Parameters
    ----------
    producers
        number of producers. No version is dropped before each of them has sent a chunk.
    """

    def __init__(self, producers: int) -> None:
        self._producers = producers
        self._versions: list[int] = []
        self._rounds: list[int] = []
        self._used: dict[int, int] = {}
        """Version of each producer's latest chunk. Its next chunks are of this version or a later one."""
        self._tidy_at = 1024

    def publish(self, version: int, rounds: int, waiting: Iterable[int] = ()) -> None:
        """Record that a version was published after `rounds` rounds.

        Parameters
        ----------
        waiting
            versions of chunks that arrived and are still needed.
        """
        self._versions.append(version)
        self._rounds.append(rounds)
        if len(self._versions) >= self._tidy_at:
            oldest = min((*self._used.values(), *waiting)) if len(self._used) == self._producers else 0
            if (first := bisect_right(self._versions, oldest) - 1) > 0:
                del self._versions[:first], self._rounds[:first]
            self._tidy_at = max(1024, 2 * len(self._versions))

    def use(self, producer: int, version: int) -> int:
        """Rounds after which the version of a producer's chunk was published."""
        self._used[producer] = version
        return self.rounds(version)

    def rounds(self, version: int) -> int:
        """Rounds after which a version was published.

        Raises
        ------
        ValueError
            for a version that no actor can have.
        """
        place = bisect_right(self._versions, version) - 1
        if place < 0:
            raise ValueError(f"version {version} was never published, or before all that are in use")
        return self._rounds[place]


class StalenessLedger:
    """Admits chunks by how far the learner is ahead of the policy that made them, and keeps count.

    *Insertion lag* is the distance when a chunk arrives; *age* is the distance when it is trained on. Both are counted in
    versions and in rounds. The bound is in rounds. A chunk beyond it is evicted, or admitted to be corrected for.

    Parameters
    ----------
    most
        largest lag and age of a chunk, in rounds. 0 is strict on-policy training; None admits every chunk.
    measured
        whether the bound in force follows from measured speeds (`narrow`), below `most`.
    least
        smallest measured bound.
    correct
        True admits chunks beyond the bound, for the learner to correct.
    """

    def __init__(self, most: int | None, *, measured: bool = False, least: int = 0, correct: bool = False) -> None:
        self.most = most
        self.measured = measured
        self.least = least
        self.bound = most
        """Bound in force, in rounds, at most `most`."""
        self.correct = correct
        self.lags: Histogram = Counter()
        self.ages: Histogram = Counter()
        self.lags_rounds: Histogram = Counter()
        self.ages_rounds: Histogram = Counter()
        self.admitted_samples = 0
        self.evicted_samples = 0
        self.evicted_chunks = 0
        self.corrected_chunks = 0

    def narrow(self, rounds: int | None) -> None:
        """Set a narrower bound than the largest one. None: the largest."""
        self.bound = self.most if rounds is None or self.most is None else min(self.most, max(self.least, rounds))

    def admit(self, lag: Lag, samples: int) -> bool:
        """Record a chunk's arrival and say whether it may be trained on.

        Raises
        ------
        ValueError
            if the chunk claims a policy that the learner has not made yet.
        """
        if lag.versions < 0:
            raise ValueError(f"a chunk is of a policy {-lag.versions} versions ahead of its learner's")
        self.lags[lag.versions] += 1
        self.lags_rounds[lag.rounds] += 1
        if not self.within(lag.rounds):
            self.evicted_chunks += 1
            self.evicted_samples += samples
            return False
        self.admitted_samples += samples
        return True

    def evict(self, samples: int) -> None:
        """Record an admitted chunk that became too old before it was trained on."""
        self.admitted_samples -= samples
        self.evicted_chunks += 1
        self.evicted_samples += samples

    def use(self, age: Lag) -> None:
        """Record a chunk that is about to be trained on."""
        self.ages[age.versions] += 1
        self.ages_rounds[age.rounds] += 1
        self.corrected_chunks += self.bound is not None and age.rounds > self.bound

    def state(self) -> dict[str, Any]:
        """Counts as plain data."""
        histograms = {name: {str(lag): n for lag, n in counts.items()} for name, counts in self.histograms().items()}
        return {name: getattr(self, name) for name in TOTALS} | histograms

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue the counts that `state` returned."""
        for name in TOTALS:
            setattr(self, name, state[name])
        for name, counts in self.histograms().items():
            counts.update({int(lag): n for lag, n in state[name].items()})

    def within(self, rounds: int) -> bool:
        """Whether this lag, in rounds, is within the bound."""
        return self.bound is None or self.correct or rounds <= self.bound

    def histograms(self) -> dict[str, Histogram]:
        """All distributions, by name."""
        return {
            "insertion_lag_versions": self.lags,
            "age_versions": self.ages,
            "insertion_lag_rounds": self.lags_rounds,
            "age_rounds": self.ages_rounds,
        }

    def counters(self) -> dict[str, float]:
        """Totals under the suites' metric names. `lag_bound_rounds` is present only if there is a bound."""
        found = {
            "chunks_arrived": float(self.lags.total()),
            "chunks_evicted": float(self.evicted_chunks),
            "chunks_corrected": float(self.corrected_chunks),
            "samples_admitted": float(self.admitted_samples),
            "samples_evicted": float(self.evicted_samples),
        }
        if self.bound is not None:
            found["lag_bound_rounds"] = float(self.bound)
        for unit, lags, ages in (("versions", self.lags, self.ages), ("rounds", self.lags_rounds, self.ages_rounds)):
            chunks = lags.total()
            found[f"staleness_mean_{unit}"] = sum(lag * n for lag, n in lags.items()) / chunks if chunks else 0.0
            for name, histogram in (("staleness", lags), ("age", ages)):
                found[f"{name}_p50_{unit}"] = quantile(histogram, 0.5)
                found[f"{name}_p99_{unit}"] = quantile(histogram, 0.99)
                found[f"{name}_max_{unit}"] = float(max(histogram, default=0))
        return found


def quantile(histogram: Histogram, share: float) -> float:
    """Smallest value that at least this share of all counts does not exceed; 0 if there are none."""
    below, wanted = 0, share * histogram.total()
    for value in sorted(histogram):
        below += histogram[value]
        if below >= wanted:
            return float(value)
    return 0.0


class SequenceLedger:
    """Counts lost and duplicated chunks by each producer's sequence numbers.

    Parameters
    ----------
    life
        a restarted producer numbers its chunks from the next multiple of this.
    """

    def __init__(self, life: int) -> None:
        self._life = life
        self._next: dict[int, int] = {}
        self.lost = 0
        self.duplicated = 0
        self.restarted = 0

    def see(self, producer: int, sequence: int) -> int | None:
        """Record one arrival, and return the number of missing chunks before it. None for a duplicate.

        A gap counts as losses until it fills, which never happens on these transports.
        """
        expected = self._next.get(producer, 0)
        if sequence < expected:
            self.duplicated += 1
            return None
        if sequence // self._life != expected // self._life:
            # It is unknown whether its predecessor sent more chunks that were lost.
            self.restarted += 1
            expected = sequence // self._life * self._life
        self.lost += sequence - expected
        self._next[producer] = sequence + 1
        return sequence - expected
