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
    old_value: Tensor | None = None,
) -> Tensor:
    """Clipped surrogate (equation 7) plus weighted squared value error minus entropy bonus (equation 9), means over N.

    `value_clip` makes the value error the larger of (V - target)^2 and (V_old + clip(V - V_old) - target)^2; `old_value` is
    V_old, which nothing else asks for.
    """
    log_probability, entropy = actor_critic_torch.log_softmax_of(logits, action)
    ratio = torch.exp(log_probability - old_log_probability)
    clipped = torch.clamp(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = torch.min(ratio * advantage, clipped * advantage)
    value_error = torch.square(value - value_target)
    if config.value_clip is not None:
        assert old_value is not None
        near = old_value + torch.clamp(value - old_value, -config.value_clip, config.value_clip)
        value_error = torch.max(value_error, torch.square(near - value_target))
    return actor_critic_torch.loss(surrogate, value_error, entropy, config)


class TorchKernel(actor_critic_torch.TorchKernel):
    """Autograd and torch's Adam on the clipped PPO loss."""

    config: PPOConfig

    def loss(self, logits: Tensor, value: Tensor, batch: Rollouts) -> Tensor:
        columns = (batch.action, batch.log_probability, batch.advantage, batch.value_target)
        action, old, advantage, target = (tensor(column, self.device) for column in columns)
        old_value = None if batch.value is None else tensor(batch.value, self.device)
        return loss(logits, value, action, old, advantage, target, self.config, old_value)
