"""What torch updaters of a policy and two critics share: leaves, their optimizer, target networks and the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from tianji.algorithms.adam import BETAS, moments
from tianji.algorithms.flat import Vector
from tianji.algorithms.networks_torch import Blocks, perceptron, tensor, vectors
from tianji.algorithms.state import Arrays
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import CRITICS, TwinCritics
from tianji.algorithms.twin_numpy import C
from tianji.config import Precision

Columns = Mapping[str, Tensor]
"""Columns of a batch of transitions, by name."""


class TwinUpdater(ABC, Generic[C]):
    """Autograd on the losses of a policy and two critics, torch's Adam, and target networks.

    Parameters
    ----------
    precision
        `fp32`, or `bf16`: products of losses and gradients take bfloat16 operands (torch's autocast).

    Raises
    ------
    RuntimeError
        from torch, if the device is missing.
    """

    def __init__(
        self, network: TwinCritics, config: C, weights: Vector, device: str = "cpu", precision: Precision = "fp32"
    ) -> None:
        self.network, self.config = network, config
        self.device, self._low = torch.device(device), precision == "bf16"
        self.flat = torch.tensor(weights, device=self.device)
        self.target = self.flat.clone()
        """A vector like the weights: the target networks."""
        pieces = network.pieces()
        self.critics = slice(pieces["q1"].start, pieces["q2"].stop)
        self.pieces = {"policy": pieces["policy"], "critics": self.critics}
        """Slices that have an optimizer step of their own, in the vector's order."""
        if "temperature" in pieces:
            self.pieces["temperature"] = pieces["temperature"]
        self._leaves = {name: self.flat[piece] for name, piece in self.pieces.items()}
        self.on_gpu = self.device.type == "cuda"
        # A recorded step reads learning rates on the device.
        rates = {name: torch.zeros((), device=self.device) if self.on_gpu else 0.0 for name in self._leaves}
        groups = [{"params": [leaf], "lr": rates[name]} for name, leaf in self._leaves.items()]
        self.optimizer = torch.optim.Adam(groups, betas=BETAS, eps=config.adam_epsilon, fused=True, capturable=self.on_gpu)
        self._norms = torch.zeros((), device=self.device)

    @abstractmethod
    def targets(self, columns: Columns) -> Tensor:
        """Targets of the critics' values, [N]."""

    @abstractmethod
    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update, as the algorithm describes it."""

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
        leaves = list(self._leaves.values())
        kept = [self.optimizer.state.get(leaf) for leaf in leaves]
        first_moment, second_moment = (
            torch.cat([k[name] if k else torch.zeros_like(leaf) for leaf, k in zip(leaves, kept, strict=True)])
            for name in ("exp_avg", "exp_avg_sq")
        )
        return {
            "weights": self.weights(),
            "target": self.target.cpu().numpy(),
            "first_moment": first_moment.cpu().numpy(),
            "second_moment": second_moment.cpu().numpy(),
            "optimizer_steps": np.array([int(k["step"].item()) if k else 0 for k in kept], np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.target.copy_(tensor(arrays["target"]))
        first_moment, second_moment = moments(arrays, (1, 1))
        for (name, piece), count in zip(self.pieces.items(), arrays["optimizer_steps"], strict=True):
            restored = {
                "step": torch.tensor(float(count), device=self.device),
                "exp_avg": torch.tensor(first_moment[piece], device=self.device),
                "exp_avg_sq": torch.tensor(second_moment[piece], device=self.device),
            }
            if kept := self.optimizer.state.get(self._leaves[name]):
                # In place: recorded steps know these tensors.
                for key, values in restored.items():
                    kept[key].copy_(values)
            elif count:
                self.optimizer.state[self._leaves[name]] = restored

    def set_rates(self, policy: float, others: float) -> None:
        """Set the learning rate of the policy, and that of all else."""
        for name, group in zip(self._leaves, self.optimizer.param_groups, strict=True):
            rate = policy if name == "policy" else others
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def columns(self, batch: Transitions) -> dict[str, Tensor]:
        """Columns of a batch on the device."""
        return {name: tensor(column, self.device) for name, column in vars(batch).items()}

    def low(self) -> torch.autocast:
        """Context in which products take bfloat16 operands, if the updater's do."""
        # Each weight is used once, so that casts need not be kept.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._low, cache_enabled=False)

    def outputs(self, blocks: Blocks, x: Tensor) -> Tensor:
        """Outputs of the policy, [N, O]."""
        return perceptron(blocks, "policy", len(self.network.hidden), x)

    def values(self, blocks: Blocks, x: Tensor, action: Tensor) -> Tensor:
        """Values of both critics, [2, N]."""
        inputs = torch.cat([vectors(x, action), action], dim=1)
        depth = len(self.network.hidden)
        return torch.stack([perceptron(blocks, critic, depth, inputs).squeeze(1) for critic in CRITICS])

    def blocks(self, *owners: str, trained: bool = True) -> dict[str, Tensor]:
        """Blocks of some perceptrons, each a leaf if it is trained."""
        views = self.network.views(self.flat)
        return {name: view.detach().requires_grad_(trained) for name, view in views.items() if name.partition(".")[0] in owners}

    def descend(self, piece: str, gradient: Tensor) -> None:
        """Make the optimizer step of a piece on its gradient."""
        leaf = self._leaves[piece]
        self._norms += torch.linalg.vector_norm(gradient)
        leaf.grad = gradient
        self.optimizer.step()
        leaf.grad = None

    def state_of(self, piece: str) -> dict[str, Tensor]:
        """What the optimizer keeps of a piece."""
        found: dict[str, Tensor] = self.optimizer.state[self._leaves[piece]]
        return found

    def changing(self) -> list[Tensor]:
        """What a step changes."""
        kept = [moment for leaf in self._leaves.values() for moment in self.optimizer.state[leaf].values()]
        return [self.flat, self.target, self._norms, *kept]


def gradient_of(loss: Tensor, blocks: Blocks) -> Tensor:
    """Flat gradient of a loss in some blocks."""
    found = torch.autograd.grad(loss, tuple(blocks.values()))
    return torch.cat([gradient.reshape(-1) for gradient in found])
