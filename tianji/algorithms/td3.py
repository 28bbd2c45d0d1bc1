"""Twin delayed deep deterministic policy gradients (TD3; Fujimoto et al., 2018, arXiv 1802.09477).

As for DQN, an update is written twice: in torch (`tianji.algorithms.td3_torch`), and with hand-derived gradients in NumPy
(`tianji.algorithms.td3_numpy`).

Every update both critics descend on the sum of their mean squared errors to r + gamma min Q'(s', a'), which is r where the
episode terminated. Q' are the target networks. a' is the target policy's action with clipped noise, held to the bounds. Every
`policy_every` updates the policy descends on -mean Q1(s, mu(s)), and all target networks move by `tau`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.base import Explore
from tianji.algorithms.transitions import FromTransitions, before_tanh, uniform
from tianji.config import TD3Config, TrainConfig
from tianji.layout import Views


class TD3(FromTransitions):
    """Twin delayed DDPG: actors add noise to a deterministic policy, and training draws from a replay."""

    config: TD3Config

    @staticmethod
    def explorer(config: TrainConfig, network: Any) -> Explore:
        """Explorer that adds noise to the policy's actions, scaled to -1..1; until learning starts they are uniform."""
        everybody, starts = config.environments // config.envs_per_actor, config.td3.learning_starts
        score, deviation = network.scores, config.td3.exploration_noise

        def noisy(blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.float32]:
            if steps * everybody < starts:
                return uniform(noise)
            return before_tanh(np.tanh(score(blocks, x)) + deviation * noise)

        return noisy
