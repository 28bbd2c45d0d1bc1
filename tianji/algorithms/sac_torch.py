"""Soft actor-critic's update in torch, by autograd. It runs on any device and is the NumPy updater's reference."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from tianji.algorithms.flat import HALF_LOG_TAU, Vector
from tianji.algorithms.graphs_torch import StepGraphs
from tianji.algorithms.networks_torch import Blocks
from tianji.algorithms.sac import aim, first
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import CRITICS, TwinCritics
from tianji.algorithms.twin_torch import Columns, TwinUpdater, gradient_of
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


class TorchUpdater(TwinUpdater[SACConfig]):
    """Updates as `tianji.algorithms.sac` describes them."""

    def __init__(
        self,
        network: TwinCritics,
        config: SACConfig,
        weights: Vector,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        super().__init__(network, config, first(weights, config, network.pieces()["temperature"]), device, precision)
        self._aim, self._bounds = aim(config, network.actions), network.actions.log_scale_bounds
        self._graphs = StepGraphs(self._step, self.changing, self.device) if self.on_gpu else None

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the temperature, the critics, the policy and the target networks."""
        self.set_rates(learning_rate, self.config.critic_learning_rate or learning_rate)
        if self._graphs is None:
            self._step(batch)
        else:
            self._graphs.step(batch)

    @torch.no_grad()
    def measured(self, batch: Transitions) -> dict[str, float]:
        columns = self.columns(batch)
        blocks, alpha = self.network.views(self.flat), self._alpha()
        action, log_probability = self._act(blocks, columns["features"], columns["noise"])
        values = self.values(blocks, columns["features"], action)
        found = {
            "policy_loss": (alpha * log_probability - values.amin(dim=0)).mean(),
            "critic_loss": self.critic_loss(blocks, columns, self.targets(columns)),
            "mean_value": values.mean(),
            "entropy": -log_probability.mean(),
            "temperature": alpha,
        }
        return {name: float(value) for name, value in found.items()}

    def critic_loss(self, blocks: Blocks, columns: Columns, targets: Tensor) -> Tensor:
        """Sum over both critics of half the mean squared error."""
        error = self.values(blocks, columns["features"], columns["action"]) - targets
        return 0.5 * (error * error).mean(dim=1).sum()

    def policy_loss(self, blocks: Blocks, columns: Columns, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's loss, and the log-probabilities [N] of the actions that it draws."""
        action, log_probability = self._act(blocks, columns["features"], columns["noise"])
        least = self.values(blocks, columns["features"], action).amin(dim=0)
        return (alpha * log_probability - least).mean(), log_probability

    def targets(self, columns: Columns) -> Tensor:
        following, noise = columns["following"], columns["next_noise"]
        action, log_probability = self._act(self.network.views(self.flat), following, noise)
        values = self.values(self.network.views(self.target), following, action).amin(dim=0)
        future = values - self._alpha() * log_probability
        return columns["reward"] + columns["discount"] * future

    def _alpha(self) -> Tensor:
        return torch.exp(self.flat[self.pieces["temperature"]][0])

    def _act(self, blocks: Blocks, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        return sampled(self.outputs(blocks, x), noise, self._bounds)

    def _step(self, batch: Transitions) -> None:
        columns = self.columns(batch)
        with self.low():
            with torch.no_grad():
                alpha, targets = self._alpha(), self.targets(columns)
            critics = self.blocks(*CRITICS)
            loss = self.critic_loss(critics, columns, targets)
        self.descend("critics", gradient_of(loss, critics))
        with self.low():
            policy = self.blocks("policy")
            loss, log_probability = self.policy_loss(policy | self.blocks(*CRITICS, trained=False), columns, alpha)
        self.descend("policy", gradient_of(loss, policy))
        if self.config.temperature == "auto":
            # Its gradient has the log-probabilities under the weights before the policy's step.
            self.descend("temperature", -(log_probability.detach().mean() + self._aim).reshape(1))
        self.target[self.critics].lerp_(self.flat[self.critics], self.config.tau)
