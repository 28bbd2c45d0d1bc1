"""Policy-gradient losses in torch, and a kernel that differentiates them: for any device and network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tianji.algorithms import adam_torch
from tianji.algorithms.flat import PolicyValueNetwork, Vector
from tianji.algorithms.networks_torch import evaluate, heads, tensor
from tianji.algorithms.rollouts import Rollouts
from tianji.algorithms.state import Arrays
from tianji.config import IMPALAConfig, PPOConfig


def log_softmax_of(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the actions taken, [N], and the policy's entropy, [N]."""
    log_probabilities = torch.log_softmax(logits, dim=1)
    chosen = log_probabilities.gather(1, action[:, None]).squeeze(1)
    return chosen, -(log_probabilities.exp() * log_probabilities).sum(dim=1)


def loss(surrogate: Tensor, value_error: Tensor, entropy: Tensor, config: PPOConfig | IMPALAConfig) -> Tensor:
    """Minus the surrogate, plus the weighted (squared) value error, minus the weighted entropy: means over N."""
    weighted = config.value_coefficient * value_error.mean()
    return -surrogate.mean() + weighted - config.entropy_coefficient * entropy.mean()


class TorchKernel(ABC):
    """Autograd and torch's Adam over the flat vector.

    Raises
    ------
    RuntimeError
        from torch, when the device is not there.
    """

    config: PPOConfig | IMPALAConfig

    def __init__(
        self, network: PolicyValueNetwork, config: PPOConfig | IMPALAConfig, weights: Vector, device: str = "cpu"
    ) -> None:
        self.network = network
        self.config = config
        self.device = torch.device(device)
        self.flat = torch.tensor(weights, device=self.device, requires_grad=True)
        self.optimizer = adam_torch.make(self.flat, config.adam_epsilon)

    @abstractmethod
    def loss(self, logits: Tensor, value: Tensor, batch: Rollouts) -> Tensor:
        """The loss of the network's outputs for a batch."""

    def weights(self) -> Vector:
        return self.flat.detach().cpu().numpy()

    def load(self, weights: Vector) -> None:
        with torch.no_grad():
            self.flat.copy_(tensor(weights))

    def state(self) -> Arrays:
        return {"weights": self.weights(), **adam_torch.state(self.optimizer, self.flat)}

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        adam_torch.restore(self.optimizer, self.flat, arrays)

    def values(self, features: NDArray[Any]) -> Vector:
        return self.both(features)[1]

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        logits, values = evaluate(self.network, self.network.views(self.flat), features)
        return logits, values

    def gradient(self, batch: Rollouts) -> Tensor:
        """Gradient of the loss, flat, before clipping."""
        logits, value = heads(self.network, self.network.views(self.flat), tensor(batch.features, self.device))
        (gradient,) = torch.autograd.grad(self.loss(logits, value, batch), self.flat)
        return gradient

    def step(self, batch: Rollouts, learning_rate: float) -> None:
        self.flat.grad = self.gradient(batch)
        torch.nn.utils.clip_grad_norm_([self.flat], self.config.max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
