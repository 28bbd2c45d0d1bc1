"""What is measured of a chunk's way to the learner: how stale it was, and whether any were lost or came twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

Histogram = Counter[int]
"""How many chunks had each value."""

TOTALS = ("admitted_samples", "evicted_samples", "evicted_chunks", "corrected_chunks")
"""What a ledger counts beside its histograms."""


class StalenessLedger:
    """Admits chunks by how far the learner is ahead of the policy that made them, and keeps count.

    *Insertion lag* is the learner's version when a chunk arrives minus the version of its behaviour policy; *age* is the
    same difference when the chunk is trained on. A version is one change of the learner's weights. A chunk beyond the
    bound is not trained on as it is: it is evicted, or admitted as one that has to be corrected for.

    Parameters
    ----------
    bound
        largest lag and age; 0 is strict on-policy training, None admits everything.
    correct
        True admits what is beyond the bound, for its learner to correct.
    """

    def __init__(self, bound: int | None, *, correct: bool = False) -> None:
        self.bound = bound
        self.correct = correct
        self.lags: Histogram = Counter()
        self.ages: Histogram = Counter()
        self.admitted_samples = 0
        self.evicted_samples = 0
        self.evicted_chunks = 0
        self.corrected_chunks = 0

    def admit(self, learner_version: int, behaviour_version: int, samples: int) -> bool:
        """Record a chunk's arrival and say whether it may be trained on.

        Raises
        ------
        ValueError
            when the chunk claims a policy that the learner has not made yet.
        """
        lag = learner_version - behaviour_version
        if lag < 0:
            raise ValueError(f"a chunk of version {behaviour_version} reached a learner at version {learner_version}")
        self.lags[lag] += 1
        if not self.within(lag):
            self.evicted_chunks += 1
            self.evicted_samples += samples
            return False
        self.admitted_samples += samples
        return True

    def evict(self, samples: int) -> None:
        """An admitted chunk was overtaken before it was trained on."""
        self.admitted_samples -= samples
        self.evicted_chunks += 1
        self.evicted_samples += samples

    def use(self, learner_version: int, behaviour_version: int) -> None:
        """A chunk is about to be trained on."""
        age = learner_version - behaviour_version
        self.ages[age] += 1
        self.corrected_chunks += self.bound is not None and age > self.bound

    def state(self) -> dict[str, Any]:
        """Counts, as JSON can hold them."""
        histograms = {name: {str(lag): n for lag, n in counts.items()} for name, counts in self.histograms().items()}
        return {name: getattr(self, name) for name in TOTALS} | histograms

    def restore(self, state: Mapping[str, Any]) -> None:
        """Count on from what `state` gave."""
        for name in TOTALS:
            setattr(self, name, state[name])
        for name, counts in self.histograms().items():
            counts.update({int(lag): n for lag, n in state[name].items()})

    def within(self, lag: int) -> bool:
        """Whether the bound lets this lag pass."""
        return self.bound is None or self.correct or lag <= self.bound

    def histograms(self) -> dict[str, Histogram]:
        """Both distributions, by name."""
        return {"insertion_lag_versions": self.lags, "age_versions": self.ages}

    def counters(self) -> dict[str, float]:
        """Totals, in the suite's metric names."""
        chunks = sum(self.lags.values())
        return {
            "chunks_arrived": float(chunks),
            "chunks_evicted": float(self.evicted_chunks),
            "chunks_corrected": float(self.corrected_chunks),
            "samples_admitted": float(self.admitted_samples),
            "samples_evicted": float(self.evicted_samples),
            "staleness_mean_versions": sum(lag * n for lag, n in self.lags.items()) / chunks if chunks else 0.0,
            "staleness_p50_versions": quantile(self.lags, 0.5),
            "staleness_p99_versions": quantile(self.lags, 0.99),
            "staleness_max_versions": float(max(self.lags, default=0)),
            "age_p50_versions": quantile(self.ages, 0.5),
            "age_p99_versions": quantile(self.ages, 0.99),
            "age_max_versions": float(max(self.ages, default=0)),
        }


def quantile(histogram: Histogram, share: float) -> float:
    """The smallest value that at least this share of all counts does not exceed; 0 of nothing."""
    below, wanted = 0, share * histogram.total()
    for value in sorted(histogram):
        below += histogram[value]
        if below >= wanted:
            return float(value)
    return 0.0


class SequenceLedger:
    """Counts chunks lost and duplicated, from each producer's sequence numbers.

    Parameters
    ----------
    life
        a producer that was started again numbers its chunks from the next multiple of this.
    """

    def __init__(self, life: int) -> None:
        self._life = life
        self._next: dict[int, int] = {}
        self.lost = 0
        self.duplicated = 0
        self.restarted = 0

    def see(self, producer: int, sequence: int) -> int | None:
        """Record one arrival and return how many before it are missing; None for a duplicate.

        A gap counts as that many losses until (never, on these transports) it fills.
        """
        expected = self._next.get(producer, 0)
        if sequence < expected:
            self.duplicated += 1
            return None
        if sequence // self._life != expected // self._life:
            # Whether its predecessor sent more that never came, nobody can tell.
            self.restarted += 1
            expected = sequence // self._life * self._life
        self.lost += sequence - expected
        self._next[producer] = sequence + 1
        return sequence - expected
