"""torch's Adam over one flat vector. Its state has the form of the NumPy one's (`tianji.algorithms.adam.Adam.state`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from tianji.algorithms.adam import BETAS, B, C, N
from tianji.algorithms.flat import Vector
from tianji.algorithms.networks_torch import tensor
from tianji.algorithms.state import Arrays


class TorchUpdater(ABC, Generic[B, N, C]):
    """Adam on a loss that torch differentiates, for batches of type B.

    Raises
    ------
    RuntimeError
        from torch, if the device is missing.
    """

    def __init__(self, network: N, config: C, weights: Vector, device: str = "cpu") -> None:
        self.network, self.config = network, config
        self.device = torch.device(device)
        self.flat = torch.tensor(weights, device=self.device, requires_grad=True)
        # Fused: one pass over the vector.
        self.optimizer = torch.optim.Adam([self.flat], betas=BETAS, eps=config.adam_epsilon, fused=True)

        self._norms = torch.zeros((), device=self.device)
        """Sum of the gradients' norms, as `tianji.algorithms.adam.Adam.norms`."""

    @abstractmethod
    def loss(self, batch: B) -> Tensor:
        """The loss of a batch."""

    def weights(self) -> Vector:
        return self.flat.detach().cpu().numpy()

    def load(self, weights: Vector) -> None:
        with torch.no_grad():
            self.flat.copy_(tensor(weights))

    def sound(self) -> bool:
        with torch.no_grad():
            return bool(torch.isfinite(self._norms) & torch.isfinite(self.flat).all())

    def state(self) -> Arrays:
        kept = self.optimizer.state.get(self.flat)
        first, second = (kept["exp_avg"], kept["exp_avg_sq"]) if kept else (torch.zeros_like(self.flat) for _ in range(2))
        return {
            "weights": self.weights(),
            "first_moment": first.cpu().numpy(),
            "second_moment": second.cpu().numpy(),
            "optimizer_steps": np.array(int(kept["step"].item()) if kept else 0, np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.optimizer.state[self.flat] = {
            # A fused optimizer wants its count beside the vector.
            "step": torch.tensor(float(arrays["optimizer_steps"]), device=self.device),
            "exp_avg": torch.tensor(arrays["first_moment"], device=self.device),
            "exp_avg_sq": torch.tensor(arrays["second_moment"], device=self.device),
        }

    def gradient(self, batch: B) -> Tensor:
        """Flat gradient of the loss before clipping."""
        (gradient,) = torch.autograd.grad(self.loss(batch), self.flat)
        return gradient

    def step(self, batch: B, learning_rate: float) -> None:
        self.flat.grad = self.gradient(batch)
        self.apply(learning_rate)

    def accumulate(self, batch: B, weight: float) -> None:
        gradient = weight * self.gradient(batch)
        self.flat.grad = gradient if self.flat.grad is None else self.flat.grad + gradient

    def apply(self, learning_rate: float) -> None:
        if self.flat.grad is None:
            raise RuntimeError("no gradient was accumulated")
        self._norms += torch.nn.utils.clip_grad_norm_([self.flat], self.config.max_grad_norm)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.step()
        self.flat.grad = None
