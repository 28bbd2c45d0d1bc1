"""Hand-derived gradients in NumPy for a policy and two critics: perceptrons on preallocated arrays, and what updaters share.

Arrays have a column for each row of the batch. So the product for a layer's inputs has no transposed factor, which makes it a
quarter faster. A helper thread computes one critic while this thread computes the other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from tianji.algorithms.adam import SCALES, Adam, moments
from tianji.algorithms.flat import Vector
from tianji.algorithms.mlp import relu, vectors
from tianji.algorithms.second_core import WORTH, Helper, Later
from tianji.algorithms.state import Arrays
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import CRITICS, TwinCritics
from tianji.hyperparameters import TwinConfig

C = TypeVar("C", bound=TwinConfig)
Product = Callable[[int, Vector, Vector], object]
"""Takes the number of a layer and two matrices whose product is the layer's gradient."""
T = TypeVar("T")
U = TypeVar("U")


class Pass:
    """One ReLU perceptron on N rows: its layers' inputs, each with a one, and their slopes.

    Parameters
    ----------
    inputs : [I + 1, N]
        of the first layer, with a row of ones at the end. It is not copied.
    hidden
        widths of the hidden layers.
    """

    def __init__(self, inputs: Vector, hidden: tuple[int, ...]) -> None:
        rows = inputs.shape[1]
        self._x = [inputs, *(np.ones((width + 1, rows), np.float32) for width in hidden)]
        self._d = [np.empty((width, rows), np.float32) for width in hidden]

    def forward(self, layers: list[Vector]) -> Vector:
        """Outputs, [O, N], of layers with their biases as last rows."""
        for i, layer in enumerate(layers[:-1]):
            h = self._x[i + 1][:-1]
            np.matmul(layer.T, self._x[i], out=h)
            relu(h)
        return layers[-1].T @ self._x[-1]

    def backward(self, layers: list[Vector], slope: Vector, product: Product) -> None:
        """Give each layer's gradient to `product`, from the slopes of the outputs, [O, N]."""
        for i in range(len(layers) - 1, -1, -1):
            product(i, self._x[i], slope.T)
            if i:
                d = self._d[i - 1]
                _spread(layers[i][:-1], slope, d)
                d *= self._x[i][:-1] > 0
                slope = d

    def of_inputs(self, layers: list[Vector], slope: Vector, rows: slice) -> Vector:
        """Slopes of some rows of the inputs, [rows, N], from those of the outputs, [O, N]."""
        for i in range(len(layers) - 1, 0, -1):
            d = self._d[i - 1]
            _spread(layers[i][:-1], slope, d)
            d *= self._x[i][:-1] > 0
            slope = d
        return layers[0][rows] @ slope


def _spread(kernel: Vector, slope: Vector, out: Vector) -> None:
    """Slopes of a layer's inputs, [I, N], from those of its outputs, [O, N]."""
    if len(slope) == 1:
        np.multiply(kernel, slope, out=out)
    else:
        np.matmul(kernel, slope, out=out)


class Critic:
    """One critic with its target network and its optimizer.

    Parameters
    ----------
    network
        describes the vectors.
    name
        `q1` or `q2`.
    flat, target, grad
        vectors of the network: weights, weights of target networks, and gradients.
    """

    def __init__(self, network: TwinCritics, config: TwinConfig, name: str, flat: Vector, target: Vector, grad: Vector) -> None:
        piece, self.hidden, self._tau = network.pieces()[name], network.hidden, np.float32(config.tau)
        self._own, self._their, self._grad = flat[piece], target[piece], grad[piece]
        self._layers, self._targets, self._gradients = (network.layers(vector, name) for vector in (flat, target, grad))
        self.adam = Adam(len(self._own), config.adam_epsilon, math.inf)
        self._moved = np.empty_like(self._own)

    def allocate(self, taken: Vector, following: Vector, chosen: Vector) -> None:
        """Take the inputs, [F + D + 1, N]: states with the actions taken, next states and states with the policy's actions."""
        self._taken, self._following, self._chosen = (Pass(x, self.hidden) for x in (taken, following, chosen))
        self._ones = np.ones((1, taken.shape[1]), np.float32)

    def of_taken(self) -> Vector:
        """Values of the actions taken, [N]."""
        values: Vector = self._taken.forward(self._layers)[0]
        return values

    def of_following(self) -> Vector:
        """Values of the next actions by the target network, [N]."""
        values: Vector = self._following.forward(self._targets)[0]
        return values

    def of_chosen(self) -> Vector:
        """Values of the policy's actions, [N]."""
        values: Vector = self._chosen.forward(self._layers)[0]
        return values

    def descend(self, slope: Vector, learning_rate: float) -> None:
        """Make an optimizer step, from the slopes of the values of the actions taken."""
        self._taken.backward(self._layers, slope[None], lambda i, left, right: np.matmul(left, right, out=self._gradients[i]))
        self.adam.step(self._own, self._grad, learning_rate)

    def follow(self) -> None:
        """Move the target network towards this one."""
        drift(self._their, self._own, self._tau, self._moved)

    def of_action(self, rows: slice) -> Vector:
        """Slopes of the values of the policy's actions in these actions, [D, N], after `of_chosen`."""
        return self._chosen.of_inputs(self._layers, self._ones, rows)


