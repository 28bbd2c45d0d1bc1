"""Minibatches of transitions for actor-critics with a replay, and the algorithms' common part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import base
from tianji.algorithms.base import FromReplay

LARGEST = 1 - 1e-6
"""Largest absolute value of an action that is drawn between the bounds. Its inverse hyperbolic tangent has to be finite."""
_error_function = np.vectorize(math.erf, otypes=[np.float64])


@dataclass
class Transitions:
    """Minibatch of N transitions, with the noise of the actions that an update samples."""

    features: NDArray[Any]
    """Encoded observations, [N, ...]."""
    action: NDArray[np.float32]
    """Actions taken, scaled to -1..1, [N, D]."""
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    """gamma, or 0 where the episode terminated, [N]."""
    following: NDArray[Any]
    """Encoded next observations, [N, ...]."""
    noise: NDArray[np.float32]
    """Of the actions that are sampled in the state (SAC), standard normal, [N, D]."""
    next_noise: NDArray[np.float32]
    """Of those in the next state, [N, D]."""


class Updater(base.Updater[Transitions], Protocol):
    """Holder of the weights of a policy and two critics, and of target networks."""

    def measured(self, batch: Transitions) -> dict[str, float]:
        """Metrics of a batch under the present weights, which it leaves as they are."""


class FromTransitions(FromReplay):
    """Actor-critic that draws minibatches of transitions from its replay."""

    updater: Updater

    def minibatches(self, count: int) -> Iterator[Transitions]:
        size, rows = self.config.batch_size, self.drawn(count)
        features, following = (self.describe.encode(rows[name]) for name in ("observation", "next_observation"))
        # Replays hold actions before tanh, as actors drew them.
        action = np.tanh(rows["action"])
        discount = np.where(rows["terminated"], np.float32(0), np.float32(self.config.gamma))
        noise = self._rng.standard_normal((2, *action.shape), np.float32)
        for start in range(0, size * count, size):
            at = slice(start, start + size)
            yield Transitions(
                features[at], action[at], rows["reward"][at], discount[at], following[at], noise[0, at], noise[1, at]
            )

    def measured(self, batch: Transitions) -> dict[str, float]:
        return self.updater.measured(batch)


def uniform(noise: NDArray[np.float64]) -> NDArray[np.float32]:
    """Numbers whose hyperbolic tangents are uniform on (-1, 1), from standard normal ones."""
    return before_tanh(_error_function(noise / math.sqrt(2)))


def before_tanh(actions: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of which these actions, held to (-1, 1), are the hyperbolic tangents."""
    numbers: NDArray[np.float32] = np.arctanh(np.minimum(np.maximum(actions, -LARGEST), LARGEST)).astype(np.float32)
    return numbers
