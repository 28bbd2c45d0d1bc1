"""DQN's loss in torch, and an updater that differentiates it. It runs on any device and is the NumPy updater's reference."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms import adam_torch
from tianji.algorithms.dqn import Regression
from tianji.algorithms.flat import ActionValueNetwork, Vector
from tianji.algorithms.networks_torch import Blocks, action_values, evaluate, tensor
from tianji.algorithms.state import Arrays
from tianji.config import Precision
from tianji.hyperparameters import DQNConfig


def loss(values: Tensor, action: Tensor, target: Tensor, config: DQNConfig) -> Tensor:
    """Mean Huber loss of the chosen actions' values."""
    chosen = values.gather(1, action[:, None]).squeeze(1)
    return torch.nn.functional.huber_loss(chosen, target, delta=config.huber_delta)


class TorchUpdater(adam_torch.TorchUpdater[Regression, ActionValueNetwork, DQNConfig]):
    """Autograd on the Huber loss, and a target network."""

    helper = together = None

    def __init__(
        self,
        network: ActionValueNetwork,
        config: DQNConfig,
        weights: Vector,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        super().__init__(network, config, weights, device, precision)
        self.target = self.flat.clone()

    def state(self) -> Arrays:
        return super().state() | {"target": self.target.cpu().numpy()}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self.target = torch.tensor(arrays["target"], device=self.device)

    def copy_to_target(self) -> None:
        self.target = self.flat.clone()

    def values(self, features: NDArray[Any]) -> Vector:
        return evaluate(self.network, self.network.views(self.flat), features)[0]

    def target_values(self, features: NDArray[Any]) -> Vector:
        return evaluate(self.network, self.network.views(self.target), features)[0]

    def loss(self, blocks: Blocks, batch: Regression) -> Tensor:
        x, action, target = (tensor(column, self.device) for column in (batch.features, batch.action, batch.target))
        return loss(action_values(self.network, blocks, x), action, target, self.config)
