"""Soft actor-critic's update in torch, by autograd. It runs on any device and is the NumPy updater's reference."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tianji.algorithms.adam import BETAS, moments
from tianji.algorithms.flat import HALF_LOG_TAU, Vector
from tianji.algorithms.graphs_torch import StepGraphs
from tianji.algorithms.networks_torch import Blocks, perceptron, tensor
from tianji.algorithms.sac import Transitions, aim, first
from tianji.algorithms.state import Arrays
from tianji.algorithms.twin import CRITICS, TwinCritics
from tianji.config import Precision
from tianji.hyperparameters import SACConfig


def sampled(scores: Tensor, noise: Tensor, bounds: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Actions tanh(u) [N, D] of the squashed Gaussian, and their log-probabilities [N].

    The density has the factor 1 / (1 - tanh^2 u) for each number. Its logarithm is -2 (log 2 - u - softplus(-2 u)), which stays
    finite (Haarnoja et al., 2018, appendix C).
    """
    mean, log_scale = scores.chunk(2, dim=1)
    log_scale = log_scale.clamp(*bounds)
    u = mean + torch.exp(log_scale) * noise
    log_probability = -0.5 * noise * noise - log_scale - HALF_LOG_TAU - 2 * (math.log(2) - u - functional.softplus(-2 * u))
    return torch.tanh(u), log_probability.sum(dim=1)


