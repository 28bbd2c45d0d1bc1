"""Soft actor-critic (Haarnoja et al., 2018, arXiv 1812.05905): minibatches, exploration, and the sizes of its updates.

As for DQN, an update is written twice: in torch (`tianji.algorithms.sac_torch`), and with hand-derived gradients in NumPy
(`tianji.algorithms.sac_numpy`). Both take the noise of sampled actions with the batch, so that they compute the same.

An update has four steps, each under the weights that the one before left. With a' and a the policy's actions in the next state
and in the state, their log-probabilities l' and l, and alpha the temperature before the update:

1. the temperature descends on -log alpha mean(l + target entropy);
2. both critics descend on half the mean squared error to r + gamma (min Q'(s', a') - alpha l'), which is r where the episode
   terminated; Q' are the target networks;
3. the policy descends on mean(alpha l - min Q(s, a));
4. target networks move towards the critics by `tau`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import base
from tianji.algorithms.base import Explore, FromReplay
from tianji.algorithms.flat import Vector
from tianji.config import SACConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.layout import Views

LARGEST = 1 - 1e-6
"""Largest absolute value of a uniform action, whose inverse hyperbolic tangent has to be finite."""
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
    """Of the actions that are sampled in the state, standard normal, [N, D]."""
    next_noise: NDArray[np.float32]
    """Of those in the next state, [N, D]."""


class Updater(base.Updater[Transitions], Protocol):
    """Holder of the weights of a policy, two critics and a temperature, and of two target networks."""

    def measured(self, batch: Transitions) -> dict[str, float]:
        """Metrics of a batch under the present weights, which it leaves as they are."""


class SAC(FromReplay):
    """Soft actor-critic: actors sample from a squashed Gaussian, and training draws from a replay."""

    updater: Updater
    config: SACConfig

    @staticmethod
    def explorer(config: TrainConfig, network: Any) -> Explore:
        """Explorer that draws from the policy, and uniformly between the bounds until learning starts."""
        everybody, starts = config.environments // config.envs_per_actor, config.sac.learning_starts
        parts, score = network.actions.parts, network.scores
        least, most = network.actions.log_scale_bounds

        def drawn(blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.float32]:
            if steps * everybody < starts:
                return uniform(noise)
            scores = score(blocks, x)
            deviation = np.exp(np.minimum(np.maximum(scores[:, parts:], least), most))
            action: NDArray[np.float32] = scores[:, :parts] + deviation * noise.astype(np.float32)
            return action

        return drawn

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
    flat = np.clip(_error_function(noise / math.sqrt(2)), -LARGEST, LARGEST)
    numbers: NDArray[np.float32] = np.arctanh(flat).astype(np.float32)
    return numbers


def aim(config: SACConfig, actions: Actions) -> float:
    """Entropy at which a learnt temperature aims."""
    return -float(actions.parts) if config.target_entropy is None else config.target_entropy


def first(weights: Vector, config: SACConfig, temperature: slice) -> Vector:
    """Initial weights, a copy, with the temperature that the settings give."""
    flat = np.array(weights, np.float32)
    if isinstance(config.temperature, float):
        flat[temperature] = math.log(config.temperature)
    return flat
