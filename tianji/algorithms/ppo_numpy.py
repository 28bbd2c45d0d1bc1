"""PPO's optimizer step for multilayer perceptrons, with a hand-derived gradient."""

from __future__ import annotations

import numpy as np

from tianji.algorithms import actor_critic_numpy
from tianji.algorithms.flat import Vector
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import PPOConfig


class NumpyUpdater(actor_critic_numpy.NumpyUpdater[PPOConfig]):
    """Adam on the clipped PPO loss, which `tianji.algorithms.ppo_torch.loss` defines."""

    def value_slope(self, value: Vector, batch: Rollouts) -> Vector:
        """Half the slope of max((V - target)^2, (U - target)^2), with U = V_old + clip(V - V_old).

        The slope is zero where V is clipped and the second branch is larger.
        """
        clip, old = self.config.value_clip, batch.value
        if clip is None:
            return super().value_slope(value, batch)
        assert old is not None
        near = np.clip(value, old - clip, old + clip)
        free = near == value
        near -= batch.value_target
        value -= batch.value_target
        free |= np.abs(value) >= np.abs(near)
        value *= free
        return value

    def surrogate_slope(self, log_probability: Vector, batch: Rollouts) -> Vector:
        """Slope of the surrogate min(r A, clip(r) A) in l = log pi(a), with r = exp(l - l_old).

        The slope is r A where the first branch is smaller, and zero where the ratio is clipped.
        """
        clip, ratio = self.config.clip, log_probability
        ratio -= batch.log_probability
        np.exp(ratio, out=ratio)
        unclipped = ratio * batch.advantage
        slope: Vector = np.where(unclipped <= np.clip(ratio, 1 - clip, 1 + clip) * batch.advantage, unclipped, 0)
        return slope