class TorchUpdater:
    """Autograd on the losses of `tianji.algorithms.sac`, torch's Adam, and two target networks.

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
        self,
        network: TwinCritics,
        config: SACConfig,
        weights: Vector,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        self.network, self.config = network, config
        self.device, self._low = torch.device(device), precision == "bf16"
        self._pieces = network.pieces()
        self._critics = slice(self._pieces["q1"].start, self._pieces["q2"].stop)
        self.flat = torch.tensor(first(weights, config, self._pieces["temperature"]), device=self.device)
        self.target = self.flat.clone()
        """A vector like the weights, of which the critics alone are used: the target networks."""
        self._leaves = {name: self.flat[piece] for name, piece in self._leaf_pieces().items()}
        on_gpu = self.device.type == "cuda"
        rates = {name: torch.zeros((), device=self.device) if on_gpu else 0.0 for name in self._leaves}
        groups = [{"params": [leaf], "lr": rates[name]} for name, leaf in self._leaves.items()]
        self.optimizer = torch.optim.Adam(groups, betas=BETAS, eps=config.adam_epsilon, fused=True, capturable=on_gpu)
        self._norms = torch.zeros((), device=self.device)
        self._aim, self._bounds = aim(config, network.actions), network.actions.log_scale_bounds
        self._graphs = StepGraphs(self._step, self._changing, self.device) if on_gpu else None

    def _leaf_pieces(self) -> dict[str, slice]:
        """Pieces that have an optimizer step of their own, in the vector's order."""
        return {"policy": self._pieces["policy"], "critics": self._critics, "temperature": self._pieces["temperature"]}

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
        kept = [self.optimizer.state.get(leaf) for leaf in self._leaves.values()]
        first_moment, second_moment = (
            torch.cat(
                [torch.zeros_like(leaf) if not k else k[name] for leaf, k in zip(self._leaves.values(), kept, strict=True)]
            )
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
        steps = arrays["optimizer_steps"]
        for (name, piece), count in zip(self._leaf_pieces().items(), steps, strict=True):
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

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the temperature, the critics, the policy and the target networks."""
        other = self.config.critic_learning_rate or learning_rate
        for group, rate in zip(self.optimizer.param_groups, (learning_rate, other, other), strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self._graphs is None:
            self._step(batch)
        else:
            self._graphs.step(batch)

    def measured(self, batch: Transitions) -> dict[str, float]:
        columns = {name: tensor(column, self.device) for name, column in vars(batch).items()}
        with torch.no_grad():
            blocks, alpha = self.network.views(self.flat), self._alpha()
            action, log_probability = self._act(blocks, columns["features"], columns["noise"])
            values = self._values(blocks, columns["features"], action)
            fit = self._values(blocks, columns["features"], columns["action"]) - self.targets(columns)
            found = {
                "policy_loss": (alpha * log_probability - values.amin(dim=0)).mean(),
                "critic_loss": 0.5 * (fit * fit).mean(dim=1).sum(),
                "mean_value": values.mean(),
                "entropy": -log_probability.mean(),
                "temperature": alpha,
            }
        return {name: float(value) for name, value in found.items()}

    def critic_loss(self, blocks: Blocks, columns: Mapping[str, Tensor], targets: Tensor) -> Tensor:
        """Sum over both critics of half the mean squared error."""
        error = self._values(blocks, columns["features"], columns["action"]) - targets
        return 0.5 * (error * error).mean(dim=1).sum()

    def policy_loss(self, blocks: Blocks, columns: Mapping[str, Tensor], alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's loss, and the log-probabilities [N] of the actions that it draws."""
        action, log_probability = self._act(blocks, columns["features"], columns["noise"])
        least = self._values(blocks, columns["features"], action).amin(dim=0)
        return (alpha * log_probability - least).mean(), log_probability

    def targets(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Targets of the critics' values, [N]."""
        following, noise = columns["following"], columns["next_noise"]
        action, log_probability = self._act(self.network.views(self.flat), following, noise)
        values = self._values(self.network.views(self.target), following, action).amin(dim=0)
        future = values - self._alpha() * log_probability
        return columns["reward"] + columns["discount"] * future

    def _alpha(self) -> Tensor:
        return torch.exp(self.flat[self._pieces["temperature"]][0])

    def _act(self, blocks: Blocks, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        return sampled(perceptron(blocks, "policy", len(self.network.hidden), x), noise, self._bounds)

    def _values(self, blocks: Blocks, x: Tensor, action: Tensor) -> Tensor:
        """Values of both critics, [2, N]."""
        inputs = torch.cat([x.flatten(1), action], dim=1)
        depth = len(self.network.hidden)
        return torch.stack([perceptron(blocks, critic, depth, inputs).squeeze(1) for critic in CRITICS])

    def _step(self, batch: Transitions) -> None:
        columns = {name: tensor(column, self.device) for name, column in vars(batch).items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._low, cache_enabled=False):
            with torch.no_grad():
                alpha, targets = self._alpha(), self.targets(columns)
            critics = self._blocks(*CRITICS)
            loss = self.critic_loss(critics, columns, targets)
        self._descend("critics", _gradient(loss, critics))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._low, cache_enabled=False):
            policy = self._blocks("policy")
            loss, log_probability = self.policy_loss(policy | self._blocks(*CRITICS, trained=False), columns, alpha)
        self._descend("policy", _gradient(loss, policy))
        if self.config.temperature == "auto":
            # Its gradient has the log-probabilities under the weights before the policy's step.
            self._descend("temperature", -(log_probability.detach().mean() + self._aim).reshape(1))
        self.target[self._critics].lerp_(self.flat[self._critics], self.config.tau)

    def _blocks(self, *owners: str, trained: bool = True) -> dict[str, Tensor]:
        """Blocks of some perceptrons, each a leaf if it is trained."""
        views = self.network.views(self.flat)
        return {name: view.detach().requires_grad_(trained) for name, view in views.items() if name.partition(".")[0] in owners}

    def _descend(self, piece: str, gradient: Tensor) -> None:
        leaf = self._leaves[piece]
        self._norms += torch.linalg.vector_norm(gradient)
        leaf.grad = gradient
        self.optimizer.step()
        leaf.grad = None

    def _changing(self) -> list[Tensor]:
        """What a step changes."""
        kept = [moment for leaf in self._leaves.values() for moment in self.optimizer.state[leaf].values()]
        return [self.flat, self.target, self._norms, *kept]


def _gradient(loss: Tensor, blocks: Blocks) -> Tensor:
    """Flat gradient of a loss in some blocks."""
    found = torch.autograd.grad(loss, tuple(blocks.values()))
    return torch.cat([gradient.reshape(-1) for gradient in found])
