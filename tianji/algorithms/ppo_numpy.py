"""PPO's optimizer step for multilayer perceptrons with the gradient derived by hand."""

from __future__ import annotations

import numpy as np

from tianji.algorithms import actor_critic_numpy
from tianji.algorithms.flat import Vector
from tianji.algorithms.rollouts import Rollouts
from tianji.config import PPOConfig


class NumpyKernel(actor_critic_numpy.NumpyKernel):
    """Adam on the clipped PPO loss; see `tianji.algorithms.ppo_torch.loss` for the loss itself."""

    config: PPOConfig

    def value_slope(self, value: Vector, batch: Rollouts) -> Vector:
        """With U = V_old + clip(V - V_old), the value error is max((V - target)^2, (U - target)^2).

        It has slope where its first branch is the larger one or where nothing is clipped, so that U is V.
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
        """With l = log pi(a), r = exp(l - l_old).

        The surrogate min(r A, clip(r) A) has slope r A in l where its first branch is the smaller (clipping has no slope).
        """
        clip, ratio = self.config.clip, log_probability
        ratio -= batch.log_probability
        np.exp(ratio, out=ratio)
        unclipped = ratio * batch.advantage
        slope: Vector = np.where(unclipped <= np.clip(ratio, 1 - clip, 1 + clip) * batch.advantage, unclipped, 0)
        return slope
