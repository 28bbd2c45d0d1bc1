"""Policy-gradient losses in torch, and an updater that differentiates them, for any device and network."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms import adam_torch
from tianji.algorithms.distributions_torch import Distribution, from_scores
from tianji.algorithms.flat import PolicyValueNetwork, Vector
from tianji.algorithms.networks_torch import Blocks, evaluate, heads, tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import PolicyGradientConfig

C = TypeVar("C", bound=PolicyGradientConfig)


def loss(surrogate: Tensor, value_error: Tensor, entropy: Tensor, config: PolicyGradientConfig) -> Tensor:
    """Minus the surrogate, plus the weighted (squared) value error, minus the weighted entropy: means over N."""
    weighted = config.value_coefficient * value_error.mean()
    return -surrogate.mean() + weighted - config.entropy_coefficient * entropy.mean()


class TorchUpdater(adam_torch.TorchUpdater[Rollouts, PolicyValueNetwork, C]):
    """Autograd on the policy-gradient loss that a subclass gives."""

    @abstractmethod
    def loss_of(self, policy: Distribution, value: Tensor, batch: Rollouts) -> Tensor:
        """The loss of a policy and of state values [N] for a batch."""

    def loss(self, blocks: Blocks, batch: Rollouts) -> Tensor:
        scores, value = heads(self.network, blocks, tensor(batch.features, self.device))
        return self.loss_of(from_scores(self.network.actions, scores), value, batch)

    def values(self, features: NDArray[Any]) -> Vector:
        return self.both(features)[1]

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        scores, values = evaluate(self.network, self.network.views(self.flat), features)
        return scores, values

    def place(self, features: NDArray[Any]) -> Any:
        placed = tensor(features, self.device)
        pictures = placed.ndim == 4 and self.device.type == "cpu"
        return placed.contiguous(memory_format=torch.channels_last) if pictures else placed
