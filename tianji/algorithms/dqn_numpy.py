"""DQN's optimizer step for multilayer perceptrons, with a hand-derived gradient in NumPy on preallocated arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import adam
from tianji.algorithms.dqn import Regression
from tianji.algorithms.flat import Vector
from tianji.algorithms.gelu import gelu_and_slope
from tianji.algorithms.helper import Helper
from tianji.algorithms.mlp import QNetwork, duel, relu, vectors
from tianji.algorithms.state import Arrays
from tianji.hyperparameters import DQNConfig

ROWS = 256
"""Rows whose target values are computed together. While the first ones are computed there is nothing to train on."""


class NumpyUpdater(adam.NumpyUpdater[Regression, QNetwork, DQNConfig]):
    """Adam on the Huber loss, which `tianji.algorithms.dqn_torch.loss` defines."""

    together: int | None = ROWS

    def __init__(self, network: QNetwork, config: DQNConfig, weights: Vector, helper: Helper | None = None) -> None:
        super().__init__(network, config, weights, helper)
        self.target = self.flat.copy()
        self._t = network.views(self.target)
        self._gelu = network.activation == "gelu"

    def state(self) -> Arrays:
        return super().state() | {"target": self.target}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self.target[:] = arrays["target"]

    def copy_to_target(self) -> None:
        self.target[:] = self.flat

    def values(self, features: NDArray[Any]) -> Vector:
        return self.network.scores(self._w, features)

    def target_values(self, features: NDArray[Any]) -> Vector:
        return self.network.scores(self._t, features)

    def _allocate(self, rows: int) -> None:
        """Allocate activations and gradients, [width, N] for each hidden layer, and with GELU its slopes and scratch arrays."""
        self._rows = rows
        self._h, self._d = self._layers(rows), self._layers(rows)
        if self._gelu:
            self._slope, self._scratch = self._layers(rows), self._layers(rows)
        self._index = np.arange(rows)
        self._ones = np.ones(rows, np.float32)

    def _layers(self, rows: int) -> list[Vector]:
        return [np.empty((width, rows), np.float32) for width in self.network.outputs]

    def backward(self, batch: Regression) -> None:
        """Compute the gradient. The Huber loss has the slope clip(Q - target, -delta, delta) in Q = Q(s, a).

        Arrays have a column for each row of the batch. So the product for a layer's inputs has no transposed factor, which
        makes it a quarter faster.
        """
        n = len(batch.action)
        if n != self._rows:
            self._allocate(n)
        w, h, d, depth = self._w, self._h, self._d, len(self.network.hidden)
        features = vectors(batch.features).T
        x: NDArray[np.float32] = features
        for i in range(depth):
            np.matmul(w[f"q.{i}.kernel"].T, x, out=h[i])
            h[i] += w[f"q.{i}.bias"][:, None]
            if self._gelu:
                gelu_and_slope(h[i], self._slope[i], self._scratch[i])
            else:
                relu(h[i])
            x = h[i]
        if self.network.dueling:
            values = duel(w, x.T).T
        else:
            values = w[f"q.{depth}.kernel"].T @ x
            values += w[f"q.{depth}.bias"][:, None]

        delta = self.config.huber_delta
        error = np.clip(values[batch.action, self._index] - batch.target, -delta, delta)
        d_out = np.zeros(values.shape, np.float32)
        d_out[batch.action, self._index] = error * np.float32(1 / n)
        if self.network.dueling:
            self._streams_gradient(x, d_out)
        else:
            self._layer_gradient(f"q.{depth}", x, d_out, d[-1] if depth else None)
        for i in range(depth - 1, -1, -1):
            d[i] *= self._slope[i] if self._gelu else h[i] > 0
            self._layer_gradient(f"q.{i}", h[i - 1] if i else features, d[i], d[i - 1] if i else None)

    def _layer_gradient(self, name: str, below: Vector, d_out: Vector, d_below: Vector | None) -> None:
        """Compute the gradient of one layer's kernel and bias, and of its inputs unless these are features."""
        self.beside(below, d_out.T, self._g[f"{name}.kernel"])
        np.matmul(d_out, self._ones, out=self._g[f"{name}.bias"])
        if d_below is not None:
            np.matmul(self._w[f"{name}.kernel"], d_out, out=d_below)

    def _streams_gradient(self, top: Vector, d_out: Vector) -> None:
        """Compute the gradient of both streams' heads and of their inputs.

        With Q = V + A - mean A, the slope in V is the sum of d Q, and the slope in A is d Q minus its mean.
        """
        last, d = self.network.hidden[-1], self._d[-1]
        d_value = d_out.sum(axis=0, keepdims=True)
        self._layer_gradient("value", top[:last], d_value, d[:last])
        self._layer_gradient("advantage", top[last:], d_out - d_value / len(d_out), d[last:])
