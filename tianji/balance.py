"""Balance between sample production and consumption: what may be trained on, and how stale it was.

The paper states its strategy in words only; the rule here is this project's own. Pure arithmetic on counts.
"""

from __future__ import annotations

from collections import Counter


class StalenessLedger:
    """Admits chunks by *insertion lag* and keeps count.

    Insertion lag is the learner's version when a chunk arrives minus the version of the policy that produced it, in
    optimizer steps. A chunk beyond the bound is evicted.

    Parameters
    ----------
    bound
        largest admitted lag; 0 is strict on-policy training, None admits everything.
    """

    def __init__(self, bound: int | None) -> None:
        self.bound = bound
        self.lags: Counter[int] = Counter()
        self.admitted_samples = 0
        self.evicted_samples = 0
        self.evicted_chunks = 0

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
        if self.bound is not None and lag > self.bound:
            self.evicted_chunks += 1
            self.evicted_samples += samples
            return False
        self.admitted_samples += samples
        return True

    def counters(self) -> dict[str, float]:
        """Totals, in the suite's metric names."""
        chunks = sum(self.lags.values())
        return {
            "chunks_arrived": float(chunks),
            "chunks_evicted": float(self.evicted_chunks),
            "samples_admitted": float(self.admitted_samples),
            "samples_evicted": float(self.evicted_samples),
            "staleness_mean_versions": sum(lag * n for lag, n in self.lags.items()) / chunks if chunks else 0.0,
            "staleness_max_versions": float(max(self.lags, default=0)),
        }


class SequenceLedger:
    """Counts chunks lost and duplicated, from each producer's sequence numbers."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self.lost = 0
        self.duplicated = 0

    def see(self, producer: int, sequence: int) -> None:
        """Record one arrival; a gap counts as that many losses until (never, on these transports) it fills."""
        expected = self._next.get(producer, 0)
        if sequence < expected:
            self.duplicated += 1
            return
        self.lost += sequence - expected
        self._next[producer] = sequence + 1
