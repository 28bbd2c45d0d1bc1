"""The distributions of `tianji.algorithms.distributions` in torch, for autograd. Scores are rows here, [N, S]."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from tianji.algorithms.flat import HALF_LOG_TAU
from tianji.environments.actions import Actions


class Distribution(Protocol):
    """Distribution of actions for each of N rows."""

    def log_probability(self, action: Tensor) -> Tensor:
        """Log-probabilities of these actions, [N]."""

    def entropy(self) -> Tensor:
        """Entropies, [N]."""


class Categorical:
    """One of A actions, with probabilities softmax(logits), for each of N rows of logits [N, A]."""

    def __init__(self, logits: Tensor) -> None:
        self._log = torch.log_softmax(logits, dim=1)

    def log_probability(self, action: Tensor) -> Tensor:
        return self._log.gather(1, action[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        return -(self._log.exp() * self._log).sum(dim=1)


class Categoricals:
    """Several independent choices, with logits [N, sum of sizes]."""

    def __init__(self, logits: Tensor, sizes: tuple[int, ...]) -> None:
        self._parts = [Categorical(part) for part in torch.split(logits, list(sizes), dim=1)]

    def log_probability(self, action: Tensor) -> Tensor:
        return torch.stack([part.log_probability(action[:, i]) for i, part in enumerate(self._parts)]).sum(dim=0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self._parts]).sum(dim=0)


class Bernoulli:
    """Independent bits, with logits [N, K]."""

    def __init__(self, logits: Tensor) -> None:
        self._logits, self._soft = logits, functional.softplus(logits)

    def log_probability(self, action: Tensor) -> Tensor:
        return (action * self._logits - self._soft).sum(dim=1)

    def entropy(self) -> Tensor:
        return (self._soft - torch.sigmoid(self._logits) * self._logits).sum(dim=1)


class Gaussian:
    """Independent normal numbers, with mean and log-scale [N, D]."""

    def __init__(self, mean: Tensor, log_scale: Tensor, bounds: tuple[float, float]) -> None:
        self._mean, self._log_scale = mean, torch.clamp(log_scale, *bounds)

    def log_probability(self, action: Tensor) -> Tensor:
        z = (action - self._mean) * torch.exp(-self._log_scale)
        return (-0.5 * z * z - self._log_scale - HALF_LOG_TAU).sum(dim=1)

    def entropy(self) -> Tensor:
        return (self._log_scale + (HALF_LOG_TAU + 0.5)).sum(dim=1)


def from_scores(actions: Actions, scores: Tensor) -> Distribution:
    """The distribution over an action space, from scores [N, S]."""
    match actions.kind:
        case "discrete":
            return Categorical(scores)
        case "multi-discrete":
            return Categoricals(scores, actions.sizes)
        case "multi-binary":
            return Bernoulli(scores)
        case "box":
            mean, log_scale = torch.split(scores, [actions.outputs, actions.deviations], dim=1)
            return Gaussian(mean, log_scale, actions.scale_bounds)
