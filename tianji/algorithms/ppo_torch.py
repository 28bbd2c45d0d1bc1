"""PPO's loss in torch, and an updater that differentiates it. It is the reference for the NumPy updater."""

from __future__ import annotations

import torch
from torch import Tensor

from tianji.algorithms import actor_critic_torch
from tianji.algorithms.distributions_torch import Distribution
from tianji.algorithms.networks_torch import tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import PPOConfig


def loss(
    policy: Distribution,
    value: Tensor,
    action: Tensor,
    old_log_probability: Tensor,
    advantage: Tensor,
    value_target: Tensor,
    config: PPOConfig,
    old_value: Tensor | None = None,
) -> Tensor:
    """Loss of equations 7 and 9: clipped surrogate, weighted squared value error and entropy bonus, as means over N.

    With `value_clip`, the value error is the larger of (V - target)^2 and (V_old + clip(V - V_old) - target)^2. `old_value`
    is V_old, and is needed only then.
    """
    ratio = torch.exp(policy.log_probability(action) - old_log_probability)
    clipped = torch.clamp(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = torch.min(ratio * advantage, clipped * advantage)
    value_error = torch.square(value - value_target)
    if config.value_clip is not None:
        assert old_value is not None
        near = old_value + torch.clamp(value - old_value, -config.value_clip, config.value_clip)
        value_error = torch.max(value_error, torch.square(near - value_target))
    return actor_critic_torch.loss(surrogate, value_error, policy.entropy(), config)


class TorchUpdater(actor_critic_torch.TorchUpdater[PPOConfig]):
    """Autograd and torch's Adam on the clipped PPO loss."""

    def loss_of(self, policy: Distribution, value: Tensor, batch: Rollouts) -> Tensor:
        columns = (batch.action, batch.log_probability, batch.advantage, batch.value_target)
        action, old, advantage, target = (tensor(column, self.device) for column in columns)
        old_value = None if batch.value is None else tensor(batch.value, self.device)
        return loss(policy, value, action, old, advantage, target, self.config, old_value)
