"""DQN's optimizer step for multilayer perceptrons with the gradient derived by hand, in NumPy, on preallocated arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.adam import Adam
from tianji.algorithms.dqn import Regression
from tianji.algorithms.networks import QNetwork, Vector
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
        self._rows = 0

    def weights(self) -> Vector:
        return self.flat

    def copy_to_target(self) -> None:
        self.target[:] = self.flat

    def target_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.network.scores(self._t, features)

    def step(self, batch: Regression, learning_rate: float) -> None:
        self.adam.step(self.flat, self.gradient(batch), learning_rate)

    def _allocate(self, rows: int) -> None:
        """Activations and their gradients, [N, width] for each hidden layer."""
        self._rows = rows
        self._h = [np.empty((rows, width), np.float32) for width in self.network.hidden]
        self._d = [np.empty((rows, width), np.float32) for width in self.network.hidden]
        self._index = np.arange(rows)
        self._ones = np.ones(rows, np.float32)

    def gradient(self, batch: Regression) -> Vector:
        """Gradient of the loss, flat, before clipping (valid until the next call).

        The Huber loss has slope clip(Q(s, a) - target, -delta, delta) in Q(s, a).
        """
        n = len(batch.action)
        if n != self._rows:
            self._allocate(n)
        w, g, h, d, depth = self._w, self._g, self._h, self._d, len(self.network.hidden)
        x: NDArray[np.float32] = batch.features
        for i in range(depth):
            np.matmul(x, w[f"q.{i}.kernel"], out=h[i])
            h[i] += w[f"q.{i}.bias"]
            np.maximum(h[i], 0, out=h[i])
            x = h[i]
        values = x @ w[f"q.{depth}.kernel"]
        values += w[f"q.{depth}.bias"]

        delta = self.config.huber_delta
        error = np.clip(values[self._index, batch.action] - batch.target, -delta, delta)
        d_out = np.zeros_like(values)
        d_out[self._index, batch.action] = error * np.float32(1 / n)
        for i in range(depth, -1, -1):
            below = h[i - 1] if i else batch.features
            np.matmul(below.T, d_out, out=g[f"q.{i}.kernel"])
            np.matmul(self._ones, d_out, out=g[f"q.{i}.bias"])
            if i:
                np.matmul(d_out, w[f"q.{i}.kernel"].T, out=d[i - 1])
                d[i - 1] *= below > 0
                d_out = d[i - 1]
        return self.grad
