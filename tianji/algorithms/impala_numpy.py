"""IMPALA's optimizer step for multilayer perceptrons, with a hand-derived gradient."""

from __future__ import annotations

from tianji.algorithms import actor_critic_numpy
from tianji.algorithms.flat import Vector
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import IMPALAConfig


class NumpyUpdater(actor_critic_numpy.NumpyUpdater[IMPALAConfig]):
    """Adam on IMPALA's loss, which `tianji.algorithms.impala_torch.loss` defines."""

    def surrogate_slope(self, log_probability: Vector, batch: Rollouts) -> Vector:
        """Slope A of the surrogate A log pi(a)."""
        return batch.advantage.copy()
