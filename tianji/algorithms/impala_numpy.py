"""IMPALA's optimizer step for multilayer perceptrons with the gradient derived by hand."""

from __future__ import annotations

from tianji.algorithms import actor_critic_numpy
from tianji.algorithms.flat import Vector
from tianji.algorithms.rollouts import Rollouts
from tianji.config import IMPALAConfig


class NumpyKernel(actor_critic_numpy.NumpyKernel):
    """Adam on IMPALA's loss; see `tianji.algorithms.impala_torch.loss` for the loss itself."""

    config: IMPALAConfig

    def surrogate_slope(self, log_probability: Vector, batch: Rollouts) -> Vector:
        """The surrogate A log pi(a) has slope A."""
        return batch.advantage.copy()
