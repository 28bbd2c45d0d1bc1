"""DQN's loss in torch, and a kernel that differentiates it: for any device, and the reference for the fast kernel."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms import adam_torch
from tianji.algorithms.dqn import Regression
from tianji.algorithms.flat import ActionValueNetwork, Vector
from tianji.algorithms.networks_torch import action_values, evaluate, tensor
from tianji.algorithms.state import Arrays
from tianji.config import DQNConfig


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

    def __init__(self, network: ActionValueNetwork, config: DQNConfig, weights: Vector, device: str = "cpu") -> None:
        self.network = network
        self.config = config
        self.device = torch.device(device)
        self.flat = torch.tensor(weights, device=self.device, requires_grad=True)
        self.target = self.flat.detach().clone()
        self.optimizer = adam_torch.make(self.flat, config.adam_epsilon)

    def weights(self) -> Vector:
        return self.flat.detach().cpu().numpy()

    def load(self, weights: Vector) -> None:
        with torch.no_grad():
            self.flat.copy_(tensor(weights))

    def state(self) -> Arrays:
        arrays = {"weights": self.weights(), "target": self.target.cpu().numpy()}
        return arrays | adam_torch.state(self.optimizer, self.flat)

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.target = torch.tensor(arrays["target"], device=self.device)
        adam_torch.restore(self.optimizer, self.flat, arrays)

    def copy_to_target(self) -> None:
        self.target = self.flat.detach().clone()

    def values(self, features: NDArray[Any]) -> Vector:
        return evaluate(self.network, self.network.views(self.flat), features)[0]

    def target_values(self, features: NDArray[Any]) -> Vector:
        return evaluate(self.network, self.network.views(self.target), features)[0]

    def gradient(self, batch: Regression) -> Tensor:
        """Gradient of the loss, flat, before clipping."""
        x, action, target = (tensor(column, self.device) for column in (batch.features, batch.action, batch.target))
        values = action_values(self.network, self.network.views(self.flat), x)
        (gradient,) = torch.autograd.grad(loss(values, action, target, self.config), self.flat)
        return gradient

    def step(self, batch: Regression, learning_rate: float) -> None:
        self.flat.grad = self.gradient(batch)
        torch.nn.utils.clip_grad_norm_([self.flat], self.config.max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
