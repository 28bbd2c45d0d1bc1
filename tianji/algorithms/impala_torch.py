"""IMPALA's loss in torch, the reference for the fast kernel, and the kernel that differentiates it."""

from __future__ import annotations

import torch
from torch import Tensor

from tianji.algorithms import actor_critic_torch
from tianji.algorithms.networks_torch import tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.config import IMPALAConfig


def loss(
    logits: Tensor, value: Tensor, action: Tensor, advantage: Tensor, value_target: Tensor, config: IMPALAConfig
) -> Tensor:
    """Policy gradient, value error and entropy bonus of section 4.2, as means over N.

    The value error is `value_coefficient` times the mean of (V - v)^2; the paper's is .5 times the sum of half of it.

    Parameters
    ----------
    advantage
        weighted by rho, from `tianji.algorithms.vtrace.policy_advantages`.
    """
    log_probability, entropy = actor_critic_torch.log_softmax_of(logits, action)
    return actor_critic_torch.loss(log_probability * advantage, torch.square(value - value_target), entropy, config)


class TorchKernel(actor_critic_torch.TorchKernel):
    """Autograd and torch's Adam on IMPALA's loss."""

    config: IMPALAConfig

    def loss(self, logits: Tensor, value: Tensor, batch: Rollouts) -> Tensor:
        action, advantage, target = (tensor(c, self.device) for c in (batch.action, batch.advantage, batch.value_target))
        return loss(logits, value, action, advantage, target, self.config)
