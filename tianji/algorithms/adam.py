"""Gradient clipping and Adam over one flat vector in NumPy, with torch's formulas, and the base class of NumPy updaters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import FlatNetwork, Parts, Vector
from tianji.algorithms.second_core import WORTH, Helper, Later
from tianji.algorithms.state import Arrays
from tianji.hyperparameters import DQNConfig, PolicyGradientConfig

B = TypeVar("B")
N = TypeVar("N", bound=FlatNetwork)
C = TypeVar("C", bound=PolicyGradientConfig | DQNConfig)
BETAS = (0.9, 0.999)
CLIP_EPSILON = 1e-6
"""Added to the gradient norm before dividing by it, as torch's clip_grad_norm_ does."""
SCALES = (1 / (1 - BETAS[0]), 1 / (1 - BETAS[1]))
"""The moments are kept times these: as sums that fade, not as means. That saves two passes over the vector."""


class Adam:
    """Adam (Kingma & Ba, 2015, arXiv 1412.6980, algorithm 1) after clipping the gradient to a norm.

    Parameters
    ----------
    parts
        are clipped one by one, each to the norm. None: the gradient is clipped as a whole.
    """

    def __init__(self, size: int, epsilon: float, max_grad_norm: float, parts: Parts | None = None) -> None:
        self.epsilon = epsilon
        self.max_grad_norm = max_grad_norm
        self.parts = parts
        self.steps = 0
        self.norms = 0.0
        """Sum of the gradients' norms. It stays NaN after one NaN, and shows infinite gradients, which clipping turns to 0."""
        self.first_moment = np.zeros(size, np.float32)
        self.second_moment = np.zeros(size, np.float32)
        self._scratch = np.empty(size, np.float32)

    def state(self) -> Arrays:
        """The moments with their scales, and the number of steps for their bias correction."""
        return {
            "first_moment": self.first_moment,
            "second_moment": self.second_moment,
            "moment_scales": np.array(SCALES),
            "optimizer_steps": np.array(self.steps, np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore what `state` returned."""
        self.first_moment[:], self.second_moment[:] = moments(arrays, SCALES)
        self.steps = int(arrays["optimizer_steps"])

    def step(self, flat: Vector, grad: Vector, learning_rate: float) -> None:
        """Clip `grad` and step `flat`, both in place.

        The paper has moments m and v and betas b1 and b2. This keeps M = m / (1 - b1) and V = v / (1 - b2).
        Let a be the learning rate times (1 - b1) / (1 - b1^t). Then the paper's step is

            M / (sqrt(V (1 - b2) / (1 - b2^t)) / a + epsilon / a)
        """
        if self.parts is None:
            norm = float(np.sqrt(np.dot(grad, grad)))
            self.norms += norm
            if norm + CLIP_EPSILON > self.max_grad_norm:
                grad *= np.float32(self.max_grad_norm / (norm + CLIP_EPSILON))
        else:
            self._clip_each(grad, self.parts)
        beta1, beta2 = BETAS
        self.steps += 1
        m, v, s = self.first_moment, self.second_moment, self._scratch
        m *= np.float32(beta1)
        m += grad
        np.multiply(grad, grad, out=s)
        v *= np.float32(beta2)
        v += s
        rate = learning_rate * (1 - beta1) / (1 - beta1**self.steps)
        if rate == 0:
            return
        np.sqrt(v, out=s)
        s *= np.float32(math.sqrt((1 - beta2) / (1 - beta2**self.steps)) / rate)
        s += np.float32(self.epsilon / rate)
        np.divide(m, s, out=s)
        flat -= s

    def _clip_each(self, grad: Vector, parts: Parts) -> None:
        """Clip each part of `grad` by its own norm, in place."""
        for part in parts:
            views = [grad[piece] for piece in part]
            norm = math.sqrt(sum(float(np.dot(view, view)) for view in views))
            self.norms += norm
            if norm + CLIP_EPSILON > self.max_grad_norm:
                scale = np.float32(self.max_grad_norm / (norm + CLIP_EPSILON))
                for view in views:
                    view *= scale


def moments(arrays: Arrays, scales: tuple[float, float]) -> tuple[Vector, Vector]:
    """Both moments of a state at other scales. They are the same bits if they have these scales already."""
    kept = arrays.get("moment_scales", np.ones(2))
    first, second = (
        array if was == wanted else array * np.float32(wanted / was)
        for array, was, wanted in zip((arrays["first_moment"], arrays["second_moment"]), kept, scales, strict=True)
    )
    return first, second


class NumpyUpdater(ABC, Generic[B, N, C]):
    """Adam on a loss whose gradient a subclass computes by hand-derived formulas, for batches of type B.

    Parameters
    ----------
    helper
        computes large products beside this thread; None: this thread computes all.
    """

    def __init__(self, network: N, config: C, weights: Vector, helper: Helper | None = None) -> None:
        self.network, self.config, self.helper = network, config, helper
        self.flat = np.array(weights, np.float32)
        self.grad = np.zeros_like(self.flat)
        self.adam = Adam(
            len(self.flat), config.adam_epsilon, config.max_grad_norm, network.parts() if config.clips_apart else None
        )
        self._w, self._g = network.views(self.flat), network.views(self.grad)
        self._accumulated: Vector | None = None
        self._products: list[Later[Any]] = []
        self._rows = 0

    @abstractmethod
    def backward(self, batch: B) -> None:
        """Compute the gradient of the loss before clipping into `grad`. Products may be left to `later_product`."""

    def gradient(self, batch: B) -> Vector:
        """Flat gradient of the loss before clipping, valid until the next call."""
        self.backward(batch)
        while self._products:
            self._products.pop().result()
        return self.grad

    def later_product(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        """Compute left @ right into `out` before the gradient is complete. Both must stay unchanged until then."""
        if self.helper is None or out.size * left.shape[-1] < WORTH:
            np.matmul(left, right, out=out)
        else:
            self._products.append(self.helper.do(partial(np.matmul, left, right, out=out)))

    def weights(self) -> Vector:
        return self.flat

    def load(self, weights: Vector) -> None:
        self.flat[:] = weights

    def assign(self, blocks: Mapping[str, Vector]) -> None:
        for name, block in blocks.items():
            self._w[name][:] = block

    def norm_sum(self) -> float:
        return self.adam.norms

    def sound(self) -> bool:
        return math.isfinite(self.adam.norms) and bool(np.isfinite(self.flat).all())

    def state(self) -> Arrays:
        return {"weights": self.flat, **self.adam.state()}

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.adam.restore(arrays)

    def step(self, batch: B, learning_rate: float) -> None:
        self.adam.step(self.flat, self.gradient(batch), learning_rate)

    def accumulate(self, batch: B, weight: float) -> None:
        gradient = np.float32(weight) * self.gradient(batch)
        self._accumulated = gradient if self._accumulated is None else self._accumulated + gradient

    def apply(self, learning_rate: float) -> None:
        if self._accumulated is None:
            raise RuntimeError("no gradient was accumulated")
        self.adam.step(self.flat, self._accumulated, learning_rate)
        self._accumulated = None
