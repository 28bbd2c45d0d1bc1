"""Optimizer steps of policy-gradient losses for multilayer perceptrons, the gradient derived by hand, in NumPy.

Small networks spend their time in per-operation overhead, not in arithmetic. On minibatches of 256 transitions, autograd
did 800 steps/s and this code does several thousand (docs/notebook/2026-11-speed.md). Its arrays are allocated once. The tests
compare it with autograd.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import adam
from tianji.algorithms.distributions import policy_of
from tianji.algorithms.flat import Vector, log_deviations
from tianji.algorithms.mlp import ActorCritic, vectors
from tianji.algorithms.rollouts import Rollouts
from tianji.hyperparameters import PolicyGradientConfig

C = TypeVar("C", bound=PolicyGradientConfig)


class NumpyUpdater(adam.NumpyUpdater[Rollouts, ActorCritic, C]):
    """Adam on a loss of the form of `tianji.algorithms.actor_critic_torch.loss`. A subclass gives the surrogate's slope."""

    @abstractmethod
    def surrogate_slope(self, log_probability: Vector, batch: Rollouts) -> Vector:
        """Slope of each row's surrogate in the log-probability of its action, [N]. May overwrite `log_probability`."""

    def value_slope(self, value: Vector, batch: Rollouts) -> Vector:
        """Half the slope of each row's value error (V - target)^2 in its value V, [N]. May overwrite `value`."""
        value -= batch.value_target
        return value

    def values(self, features: NDArray[Any]) -> Vector:
        return self.network.values(self._w, features)

    def both(self, features: NDArray[Any]) -> tuple[Vector, Vector]:
        return self.network.both(self._w, features)

    def place(self, features: NDArray[Any]) -> NDArray[Any]:
        return features

    def _allocate(self, rows: int) -> None:
        """Activations, their gradients and slopes, [towers, N, width] for each hidden layer."""
        self._rows = rows
        towers = len(self.network.towers)
        self._h, self._d, self._slope = (
            [np.empty((towers, rows, width), np.float32) for width in self.network.hidden] for _ in range(3)
        )
        # A sum over rows as a product with ones: BLAS does it several times faster than np.sum.
        self._ones = np.ones((1, rows), np.float32)

    def backward(self, batch: Rollouts) -> None:
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
        outputs = w["policy.kernel"].T @ top_policy.T
        outputs += w["policy.bias"][:, None]
        value = top_value @ w["value.kernel"][:, 0]
        value += w["value.bias"]

        actions = self.network.actions
        log_scale: Vector | None = None
        d_log_scale: Vector | None = None
        if actions.state:
            squares = top_policy * top_policy
            deviations, variance, scales = log_deviations(squares, w["policy.log_scale"])
            log_scale, d_log_scale = deviations.T, np.empty(outputs.shape, np.float32)
        elif actions.deviations:
            log_scale, d_log_scale = w["policy.log_scale"][:, None], g["policy.log_scale"]
        policy = policy_of(actions, outputs, log_scale)
        slope = self.surrogate_slope(policy.log_probability(batch.action), batch)
        slope *= np.float32(1 / n)
        d_outputs = policy.loss_gradient(batch.action, slope, self.config.entropy_coefficient / n, d_log_scale)
        if actions.state:
            assert d_log_scale is not None
            # The logarithm of a deviation is half of the variance's, which has slope 2 scale^2 x^2 in each log-scale.
            np.matmul(squares.T, (d_log_scale / variance.T).T, out=g["policy.log_scale"])
            g["policy.log_scale"] *= scales
        d_value = self.value_slope(value, batch)
        d_value *= np.float32(2 * self.config.value_coefficient / n)

        np.matmul(top_policy.T, d_outputs.T, out=g["policy.kernel"])
        np.sum(d_outputs, axis=1, out=g["policy.bias"])
        np.matmul(top_value.T, d_value, out=g["value.kernel"][:, 0])
        g["value.bias"][0] = d_value.sum()
        if depth:
            np.matmul(d_outputs.T, w["policy.kernel"].T, out=d[-1][0])
            if len(d[-1]) > 1:
                np.multiply(d_value[:, None], w["value.kernel"][:, 0], out=d[-1][1])
            else:
                d[-1][0] += d_value[:, None] * w["value.kernel"][:, 0]
        for i in range(depth - 1, -1, -1):
            # Through tanh: dz = dh (1 - h^2). The product with dz above it may still need h.
            below, slope = h[i - 1].transpose(0, 2, 1) if i else features.T, self._slope[i]
            np.multiply(h[i], h[i], out=slope)
            np.subtract(1, slope, out=slope)
            d[i] *= slope
            self.later_product(below, d[i], g[f"hidden.{i}.kernel"])
            np.matmul(self._ones, d[i], out=g[f"hidden.{i}.bias"][:, None, :])
            if i:
                np.matmul(d[i], w[f"hidden.{i}.kernel"].transpose(0, 2, 1), out=d[i - 1])
