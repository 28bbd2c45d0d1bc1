"""Soft actor-critic (SAC; Haarnoja et al., 2018, arXiv 1812.05905): what an update computes, and how actors explore.

As for DQN, an update is written twice: in torch (`tianji.algorithms.sac_torch`), and with hand-derived gradients in NumPy
(`tianji.algorithms.sac_numpy`). Both take the noise of sampled actions with the batch, so that they compute the same.

An update has four steps, each under the weights that the one before left. With a' and a the policy's actions in the next state
and in the state, their log-probabilities l' and l, and alpha the temperature before the update:

1. the temperature descends on -log alpha mean(l + target entropy);
2. both critics descend on half the mean squared error to r + gamma (min Q'(s', a') - alpha l'). Q' are the target networks;
   where the episode terminated the target is r;
3. the policy descends on mean(alpha l - min Q(s, a));
4. target networks move towards the critics by `tau`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.base import Explore
from tianji.algorithms.flat import Vector
from tianji.algorithms.transitions import FromTransitions, uniform
from tianji.config import SACConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.layout import Views


class SAC(FromTransitions):
    """Soft actor-critic: actors sample from a squashed Gaussian, and training draws from a replay."""

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


def aim(config: SACConfig, actions: Actions) -> float:
    """Entropy at which a learnt temperature aims."""
    return -float(actions.parts) if config.target_entropy is None else config.target_entropy


def first(weights: Vector, config: SACConfig, temperature: slice) -> Vector:
    """Initial weights, a copy, with the temperature that the settings give."""
    flat = np.array(weights, np.float32)
    if isinstance(config.temperature, float):
        flat[temperature] = math.log(config.temperature)
    return flat
