"""PPO's loss in torch, and a kernel that differentiates it: for any device, and the reference for the fast kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms.adam import BETAS
from tianji.algorithms.networks import ActorCritic, Vector
from tianji.algorithms.ppo import Rollouts
from tianji.config import PPOConfig


def forward(network: ActorCritic, blocks: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, A] and values [N] of features [N, F]."""
    towers = []
    for tower in range(2):
        h = x
        for i in range(len(network.hidden)):
            h = torch.tanh(h @ blocks[f"hidden.{i}.kernel"][tower] + blocks[f"hidden.{i}.bias"][tower])
        towers.append(h)
    logits = towers[0] @ blocks["policy.kernel"] + blocks["policy.bias"]
    value = (towers[1] @ blocks["value.kernel"] + blocks["value.bias"]).squeeze(1)
    return logits, value


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
    log_probabilities = torch.log_softmax(logits, dim=1)
    log_probability = log_probabilities.gather(1, action[:, None]).squeeze(1)
    ratio = torch.exp(log_probability - old_log_probability)
    clipped = torch.clamp(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = torch.min(ratio * advantage, clipped * advantage).mean()
    value_error = torch.square(value - value_target).mean()
    entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=1).mean()
    return -surrogate + config.value_coefficient * value_error - config.entropy_coefficient * entropy


class TorchKernel:
    """Autograd and torch's Adam over the flat vector.

    Raises
    ------
    RuntimeError
        from torch, when the device is not there.
    """

    def __init__(self, network: ActorCritic, config: PPOConfig, weights: Vector, device: str = "cpu") -> None:
        self.network = network
        self.config = config
        self.device = torch.device(device)
        self.flat = torch.tensor(weights, device=self.device, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.flat], betas=BETAS, eps=config.adam_epsilon)

    def weights(self) -> Vector:
        return self.flat.detach().cpu().numpy()

    def values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            x = torch.as_tensor(features, device=self.device)
            values: NDArray[np.float32] = forward(self.network, self.network.views(self.flat), x)[1].cpu().numpy()
        return values

    def gradient(self, batch: Rollouts) -> Tensor:
        """Gradient of the loss, flat, before clipping."""
        tensors = (batch.features, batch.action, batch.log_probability, batch.advantage, batch.value_target)
        x, action, old, advantage, target = (torch.as_tensor(t, device=self.device) for t in tensors)
        logits, value = forward(self.network, self.network.views(self.flat), x)
        (gradient,) = torch.autograd.grad(loss(logits, value, action, old, advantage, target, self.config), self.flat)
        return gradient

    def step(self, batch: Rollouts, learning_rate: float) -> None:
        self.flat.grad = self.gradient(batch)
        torch.nn.utils.clip_grad_norm_([self.flat], self.config.max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
