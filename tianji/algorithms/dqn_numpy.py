"""DQN's optimizer step for multilayer perceptrons, with a hand-derived gradient in NumPy on preallocated arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import adam
from tianji.algorithms.dqn import Regression
from tianji.algorithms.flat import Vector
from tianji.algorithms.gelu import gelu_and_slope
from tianji.algorithms.mlp import QNetwork, duel, relu, vectors, widths
from tianji.algorithms.second_core import Helper
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
        self._layers, self._gradients = network.layers(self.flat), network.layers(self.grad)
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
        """Allocate arrays with a column for each of N rows: for each layer, its inputs and a one, and their slopes."""
        self._rows = rows
        hidden = self.network.outputs
        self._x = [np.ones((inputs + 1, rows), np.float32) for inputs in widths(self.network, hidden)]
        self._d, self._scratch = ([np.empty((width, rows), np.float32) for width in hidden] for _ in range(2))
        # Of ReLU's slopes, 0 or 1, a bit is kept.
        self._slope: list[NDArray[Any]] = [np.empty((width, rows), np.float32 if self._gelu else np.bool_) for width in hidden]
        self._index = np.arange(rows)
        self._ones = np.ones(rows, np.float32)

    def backward(self, batch: Regression) -> None:
        """Compute the gradient. The Huber loss has the slope clip(Q - target, -delta, delta) in Q = Q(s, a).

        Arrays have a column for each row of the batch. So the product for a layer's inputs has no transposed factor, which
        makes it a quarter faster.
        """
        n = len(batch.action)
        if n != self._rows:
            self._allocate(n)
        x, depth = self._x, len(self.network.hidden)
        x[0][:-1] = vectors(batch.features).T
        for i in range(depth):
            h, slope = x[i + 1][:-1], self._slope[i]
            np.matmul(self._layers[i].T, x[i], out=h)
            if self._gelu:
                gelu_and_slope(h, slope, self._scratch[i])
            else:
                relu(h)
                np.greater(h, 0, out=slope)
        top = x[depth]
        values = duel(self._w, top[:-1].T).T if self.network.dueling else self._layers[depth].T @ top

        delta = self.config.huber_delta
        error = values[batch.action, self._index] - batch.target
        d_out = np.zeros(values.shape, np.float32)
        d_out[batch.action, self._index] = np.minimum(np.maximum(error, -delta), delta) * np.float32(1 / n)
        if self.network.dueling:
            self._streams_gradient(top[:-1], d_out)
        else:
            self._layer_gradient(depth, d_out)
        for i in range(depth - 1, -1, -1):
            self._d[i] *= self._slope[i]
            self._layer_gradient(i, self._d[i])

    def _layer_gradient(self, i: int, d_out: Vector) -> None:
        """Compute the gradient of one layer's kernel and bias, and of its inputs unless these are features."""
        self.later_product(self._x[i], d_out.T, self._gradients[i])
        if i:
            np.matmul(self._layers[i][:-1], d_out, out=self._d[i - 1])

    def _streams_gradient(self, top: Vector, d_out: Vector) -> None:
        """Compute the gradient of both streams' heads and of their inputs.

        With Q = V + A - mean A, the slope in V is the sum of d Q, and the slope in A is d Q minus its mean.
        """
        last, w, g, d = self.network.hidden[-1], self._w, self._g, self._d[-1]
        d_value = d_out.sum(axis=0, keepdims=True)
        streams = ("value", slice(last), d_value), ("advantage", slice(last, None), d_out - d_value / len(d_out))
        for name, rows, slope in streams:
            np.matmul(top[rows], slope.T, out=g[f"{name}.kernel"])
            np.matmul(slope, self._ones, out=g[f"{name}.bias"])
            np.matmul(w[f"{name}.kernel"], slope, out=d[rows])
