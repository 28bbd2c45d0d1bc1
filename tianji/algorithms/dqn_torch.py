"""DQN's loss in torch, and a kernel that differentiates it: for any device, and the reference for the fast kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms.adam import BETAS
from tianji.algorithms.dqn import Regression
from tianji.algorithms.networks import QNetwork, Vector
from tianji.config import DQNConfig


def forward(network: QNetwork, blocks: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Action values [N, A] of features [N, F]."""
    depth = len(network.hidden)
    for i in range(depth):
        x = torch.relu(x @ blocks[f"q.{i}.kernel"] + blocks[f"q.{i}.bias"])
    return x @ blocks[f"q.{depth}.kernel"] + blocks[f"q.{depth}.bias"]


def loss(values: Tensor, action: Tensor, target: Tensor, config: DQNConfig) -> Tensor:
    """Mean Huber loss of the chosen actions' values."""
    chosen = values.gather(1, action[:, None]).squeeze(1)
    return torch.nn.functional.huber_loss(chosen, target, delta=config.huber_delta)


class TorchKernel:
    """Autograd and torch's Adam over the flat vector.

    Raises
    ------
    RuntimeError
        from torch, when the device is not there.
    """

    def __init__(self, network: QNetwork, config: DQNConfig, weights: Vector, device: str = "cpu") -> None:
        self.network = network
        self.config = config
        self.device = torch.device(device)
        self.flat = torch.tensor(weights, device=self.device, requires_grad=True)
        self.target = self.flat.detach().clone()
        self.optimizer = torch.optim.Adam([self.flat], betas=BETAS, eps=config.adam_epsilon)

    def weights(self) -> Vector:
        return self.flat.detach().cpu().numpy()

    def copy_to_target(self) -> None:
        self.target = self.flat.detach().clone()

    def target_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        x = torch.as_tensor(features, device=self.device)
        values: NDArray[np.float32] = forward(self.network, self.network.views(self.target), x).cpu().numpy()
        return values

    def gradient(self, batch: Regression) -> Tensor:
        """Gradient of the loss, flat, before clipping."""
        x, action, target = (torch.as_tensor(t, device=self.device) for t in (batch.features, batch.action, batch.target))
        values = forward(self.network, self.network.views(self.flat), x)
        (gradient,) = torch.autograd.grad(loss(values, action, target, self.config), self.flat)
        return gradient

    def step(self, batch: Regression, learning_rate: float) -> None:
        self.flat.grad = self.gradient(batch)
        torch.nn.utils.clip_grad_norm_([self.flat], self.config.max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
