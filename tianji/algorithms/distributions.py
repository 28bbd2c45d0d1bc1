"""Distributions of actions in NumPy: sampling, log-probability, entropy, and the gradients of both.

`policy_of` makes the one that belongs to an action space. Its counterpart in torch is in
`tianji.algorithms.distributions_torch`. A policy's network returns scores [N, S] (`Actions.scores`). Here they are columns,
[S, N], because NumPy reduces over a short last axis ten times slower.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import HALF_LOG_TAU, Vector
from tianji.environments.actions import Actions


class Distribution(ABC):
    """Distribution of actions for each of N rows."""

    @abstractmethod
    def log_probability(self, action: NDArray[Any]) -> Vector:
        """Log-probabilities of these actions, [N]."""

    @abstractmethod
    def entropy(self) -> Vector:
        """Entropies, [N]."""

    @abstractmethod
    def loss_gradient(
        self, action: NDArray[Any], weight: Vector, entropy_weight: float, log_scale: Vector | None = None
    ) -> Vector:
        """Gradient of the negative sum of weight log pi(action) + entropy_weight H in the network's outputs, [K, N].

        Parameters
        ----------
        log_scale
            receives the gradient in the log-scales of numbers, if there are any: [D, N], or their sums over rows [D].
        """

    @abstractmethod
    def sample(self, noise: NDArray[np.float64]) -> tuple[NDArray[Any], Vector]:
        """Draw actions [N, ...] and their log-probabilities [N] from noise [N, W]; see `Actions.noise`."""

    @abstractmethod
    def mode(self) -> NDArray[Any]:
        """The likeliest actions, [N, ...]."""


class Categorical(Distribution):
    """One of A actions, with probabilities softmax(logits).

    Parameters
    ----------
    logits : [A, N]
        overwritten.
    """

    def __init__(self, logits: Vector) -> None:
        # Ufuncs, here and below, because array methods take longer and this runs at every step.
        logits -= np.maximum.reduce(logits)
        self._probability = np.exp(logits)
        total = np.add.reduce(self._probability)
        self._probability /= total
        logits -= np.log(total)
        self._log, self._rows = logits, np.arange(logits.shape[1])

    @staticmethod
    def drawn(logits: Vector, noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], Vector]:
        """Draw actions by inversion, without the rest of the distribution.

        Parameters
        ----------
        logits : [A, N]
        noise : [N]
            uniform on [0, 1)

        Returns
        -------
        actions [N] and their log-probabilities [N]
        """
        shifted = logits - np.maximum.reduce(logits)
        cumulative = np.add.accumulate(np.exp(shifted))
        total = cumulative[-1]
        action = np.add.reduce(cumulative[:-1] <= noise * total)
        return action, shifted[action, np.arange(len(action))] - np.log(total)

    def sample(self, noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], Vector]:
        return self.drawn(self._log, noise[:, 0])

    def mode(self) -> NDArray[np.int64]:
        best: NDArray[np.int64] = self._log.argmax(axis=0)
        return best

    def log_probability(self, action: NDArray[np.int64]) -> Vector:
        chosen: Vector = self._log[action, self._rows]
        return chosen

    def entropy(self) -> Vector:
        entropy: Vector = -np.add.reduce(self._probability * self._log)
        return entropy

    def loss_gradient(
        self, action: NDArray[Any], weight: Vector, entropy_weight: float, log_scale: Vector | None = None
    ) -> Vector:
        """With l = log pi(a): dl / d logits = onehot(a) - pi. The entropy H has slope -pi (log pi + H)."""
        gradient = self._probability * weight
        gradient[action, self._rows] -= weight
        if entropy_weight:
            gradient += np.float32(entropy_weight) * self._probability * (self._log + self.entropy())
        return gradient


class Categoricals(Distribution):
    """Several independent choices, of which each has logits of its own.

    Parameters
    ----------
    logits : [sum of sizes, N]
        overwritten.
    sizes
        number of choices of each part.
    """

    def __init__(self, logits: Vector, sizes: tuple[int, ...]) -> None:
        ends = np.cumsum(sizes).tolist()
        self._parts = [Categorical(logits[end - size : end]) for size, end in zip(sizes, ends, strict=True)]

    def sample(self, noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], Vector]:
        drawn = [part.sample(noise[:, i : i + 1]) for i, part in enumerate(self._parts)]
        return np.stack([action for action, _ in drawn], axis=1), _total([log for _, log in drawn])

    def mode(self) -> NDArray[np.int64]:
        return np.stack([part.mode() for part in self._parts], axis=1)

    def log_probability(self, action: NDArray[np.int64]) -> Vector:
        return _total([part.log_probability(action[:, i]) for i, part in enumerate(self._parts)])

    def entropy(self) -> Vector:
        return _total([part.entropy() for part in self._parts])

    def loss_gradient(
        self, action: NDArray[Any], weight: Vector, entropy_weight: float, log_scale: Vector | None = None
    ) -> Vector:
        parts = (part.loss_gradient(action[:, i], weight, entropy_weight) for i, part in enumerate(self._parts))
        return np.concatenate(list(parts))


def _total(parts: list[Vector]) -> Vector:
    total: Vector = np.add.reduce(parts)
    return total


class Bernoulli(Distribution):
    """Independent bits, of which each is set with probability sigmoid(logit).

    Parameters
    ----------
    logits : [K, N]
    """

    def __init__(self, logits: Vector) -> None:
        self._logits = logits
        # The logarithm of 1 + exp(l).
        self._soft = np.logaddexp(np.float32(0), logits)
        self._probability = np.exp(logits - self._soft)

    def sample(self, noise: NDArray[np.float64]) -> tuple[NDArray[np.int64], Vector]:
        action = (noise < self._probability.T).astype(np.int64)
        return action, self.log_probability(action)

    def mode(self) -> NDArray[np.int64]:
        return (self._logits.T > 0).astype(np.int64)

    def log_probability(self, action: NDArray[np.int64]) -> Vector:
        total: Vector = np.add.reduce(action.T.astype(np.float32) * self._logits - self._soft)
        return total

    def entropy(self) -> Vector:
        entropy: Vector = np.add.reduce(self._soft - self._probability * self._logits)
        return entropy

    def loss_gradient(
        self, action: NDArray[Any], weight: Vector, entropy_weight: float, log_scale: Vector | None = None
    ) -> Vector:
        """With l = log pi(a): dl / d logit = a - p. The entropy H has slope -logit p (1 - p)."""
        p = self._probability
        gradient = (p - action.T.astype(np.float32)) * weight
        if entropy_weight:
            gradient += np.float32(entropy_weight) * self._logits * p * (1 - p)
        return gradient


class Gaussian(Distribution):
    """Independent normal numbers, with a mean from the network and a deviation exp(log-scale) each.

    Parameters
    ----------
    mean : [D, N]
        overwritten.
    log_scale : [D, 1] or [D, N]
    bounds
        between which a log-scale is held. Outside them its gradient is zero.
    """

    def __init__(self, mean: Vector, log_scale: Vector, bounds: tuple[float, float]) -> None:
        least, most = (np.float32(bound) for bound in bounds)
        self._mean, self._log_scale = mean, np.minimum(np.maximum(log_scale, least), most)
        self._within = (log_scale >= least) & (log_scale <= most)
        self._inverse = np.exp(-self._log_scale)
        self._constant = np.add.reduce(self._log_scale) + np.float32(len(mean) * HALF_LOG_TAU)

    def _standardised(self, action: NDArray[np.float32]) -> Vector:
        """z = (action - mean) / deviation, [D, N]."""
        z = action.T - self._mean
        z *= self._inverse
        return z

    def sample(self, noise: NDArray[np.float64]) -> tuple[NDArray[np.float32], Vector]:
        z = noise.T.astype(np.float32)
        action = np.asarray(self._mean + z / self._inverse, np.float32)
        log_probability: Vector = np.float32(-0.5) * np.add.reduce(z * z) - self._constant
        return action.T, log_probability

    def mode(self) -> NDArray[np.float32]:
        return self._mean.T

    def log_probability(self, action: NDArray[np.float32]) -> Vector:
        z = self._standardised(action)
        z *= z
        log_probability: Vector = np.float32(-0.5) * np.add.reduce(z) - self._constant
        return log_probability

    def entropy(self) -> Vector:
        each = self._constant + np.float32(0.5 * len(self._mean))
        entropy: Vector = np.broadcast_to(each, self._mean.shape[1:]).copy()
        return entropy

    def loss_gradient(
        self, action: NDArray[Any], weight: Vector, entropy_weight: float, log_scale: Vector | None = None
    ) -> Vector:
        """With l = log pi(a): dl / d mean = z / deviation, and dl / d log-scale = z^2 - 1. The entropy has slope 1."""
        z = self._standardised(action)
        if log_scale is not None:
            slope = z * z
            slope -= 1
            slope *= weight
            slope += np.float32(entropy_weight)
            slope *= np.where(self._within, np.float32(-1), np.float32(0))
            log_scale[:] = slope if log_scale.ndim == 2 else np.add.reduce(slope, axis=1)
        z *= self._inverse
        z *= -weight
        return z


def policy_of(actions: Actions, outputs: Vector, log_scale: Vector | None = None) -> Distribution:
    """The distribution over an action space.

    Parameters
    ----------
    outputs : [K, N]
        of the network's policy head. Overwritten.
    log_scale : [D, 1] or [D, N]
        logarithms of deviations, for numbers.
    """
    match actions.kind:
        case "discrete":
            return Categorical(outputs)
        case "multi-discrete":
            return Categoricals(outputs, actions.sizes)
        case "multi-binary":
            return Bernoulli(outputs)
        case "box":
            assert log_scale is not None
            return Gaussian(outputs, log_scale, actions.scale_bounds)


def from_scores(actions: Actions, scores: Vector) -> Distribution:
    """The distribution over an action space, from scores [N, S] as networks return them. They are not overwritten."""
    columns = scores.T.copy()
    return policy_of(actions, columns[: actions.outputs], columns[actions.outputs :])
