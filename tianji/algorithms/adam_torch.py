"""torch's Adam over one flat vector. It can be restored from the NumPy one's state, and that one from its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from tianji.algorithms.adam import BETAS, B, C, N, moments
from tianji.algorithms.flat import Parts, Vector
from tianji.algorithms.graphs_torch import StepGraphs
from tianji.algorithms.networks_torch import Blocks, TorchNetwork, tensor
from tianji.algorithms.state import Arrays
from tianji.config import Precision


class TorchUpdater(ABC, Generic[B, N, C]):
    """Adam on a loss that torch differentiates, for batches of type B.

    Parameters
    ----------
    precision
        `fp32`, or `bf16`: products of the loss and its gradient take bfloat16 operands (torch's autocast). Weights, moments,
        sums within a product, outputs and the loss stay float32.

    Raises
    ------
    RuntimeError
        from torch, if the device is missing.
    """

    def __init__(self, network: N, config: C, weights: Vector, device: str = "cpu", precision: Precision = "fp32") -> None:
        self.network, self.config = network, config
        self.device, self._low = torch.device(device), precision == "bf16"
        self.flat = torch.tensor(weights, device=self.device)
        on_gpu = self.device.type == "cuda"
        # A recorded step reads the learning rate on the device.
        rate: float | Tensor = torch.zeros((), device=self.device) if on_gpu else 0.0
        # Fused: one pass over the vector.
        self.optimizer = torch.optim.Adam(
            [self.flat], lr=rate, betas=BETAS, eps=config.adam_epsilon, fused=True, capturable=on_gpu
        )

        self._parts = network.parts() if config.clips_apart else None
        self._norms = torch.zeros((), device=self.device)
        """Sum of the gradients' norms, as `tianji.algorithms.adam.Adam.norms`."""
        self._graphs: StepGraphs[B] | None = None
        # A user's own network may do what cannot be recorded.
        if on_gpu and not isinstance(network, TorchNetwork):
            self._graphs = StepGraphs(self._step, self._changing, self.device)

    @abstractmethod
    def loss(self, blocks: Blocks, batch: B) -> Tensor:
        """The loss of a batch under these parameters."""

    def weights(self) -> Vector:
        return self.flat.cpu().numpy()

    def load(self, weights: Vector) -> None:
        self.flat.copy_(tensor(weights))

    def assign(self, blocks: Mapping[str, Vector]) -> None:
        views = self.network.views(self.flat)
        for name, block in blocks.items():
            views[name].copy_(tensor(block))

    def norm_sum(self) -> float:
        return float(self._norms)

    def sound(self) -> bool:
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
        first, second = moments(arrays, (1, 1))
        restored = {
            # A fused optimizer wants its count beside the vector.
            "step": torch.tensor(float(arrays["optimizer_steps"]), device=self.device),
            "exp_avg": torch.tensor(first, device=self.device),
            "exp_avg_sq": torch.tensor(second, device=self.device),
        }
        if kept := self.optimizer.state.get(self.flat):
            # In place: recorded steps know these tensors.
            for name, values in restored.items():
                kept[name].copy_(values)
        else:
            self.optimizer.state[self.flat] = restored

    def gradient(self, batch: B) -> Tensor:
        """Flat gradient of the loss before clipping.

        Each block is a leaf of its own. Slices of one leaf would make a gradient of full length each, to be summed.
        """
        blocks = {name: view.requires_grad_() for name, view in self.network.views(self.flat).items()}
        leaves = tuple(blocks.values())
        # Each weight is used once, so that casts need not be kept.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._low, cache_enabled=False):
            loss = self.loss(blocks, batch)
        found = torch.autograd.grad(loss, leaves, materialize_grads=True)
        return torch.cat([gradient.reshape(-1) for gradient in found])

    def step(self, batch: B, learning_rate: float) -> None:
        self._set_rate(learning_rate)
        if self._graphs is None:
            self._step(batch)
        else:
            self._graphs.step(batch)

    def accumulate(self, batch: B, weight: float) -> None:
        gradient = weight * self.gradient(batch)
        self.flat.grad = gradient if self.flat.grad is None else self.flat.grad + gradient

    def apply(self, learning_rate: float) -> None:
        if self.flat.grad is None:
            raise RuntimeError("no gradient was accumulated")
        self._set_rate(learning_rate)
        self._apply()

    def _step(self, batch: B) -> None:
        self.flat.grad = self.gradient(batch)
        self._apply()

    def _apply(self) -> None:
        for part in [[self.flat]] if self._parts is None else self._each(self._parts):
            self._norms += torch.nn.utils.clip_grad_norm_(part, self.config.max_grad_norm)
        self.optimizer.step()
        self.flat.grad = None

    def _each(self, parts: Parts) -> list[list[Tensor]]:
        """Views of the vector and of its gradient for each part, to clip them one by one."""
        assert self.flat.grad is not None
        found = []
        for part in parts:
            views = [self.flat[piece] for piece in part]
            for view, piece in zip(views, part, strict=True):
                view.grad = self.flat.grad[piece]
            found.append(views)
        return found

    def _set_rate(self, learning_rate: float) -> None:
        settings = self.optimizer.param_groups[0]
        if isinstance(settings["lr"], Tensor):
            settings["lr"].fill_(learning_rate)
        else:
            settings["lr"] = learning_rate

    def _changing(self) -> list[Tensor]:
        """What a step changes."""
        return [self.flat, self._norms, *self.optimizer.state[self.flat].values()]
