"""Running mean and variance of observations, and the variance of discounted returns, by which both are normalised.

An *actor* normalises observations under the statistics that came with its weights. Chunks hold the normalised ones, so a chunk
is trained under the statistics of its own version. A chunk also carries counts of what was acted on while it was filled.

A *learner* merges the counts of a round's chunks. It divides the round's rewards by the deviation of returns, and trains. Then
it publishes mean and scale of observations with its weights.

A *Root* merges what each group has counted itself. A mean of models brings the sum of all.

Counts, means and sums of squared differences are in double precision. Two of them merge by the formula of Chan, Golub & LeVeque
(1983, The American Statistician 37, p. 242).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import Vector
from tianji.config import NormaliseConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import Views

Table = NDArray[np.float64]
"""Statistics of F columns in one row: the count, then means [F], then sums of squared differences from them [F]."""
EPSILON = 1e-8
"""Added to variances."""


def width(columns: int) -> int:
    """Length of the table of so many columns."""
    return 1 + 2 * columns if columns else 0


def merge(into: Table, other: Table) -> None:
    """Merge one table into another, as if the rows of both had been counted together."""
    ours, theirs = float(into[0]), float(other[0])
    if not theirs:
        return
    columns, whole = len(into) // 2, ours + theirs
    mean, squares = into[1 : 1 + columns], into[1 + columns :]
    apart = other[1 : 1 + columns] - mean
    mean += apart * (theirs / whole)
    squares += other[1 + columns :] + apart * apart * (ours * theirs / whole)
    into[0] = whole


def deviations(table: Table) -> Table:
    """Standard deviations of a table's columns, [F]. Of nothing they are 1."""
    columns = len(table) // 2
    if not table[0]:
        return np.ones(columns)
    deviation: Table = np.sqrt(table[1 + columns :] / table[0] + EPSILON)
    return deviation


class Sizes:
    """Lengths of the statistics of a run: those of observations, then those of returns.

    Attributes
    ----------
    columns
        features of an observation (of one frame); 0 if observations are not normalised.
    """

    def __init__(self, config: NormaliseConfig, describe: EnvDescription) -> None:
        self.columns = describe.frame_features if config.observations else 0
        self.observations = width(self.columns)
        self.returns = width(1) if config.rewards else 0
        self.all = self.observations + self.returns


class Statistics:
    """A learner's statistics.

    The whole is what this learner's actors have counted and, with groups, what the others had counted at the last mean.
    """

    def __init__(self, config: NormaliseConfig, sizes: Sizes) -> None:
        self._config, self._sizes = config, sizes
        self.whole, self.own, self.since = (np.zeros(sizes.all) for _ in range(3))
        """Of everybody; of this learner's actors; and of those since the last push to the Root."""

    @classmethod
    def of(cls, config: TrainConfig, describe: EnvDescription) -> Statistics | None:
        """Those that a run's settings ask for; None: nothing is normalised."""
        sizes = Sizes(config.normalise, describe)
        return cls(config.normalise, sizes) if sizes.all else None

    def taken(self, chunks: Sequence[Views]) -> list[Views]:
        """Merge the increments that chunks carry, and return the chunks with normalised rewards."""
        for chunk in chunks:
            for increment in chunk["statistics"]:
                for table in (self.whole, self.own, self.since):
                    self._merge(table, increment)
        if not self._sizes.returns:
            return list(chunks)
        scale = np.float32(1 / deviations(self.whole[self._sizes.observations :])[0])
        most = np.float32(self._config.clip_rewards)
        return [{**chunk, "reward": np.clip(chunk["reward"] * scale, -most, most)} for chunk in chunks]

    def blocks(self) -> Mapping[str, Vector]:
        """What is published with the weights: mean and inverse deviation of observations, by the names of blocks."""
        if not self._sizes.observations:
            return {}
        table = self.whole[: self._sizes.observations]
        mean = table[1 : 1 + self._sizes.columns]
        return {
            "normaliser.mean": mean.astype(np.float32),
            "normaliser.scale": (1 / deviations(table)).astype(np.float32),
        }

    def push(self) -> Table:
        """What this learner's actors have counted, for the Root. What comes now is counted apart until the next push."""
        self.since[:] = 0
        return self.own

    def adopt(self, everybody: Table) -> None:
        """Take on what all groups have counted up to their pushes, and add what was counted here since the last one."""
        self.whole[:] = everybody
        self._merge(self.whole, self.since)

    def _merge(self, into: Table, other: Table) -> None:
        merge_all(into, other, self._sizes)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, for a checkpoint."""
        return {"statistics": np.stack([self.whole, self.own, self.since])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned. `ValueError` if the sizes differ."""
        kept = arrays.get("statistics")
        if kept is None or kept.shape != (3, self._sizes.all):
            raise ValueError("the state has no statistics of these observations and returns")
        self.whole[:], self.own[:], self.since[:] = kept


def merge_all(into: Table, other: Table, sizes: Sizes) -> None:
    """Merge the statistics of observations and those of returns, which lie side by side."""
    for part in (slice(sizes.observations), slice(sizes.observations, sizes.all)):
        if len(into[part]):
            merge(into[part], other[part])


def merged(tables: Sequence[Table], sizes: Sizes) -> Table:
    """Statistics of several groups together."""
    whole = np.zeros(sizes.all)
    for table in tables:
        merge_all(whole, table, sizes)
    return whole
