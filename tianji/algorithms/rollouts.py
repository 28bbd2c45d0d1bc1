"""What on-policy algorithms share: chunks laid side by side, and the batch that an optimizer step is made on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import Vector
from tianji.algorithms.state import Arrays
from tianji.envs import EnvDescription
from tianji.layout import stacked

Views = Mapping[str, NDArray[Any]]
"""A chunk's fields by name; see `tianji.layout.rollout_layout`."""
ROWS_TOGETHER = 8
"""More than BLAS takes at a time (4 on the machines that were looked at)."""


@dataclass
class Rollouts:
    """A batch of N transitions, ready for the loss."""

    features: NDArray[Any]
    """Encoded observations, [N, ...]."""
    action: NDArray[np.int64]
    log_probability: NDArray[np.float32]
    """Under the behaviour policy, [N]."""
    advantage: NDArray[np.float32]
    value_target: NDArray[np.float32]
    value: NDArray[np.float32] | None = None
    """Under which the advantages were assessed; None where the loss has no use for it."""

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: NDArray[np.int64]) -> Rollouts:
        return Rollouts(
            self.features[rows],
            self.action[rows],
            self.log_probability[rows],
            self.advantage[rows],
            self.value_target[rows],
            None if self.value is None else self.value[rows],
        )


class Kernel(Protocol):
    """Holds the weights of a policy and a value and Adam's moments, and does one optimizer step at a time."""

    def weights(self) -> Vector:
        """The flat vector as it stands (not a copy)."""

    def state(self) -> Arrays:
        """The weights, what the optimizer keeps, and a target network: arrays that may change with the next step."""

    def restore(self, arrays: Arrays) -> None:
        """Set what `state` gave."""

    def load(self, weights: Vector) -> None:
        """Set the weights, in place; Adam's moments stay."""

    def values(self, features: NDArray[Any]) -> Vector:
        """State values [N]."""

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        """Logits [N, A] and state values [N]."""

    def step(self, batch: Rollouts, learning_rate: float) -> None:
        """One optimizer step on this minibatch."""


def beside(chunks: Sequence[Views], name: str) -> NDArray[Any]:
    """One field of all chunks, [T, B of all]."""
    return chunks[0][name] if len(chunks) == 1 else np.concatenate([chunk[name] for chunk in chunks], axis=1)


def observations(chunks: Sequence[Views], describe: EnvDescription) -> tuple[NDArray[Any], NDArray[Any]]:
    """Encoded observations of chunks side by side, and the encoded last observations of their truncated episodes.

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
    """Rows of truncated steps, which each chunk has in order of (step, environment), in that order over all chunks."""
    places, first = [], 0
    for chunk in chunks:
        step, environment = np.nonzero(chunk["truncated"])
        places.append(np.stack([step, environment + first]))
        first += chunk["truncated"].shape[1]
    step, environment = np.concatenate(places, axis=1)
    return np.concatenate(finals)[np.lexsort((environment, step))]


def following(value: Vector, truncated: NDArray[np.bool_], of_finals: Vector) -> Vector:
    """Values [T, B] of the observations that steps led to: where an episode was truncated, of its last one."""
    next_value = value[1:]
    if truncated.any():
        next_value = next_value.copy()
        next_value[truncated] = of_finals
    return next_value


def log_probabilities(logits: Vector, action: NDArray[np.int64]) -> Vector:
    """Of the actions taken, [N]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total: Vector = np.log(np.exp(shifted).sum(axis=1))
    chosen: Vector = shifted[np.arange(len(action)), action] - total
    return chosen


def padded(features: NDArray[Any]) -> NDArray[Any]:
    """These rows and, at the end, rows of zeros, so that the bits of a row's value do not depend on how many there are.

    BLAS multiplies by a vector several rows at a time, and sums the rows that are left over in another order.
    """
    rows = -(-len(features) // ROWS_TOGETHER) * ROWS_TOGETHER
    if rows == len(features):
        return features
    result = np.zeros((rows, *features.shape[1:]), features.dtype)
    result[: len(features)] = features
    return result