class TwinUpdater(ABC, Generic[C]):
    """Holder of the weights, of target networks and of Adam's moments.

    Parameters
    ----------
    weights
        initial ones, which are copied.
    helper
        computes one critic beside this thread; None: this thread computes all.
    """

    def __init__(self, network: TwinCritics, config: C, weights: Vector, helper: Helper | None = None) -> None:
        self.network, self.config, self.helper = network, config, helper
        self.flat = np.array(weights, np.float32)
        self.target, self.grad = self.flat.copy(), np.zeros_like(self.flat)
        self._pieces, self._w = network.pieces(), network.views(self.flat)
        self._layers, self._gradients = network.layers(self.flat, "policy"), network.layers(self.grad, "policy")
        self._critics = [Critic(network, config, name, self.flat, self.target, self.grad) for name in CRITICS]
        own = dict(zip(CRITICS, (critic.adam for critic in self._critics), strict=True))
        self._adams = {
            name: own.get(name) or Adam(piece.stop - piece.start, config.adam_epsilon, math.inf)
            for name, piece in self._pieces.items()
        }
        self._products: list[Later[Any]] = []
        self._rows = 0

    @abstractmethod
    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update, as the algorithm describes it."""

    @abstractmethod
    def measured(self, batch: Transitions) -> dict[str, float]:
        """Metrics of a batch under the present weights, which it leaves as they are."""

    def weights(self) -> Vector:
        return self.flat

    def load(self, weights: Vector) -> None:
        self.flat[:] = weights

    def assign(self, blocks: Mapping[str, Vector]) -> None:
        for name, block in blocks.items():
            self._w[name][:] = block

    def norm_sum(self) -> float:
        return sum(adam.norms for adam in self._adams.values())

    def sound(self) -> bool:
        return math.isfinite(self.norm_sum()) and bool(np.isfinite(self.flat).all())

    def state(self) -> Arrays:
        adams = self._adams.values()
        return {
            "weights": self.flat,
            "target": self.target,
            "first_moment": np.concatenate([adam.first_moment for adam in adams]),
            "second_moment": np.concatenate([adam.second_moment for adam in adams]),
            "moment_scales": np.array(SCALES),
            # Both critics make their steps together.
            "optimizer_steps": np.array([adam.steps for name, adam in self._adams.items() if name != "q2"], np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.target[:] = arrays["target"]
        first_moment, second_moment = moments(arrays, SCALES)
        policy, critics, *rest = (int(steps) for steps in arrays["optimizer_steps"])
        for (name, adam), steps in zip(self._adams.items(), (policy, critics, critics, *rest), strict=True):
            adam.first_moment[:], adam.second_moment[:] = first_moment[self._pieces[name]], second_moment[self._pieces[name]]
            adam.steps = steps

    def descend(self, name: str, learning_rate: float) -> None:
        """Make the optimizer step of the policy or the temperature, on the gradient that lies there."""
        piece = self._pieces[name]
        self._adams[name].step(self.flat[piece], self.grad[piece], learning_rate)

    def ready(self, batch: Transitions) -> None:
        """Copy a batch's columns into the inputs."""
        if len(batch.reward) != self._rows:
            self._allocate(len(batch.reward), vectors(batch.features).shape[1])
        end = self._of_action.start
        now, following = vectors(batch.features).T, vectors(batch.following).T
        for place, column in zip((self._taken, self._chosen, self._following), (now, now, following), strict=True):
            place[:end] = column
        for place, column in zip(self._states, (now, following), strict=True):
            place[:end] = column
        self._taken[self._of_action] = batch.action.T

    def _allocate(self, rows: int, features: int) -> None:
        """Allocate arrays with a column for each row of a batch."""
        self._rows, numbers, hidden = rows, self.network.actions.parts, self.network.hidden
        self._of_action = slice(features, features + numbers)
        self._taken, self._following, self._chosen = (np.ones((features + numbers + 1, rows), np.float32) for _ in range(3))
        self._states = [np.ones((features + 1, rows), np.float32) for _ in range(2)]
        self._now, self._next = (Pass(x, hidden) for x in self._states)
        for critic in self._critics:
            critic.allocate(self._taken, self._following, self._chosen)

    def backward(self, slopes: Vector) -> None:
        """Compute the policy's gradient, from the slopes of its outputs in the states, [O, N]."""
        self._now.backward(self._layers, slopes, self._later)
        while self._products:
            self._products.pop().result()

    def _later(self, i: int, left: Vector, right: Vector) -> None:
        """Compute the gradient of a layer of the policy, by the helper if there is one and it is worth it."""
        out = self._gradients[i]
        if self.helper is None or out.size * left.shape[1] < WORTH:
            np.matmul(left, right, out=out)
        else:
            self._products.append(self.helper.do(partial(np.matmul, left, right, out=out)))

    def both(self, one: Callable[[], T], two: Callable[[], U]) -> tuple[T, U]:
        """Results of two pieces of work, by two threads if there is a helper."""
        if self.helper is None:
            return one(), two()
        later = self.helper.do(two)
        mine = one()
        return mine, later.result()


def drift(target: Vector, weights: Vector, tau: np.float32, scratch: Vector) -> None:
    """Move a target network towards the weights by a share, in place (Lillicrap et al., 2016, arXiv 1509.02971)."""
    np.subtract(weights, target, out=scratch)
    scratch *= tau
    target += scratch
