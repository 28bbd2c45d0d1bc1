"""Batches for algorithms that learn from rollouts: chunks side by side, and the rows of an optimizer step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import base
from tianji.algorithms.distributions import from_scores
from tianji.algorithms.flat import Vector
from tianji.environments.description import EnvDescription
from tianji.layout import Views, stacked

P = ParamSpec("P")
Both = Callable[[NDArray[Any]], tuple[Vector, Vector]]
"""Function from features [N, ...] to scores [N, S] and state values [N]."""
ROWS_TOGETHER = 8
"""Number of rows above that which BLAS processes at a time (4 on the machines tested)."""


@dataclass
class Rollouts:
    """Batch of N transitions, ready for the loss."""

    features: Any
    """Encoded observations, [N, ...]: a NumPy array, or rows on the updater's device (`Updater.place`)."""
    action: NDArray[Any]
    """Actions as chunks hold them, [N, ...]."""
    log_probability: NDArray[np.float32]
    """Log-probability of each action under the policy around which the loss clips, [N]: usually the behaviour policy."""
    advantage: NDArray[np.float32]
    value_target: NDArray[np.float32]
    value: NDArray[np.float32] | None = None
    """State values from which the advantages were computed, [N]; None if the loss does not use them."""
    weight: NDArray[np.float32] | None = None
    """Importance weight of each row in the surrogate, [N]; None: all are 1."""

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: NDArray[np.int64]) -> Rollouts:
        columns: list[Any] = [None if column is None else _rows(column, rows) for column in vars(self).values()]
        return Rollouts(*columns)


def _rows(column: Any, rows: NDArray[np.int64]) -> Any:
    if isinstance(column, np.ndarray):
        return column[rows]
    from tianji.algorithms.networks_torch import drawn  # Only an updater that has loaded torch places rows in a tensor.

    return drawn(column, rows)


class Updater(base.Accumulating[Rollouts], Protocol):
    """Holder of the weights of a policy and a value."""

    def values(self, features: NDArray[Any]) -> Vector:
        """State values [N]."""

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        """Scores [N, S] and state values [N]."""

    def place(self, features: NDArray[Any]) -> Any:
        """The rows where updates are computed. Minibatches of several epochs are taken from them, so each row is moved once."""


def by_length(
    prepare: Callable[Concatenate[Sequence[Views], P], Rollouts],
) -> Callable[Concatenate[Sequence[Views], P], Rollouts]:
    """Decorator that prepares chunks in groups of equal length and joins the batches, since a chunk may be cut short.

    Chunks of one group lie side by side. The last step of each chunk is bootstrapped from its own last observation.
    """

    @wraps(prepare)
    def whole(chunks: Sequence[Views], /, *args: P.args, **kwargs: P.kwargs) -> Rollouts:
        groups: dict[int, list[Views]] = {}
        for chunk in chunks:
            groups.setdefault(len(chunk["action"]), []).append(chunk)
        batches = [prepare(group, *args, **kwargs) for group in groups.values()]
        if len(batches) == 1:
            return batches[0]
        parts = zip(*(vars(batch).values() for batch in batches), strict=True)
        columns: list[Any] = [None if part[0] is None else np.concatenate(part) for part in parts]
        return Rollouts(*columns)

    return whole


def joined(chunks: Sequence[Views], name: str) -> NDArray[Any]:
    """One field of all chunks side by side, [T, sum of B]."""
    return chunks[0][name] if len(chunks) == 1 else np.concatenate([chunk[name] for chunk in chunks], axis=1)


def observations(chunks: Sequence[Views], describe: EnvDescription) -> tuple[NDArray[Any], NDArray[Any]]:
    """Encoded observations of chunks side by side, and encoded last observations of truncated episodes.

    Returns
    -------
    [(T + 1) * B of all, ...] and [number truncated, ...]
        rows in order of (step, environment).
    """
    parts = [stacked(chunk, describe.stack) for chunk in chunks]
    seen = parts[0][0] if len(parts) == 1 else np.concatenate([part for part, _ in parts], axis=1)
    finals = in_order(chunks, [part for _, part in parts])
    return describe.encode(seen.reshape(-1, *seen.shape[2:])), describe.encode(finals)


def in_order(chunks: Sequence[Views], finals: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rows of truncated steps, sorted by (step, environment) over all chunks. Each chunk's rows come in that order."""
    places, first = [], 0
    for chunk in chunks:
        step, environment = np.nonzero(chunk["truncated"])
        places.append(np.stack([step, environment + first]))
        first += chunk["truncated"].shape[1]
    step, environment = np.concatenate(places, axis=1)
    return np.concatenate(finals)[np.lexsort((environment, step))]


class Fragment:
    """Chunks of equal length side by side: columns [T, sum of B], and their encoded observations.

    Rows are in order of (step, environment) over all chunks. So a batch is the same bit for bit, however the environments are
    distributed over actors.
    """

    def __init__(self, chunks: Sequence[Views], describe: EnvDescription) -> None:
        names = ("action", "reward", "terminated", "truncated", "log_probability")
        self.action, self.reward, self.terminated, self.truncated, self.behaviour = (joined(chunks, name) for name in names)
        self._features, self._finals = observations(chunks, describe)
        self._actions, self._rows = describe.actions, self.reward.size

    def values(self, values_of: Callable[[NDArray[Any]], Vector]) -> tuple[Vector, Vector]:
        """Values of the observations and of the next ones. A truncated step's next observation is its episode's last."""
        return self._with_next(values_of(self._features), values_of)

    def outputs(self, both: Both) -> tuple[Vector, Vector, Vector]:
        """Log-probabilities of the actions taken, and the two results of `values`, under one policy."""
        scores, values = both(self._features)
        now = from_scores(self._actions, scores[: self._rows]).log_probability(self._acted)
        return now.reshape(self.reward.shape), *self._with_next(values, lambda finals: both(finals)[1])

    @property
    def _acted(self) -> NDArray[Any]:
        """Actions as rows."""
        return self.action.reshape(self._rows, *self.action.shape[2:])

    def _with_next(self, values: Vector, values_of: Callable[[NDArray[Any]], Vector]) -> tuple[Vector, Vector]:
        value = values.reshape(-1, self.reward.shape[1])
        next_value = value[1:]
        if len(self._finals):
            next_value = next_value.copy()
            next_value[self.truncated] = values_of(self._finals)
        return value[:-1], next_value

    def batch(
        self,
        log_probability: Vector,
        advantage: Vector,
        value_target: Vector,
        value: Vector | None = None,
        weight: Vector | None = None,
    ) -> Rollouts:
        """Batch with these columns [T, B] as rows."""
        given = (log_probability, advantage, value_target, value, weight)
        columns: list[Any] = [None if column is None else column.reshape(-1) for column in given]
        return Rollouts(self._features[: self._rows], self._acted, *columns)


def padded(features: NDArray[Any]) -> NDArray[Any]:
    """The rows, followed by rows of zeros. So the bits of a row's value do not depend on the number of rows.

    BLAS multiplies several rows at a time by a vector, and sums left-over rows in another order.
    """
    rows = -(-len(features) // ROWS_TOGETHER) * ROWS_TOGETHER
    if rows == len(features):
        return features
    result = np.zeros((rows, *features.shape[1:]), features.dtype)
    result[: len(features)] = features
    return result
