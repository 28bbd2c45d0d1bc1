"""Gradient clipping and Adam over one flat vector, in NumPy, as torch computes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.state import Arrays

Vector = NDArray[np.float32]
BETAS = (0.9, 0.999)
CLIP_EPSILON = 1e-6
"""Added to the gradient norm before dividing by it, as torch's clip_grad_norm_ does."""


class Adam:
    """Adam (Kingma & Ba, 2015, arXiv 1412.6980, algorithm 1) after clipping the gradient to a norm."""

    def __init__(self, size: int, epsilon: float, max_grad_norm: float) -> None:
        self.epsilon = epsilon
        self.max_grad_norm = max_grad_norm
        self.steps = 0
        self.first_moment = np.zeros(size, np.float32)
        self.second_moment = np.zeros(size, np.float32)
        self._scratch = np.empty(size, np.float32)

    def state(self) -> Arrays:
        """Moments, and the number of steps that their bias correction counts."""
        return {
            "first_moment": self.first_moment,
            "second_moment": self.second_moment,
            "optimizer_steps": np.array(self.steps, np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        """Set what `state` gave."""
        self.first_moment[:] = arrays["first_moment"]
        self.second_moment[:] = arrays["second_moment"]
        self.steps = int(arrays["optimizer_steps"])

    def step(self, flat: Vector, grad: Vector, learning_rate: float) -> None:
        """Clip `grad` and step `flat`, both in place."""
        norm = float(np.sqrt(np.dot(grad, grad)))
        if norm + CLIP_EPSILON > self.max_grad_norm:
            grad *= np.float32(self.max_grad_norm / (norm + CLIP_EPSILON))
        beta1, beta2 = BETAS
        self.steps += 1
        m, v, s = self.first_moment, self.second_moment, self._scratch
        np.subtract(grad, m, out=s)
        s *= np.float32(1 - beta1)
        m += s
        np.multiply(grad, grad, out=s)
        s *= np.float32(1 - beta2)
        v *= np.float32(beta2)
        v += s
        np.sqrt(v, out=s)
        s *= np.float32(1 / np.sqrt(1 - beta2**self.steps))
        s += np.float32(self.epsilon)
        np.divide(m, s, out=s)
        s *= np.float32(learning_rate / (1 - beta1**self.steps))
        flat -= s
