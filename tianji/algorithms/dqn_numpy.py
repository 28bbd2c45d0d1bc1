"""DQN's optimizer step for multilayer perceptrons with the gradient derived by hand, in NumPy, on preallocated arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.adam import Adam
from tianji.algorithms.dqn import Regression
from tianji.algorithms.flat import Vector
from tianji.algorithms.gelu import gelu_and_slope
from tianji.algorithms.mlp import QNetwork, duel, vectors
from tianji.algorithms.state import Arrays
from tianji.config import DQNConfig


class NumpyKernel:
    """Adam on the Huber loss; see `tianji.algorithms.dqn_torch.loss` for the loss itself."""

    def __init__(self, network: QNetwork, config: DQNConfig, weights: Vector) -> None:
        self.network = network
        self.config = config
        self.flat = np.array(weights, np.float32)
        self.target = self.flat.copy()
        self.grad = np.zeros_like(self.flat)
        self.adam = Adam(len(self.flat), config.adam_epsilon, config.max_grad_norm)
        self._w = network.views(self.flat)
        self._t = network.views(self.target)
        self._g = network.views(self.grad)
        self._gelu = network.activation == "gelu"
        self._rows = 0

    def weights(self) -> Vector:
        return self.flat

    def load(self, weights: Vector) -> None:
        self.flat[:] = weights

    def state(self) -> Arrays:
        return {"weights": self.flat, "target": self.target, **self.adam.state()}

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.target[:] = arrays["target"]
        self.adam.restore(arrays)

    def copy_to_target(self) -> None:
        self.target[:] = self.flat

    def values(self, features: NDArray[Any]) -> Vector:
        return self.network.scores(self._w, features)

    def target_values(self, features: NDArray[Any]) -> Vector:
        return self.network.scores(self._t, features)

    def step(self, batch: Regression, learning_rate: float) -> None:
        self.adam.step(self.flat, self.gradient(batch), learning_rate)

    def _allocate(self, rows: int) -> None:
        """Activations and their gradients, [N, width] for each hidden layer; with GELU also its slopes, and room to work."""
        self._rows = rows
        self._h, self._d = self._layers(rows), self._layers(rows)
        if self._gelu:
            self._slope, self._scratch = self._layers(rows), self._layers(rows)
        self._index = np.arange(rows)
        self._ones = np.ones(rows, np.float32)

    def _layers(self, rows: int) -> list[Vector]:
        return [np.empty((rows, width), np.float32) for width in self.network.outputs]

    def gradient(self, batch: Regression) -> Vector:
        """Gradient of the loss, flat, before clipping (valid until the next call).

        The Huber loss has slope clip(Q(s, a) - target, -delta, delta) in Q(s, a).
        """
        n = len(batch.action)
        if n != self._rows:
            self._allocate(n)
        w, h, d, depth = self._w, self._h, self._d, len(self.network.hidden)
        features = vectors(batch.features)
        x: NDArray[np.float32] = features
        for i in range(depth):
            np.matmul(x, w[f"q.{i}.kernel"], out=h[i])
            h[i] += w[f"q.{i}.bias"]
            if self._gelu:
                gelu_and_slope(h[i], self._slope[i], self._scratch[i])
            else:
                np.maximum(h[i], 0, out=h[i])
            x = h[i]
        if self.network.dueling:
            values = duel(w, x)
        else:
            values = x @ w[f"q.{depth}.kernel"]
            values += w[f"q.{depth}.bias"]

        delta = self.config.huber_delta
        error = np.clip(values[self._index, batch.action] - batch.target, -delta, delta)
        d_out = np.zeros_like(values)
        d_out[self._index, batch.action] = error * np.float32(1 / n)
        if self.network.dueling:
            self._streams_gradient(x, d_out)
        else:
            self._layer_gradient(f"q.{depth}", x, d_out, d[-1] if depth else None)
        for i in range(depth - 1, -1, -1):
            d[i] *= self._slope[i] if self._gelu else h[i] > 0
            self._layer_gradient(f"q.{i}", h[i - 1] if i else features, d[i], d[i - 1] if i else None)
        return self.grad

    def _layer_gradient(self, name: str, below: Vector, d_out: Vector, d_below: Vector | None) -> None:
        """Of one layer's kernel and bias, and of its inputs where these are not features."""
        np.matmul(below.T, d_out, out=self._g[f"{name}.kernel"])
        np.matmul(self._ones, d_out, out=self._g[f"{name}.bias"])
        if d_below is not None:
            np.matmul(d_out, self._w[f"{name}.kernel"].T, out=d_below)

    def _streams_gradient(self, top: Vector, d_out: Vector) -> None:
        """Of both streams' heads, and of what they read.

        In Q = V + A - mean A every action's value moves with V, and with A by what is left of d Q less its mean.
        """
        last, d = self.network.hidden[-1], self._d[-1]
        d_value = d_out.sum(axis=1, keepdims=True)
        self._layer_gradient("value", top[:, :last], d_value, d[:, :last])
        self._layer_gradient("advantage", top[:, last:], d_out - d_value / d_out.shape[1], d[:, last:])
