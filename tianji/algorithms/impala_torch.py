"""IMPALA's loss in torch, and an updater that differentiates it. It is the reference for the NumPy updater."""

from __future__ import annotations

import torch
from torch import Tensor

from tianji.algorithms import actor_critic_torch
from tianji.algorithms.distributions_torch import Distribution
from tianji.algorithms.networks_torch import tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import IMPALAConfig


def loss(
    policy: Distribution, value: Tensor, action: Tensor, advantage: Tensor, value_target: Tensor, config: IMPALAConfig
) -> Tensor:
    """Loss of section 4.2: policy gradient, value error and entropy bonus, as means over N.

    The value error is `value_coefficient` times the mean of (V - v)^2. The paper uses .5 times the sum of half of it.

    Parameters
    ----------
    advantage
        weighted by rho, from `tianji.algorithms.vtrace.policy_advantages`.
    """
    surrogate = policy.log_probability(action) * advantage
    return actor_critic_torch.loss(surrogate, torch.square(value - value_target), policy.entropy(), config)


class TorchUpdater(actor_critic_torch.TorchUpdater[IMPALAConfig]):
    """Autograd and torch's Adam on IMPALA's loss."""

    def loss_of(self, policy: Distribution, value: Tensor, batch: Rollouts) -> Tensor:
        action, advantage, target = (tensor(c, self.device) for c in (batch.action, batch.advantage, batch.value_target))
        return loss(policy, value, action, advantage, target, self.config)
