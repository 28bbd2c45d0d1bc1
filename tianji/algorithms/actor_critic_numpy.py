"""Optimizer steps of policy-gradient losses for multilayer perceptrons, the gradient derived by hand, in NumPy.

Small networks spend their time in per-operation overhead, not arithmetic: autograd did 800 steps/s of 256 transitions
where this does several thousand (see docs/performance.md), on arrays that are allocated once. `tests/tianji/algorithms`
holds it against autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.adam import Adam
from tianji.algorithms.flat import Vector
from tianji.algorithms.mlp import ActorCritic, vectors
from tianji.algorithms.rollouts import Rollouts
from tianji.algorithms.state import Arrays
from tianji.config import IMPALAConfig, PPOConfig


class NumpyKernel(ABC):
    """Adam on a loss of the form of `tianji.algorithms.actor_critic_torch.loss`; a subclass gives the policy's part."""

    config: PPOConfig | IMPALAConfig

    def __init__(self, network: ActorCritic, config: PPOConfig | IMPALAConfig, weights: Vector) -> None:
        self.network = network
        self.config = config
        self.flat = np.array(weights, np.float32)
        self.grad = np.zeros_like(self.flat)
        self.adam = Adam(len(self.flat), config.adam_epsilon, config.max_grad_norm)
        self._w = network.views(self.flat)
        self._g = network.views(self.grad)
        self._rows = 0

    @abstractmethod
    def surrogate_slope(self, log_probability: Vector, batch: Rollouts) -> Vector:
        """Slope of each row's surrogate in the log-probability of its action, [N]; may overwrite the first."""

    def value_slope(self, value: Vector, batch: Rollouts) -> Vector:
        """Half the slope of each row's value error (V - target)^2 in its value V, [N]; may overwrite the first."""
        value -= batch.value_target
        return value

    def weights(self) -> Vector:
        return self.flat

    def load(self, weights: Vector) -> None:
        self.flat[:] = weights

    def state(self) -> Arrays:
        return {"weights": self.flat, **self.adam.state()}

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.adam.restore(arrays)

    def values(self, features: NDArray[Any]) -> Vector:
        return self.network.values(self._w, features)

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        return self.network.both(self._w, features)

    def step(self, batch: Rollouts, learning_rate: float) -> None:
        self.adam.step(self.flat, self.gradient(batch), learning_rate)

    def _allocate(self, rows: int) -> None:
        """Activations and their gradients, [towers, N, width] for each hidden layer."""
        self._rows = rows
        towers = len(self.network.towers)
        self._h = [np.empty((towers, rows, width), np.float32) for width in self.network.hidden]
        self._d = [np.empty((towers, rows, width), np.float32) for width in self.network.hidden]
        self._index = np.arange(rows)
        # A sum over rows as a product with ones: BLAS does it several times faster than np.sum.
        self._ones = np.ones((1, rows), np.float32)

    def gradient(self, batch: Rollouts) -> Vector:
        """Gradient of the loss, flat, before clipping (valid until the next call)."""
        n = len(batch)
        if n != self._rows:
            self._allocate(n)
        w, g, h, d, depth = self._w, self._g, self._h, self._d, len(self.network.hidden)

        features = vectors(batch.features)
        x: NDArray[np.float32] = features
        for i in range(depth):
            np.matmul(x, w[f"hidden.{i}.kernel"], out=h[i])
            h[i] += w[f"hidden.{i}.bias"][:, None, :]
            np.tanh(h[i], out=h[i])
            x = h[i]
        top_policy, top_value = (x[0], x[-1]) if depth else (x, x)
        # Logits and what follows from them stand as [A, N]: NumPy reduces over a short last axis ten times slower.
        logits = w["policy.kernel"].T @ top_policy.T
        logits += w["policy.bias"][:, None]
        value = top_value @ w["value.kernel"][:, 0]
        value += w["value.bias"]

        d_logits = self._policy_gradient(logits, batch)
        d_value = self.value_slope(value, batch)
        d_value *= np.float32(2 * self.config.value_coefficient / n)

        np.matmul(top_policy.T, d_logits.T, out=g["policy.kernel"])
        np.sum(d_logits, axis=1, out=g["policy.bias"])
        np.matmul(top_value.T, d_value, out=g["value.kernel"][:, 0])
        g["value.bias"][0] = d_value.sum()
        if depth:
            np.matmul(d_logits.T, w["policy.kernel"].T, out=d[-1][0])
            if len(d[-1]) > 1:
                np.multiply(d_value[:, None], w["value.kernel"][:, 0], out=d[-1][1])
            else:
                d[-1][0] += d_value[:, None] * w["value.kernel"][:, 0]
        for i in range(depth - 1, -1, -1):
            # Through tanh: dz = dh (1 - h^2), with h no longer needed after its outer product with dz above it.
            below = h[i - 1].transpose(0, 2, 1) if i else features.T
            np.multiply(h[i], h[i], out=h[i])
            np.subtract(1, h[i], out=h[i])
            d[i] *= h[i]
            np.matmul(below, d[i], out=g[f"hidden.{i}.kernel"])
            np.matmul(self._ones, d[i], out=g[f"hidden.{i}.bias"][:, None, :])
            if i:
                np.matmul(d[i], w[f"hidden.{i}.kernel"].transpose(0, 2, 1), out=d[i - 1])
        return self.grad

    def _policy_gradient(self, logits: NDArray[np.float32], batch: Rollouts) -> NDArray[np.float32]:
        """d loss / d logits, both [A, N]; overwrites the logits.

        With l = log pi(a) and a surrogate of slope s in l: dl / d logits = onehot(a) - pi. The entropy H has slope
        -pi (log pi + H).
        """
        n, rows = len(batch), self._index
        logits -= logits.max(axis=0)
        probability = np.exp(logits)
        total = probability.sum(axis=0)
        probability /= total
        logits -= np.log(total)
        slope = self.surrogate_slope(logits[batch.action, rows], batch)
        slope *= np.float32(1 / n)
        d_logits = probability * slope
        d_logits[batch.action, rows] -= slope
        if self.config.entropy_coefficient:
            entropy = -(probability * logits).sum(axis=0)
            d_logits += np.float32(self.config.entropy_coefficient / n) * probability * (logits + entropy)
        return d_logits
