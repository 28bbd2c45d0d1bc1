"""PPO's loss in torch, the reference for the fast kernel, and the kernel that differentiates it."""

from __future__ import annotations

import torch
from torch import Tensor

from tianji.algorithms import actor_critic_torch
from tianji.algorithms.networks_torch import tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.config import PPOConfig


def loss(
    logits: Tensor,
    value: Tensor,
    action: Tensor,
    old_log_probability: Tensor,
    advantage: Tensor,
    value_target: Tensor,
    config: PPOConfig,
) -> Tensor:
    """Clipped surrogate (equation 7) plus weighted squared value error minus entropy bonus (equation 9), means over N."""
    log_probability, entropy = actor_critic_torch.log_softmax_of(logits, action)
    ratio = torch.exp(log_probability - old_log_probability)
    clipped = torch.clamp(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = torch.min(ratio * advantage, clipped * advantage)
    return actor_critic_torch.loss(surrogate, value, value_target, entropy, config)


class TorchKernel(actor_critic_torch.TorchKernel):
    """Autograd and torch's Adam on the clipped PPO loss."""

    config: PPOConfig

    def loss(self, logits: Tensor, value: Tensor, batch: Rollouts) -> Tensor:
        columns = (batch.action, batch.log_probability, batch.advantage, batch.value_target)
        action, old, advantage, target = (tensor(column, self.device) for column in columns)
        return loss(logits, value, action, old, advantage, target, self.config)
