"""Soft actor-critic's update for multilayer perceptrons, with hand-derived gradients in NumPy on preallocated arrays.

Arrays have a column for each row of the batch. So the product for a layer's inputs has no transposed factor, which makes it a
quarter faster. A helper thread computes one critic while this thread computes the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.adam import SCALES, Adam, moments
from tianji.algorithms.flat import HALF_LOG_TAU, Vector
from tianji.algorithms.mlp import relu, vectors
from tianji.algorithms.sac import Transitions, aim, first
from tianji.algorithms.second_core import WORTH, Helper, Later
from tianji.algorithms.state import Arrays
from tianji.algorithms.twin import CRITICS, TwinCritics
from tianji.hyperparameters import SACConfig

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

    def of_inputs(self, layers: list[Vector], slope: Vector, columns: NDArray[np.int64], rows: slice) -> Vector:
        """Slopes of some rows of the inputs in some columns, [rows, C], from those of the outputs there, [O, C]."""
        for i in range(len(layers) - 1, 0, -1):
            d = np.empty((len(layers[i]) - 1, slope.shape[1]), np.float32)
            _spread(layers[i][:-1], slope, d)
            d *= self._x[i][:-1].take(columns, axis=1) > 0
            slope = d
        return layers[0][rows] @ slope


def _spread(kernel: Vector, slope: Vector, out: Vector) -> None:
    """Slopes of a layer's inputs, [I, N], from those of its outputs, [O, N]."""
    if len(slope) == 1:
        np.multiply(kernel, slope, out=out)
    else:
        np.matmul(kernel, slope, out=out)


class Squashed:
    """A Gaussian whose numbers go through tanh: actions of a batch, drawn from given noise, with their log-probabilities.

    Parameters
    ----------
    scores : [2 D, N]
        means and log-scales.
    noise : [D, N]
        standard normal.
    bounds
        between which a log-scale is held. Outside them its gradient is zero.
    """

    def __init__(self, scores: Vector, noise: Vector, bounds: tuple[float, float]) -> None:
        numbers = len(noise)
        raw, (least, most) = scores[numbers:], (np.float32(bound) for bound in bounds)
        log_scale = np.minimum(np.maximum(raw, least), most)
        self._within = (raw >= least) & (raw <= most)
        self._shift = np.exp(log_scale) * noise
        u = scores[:numbers] + self._shift
        self.action = np.tanh(u)
        # The logarithm of 1 - tanh^2 u is 2 (log 2 - u - softplus(-2 u)).
        volume = np.logaddexp(np.float32(0), -2 * u) + u - np.float32(math.log(2))
        each = np.float32(-0.5) * noise * noise - log_scale + 2 * volume
        self.log_probability: Vector = np.add.reduce(each) - np.float32(numbers * HALF_LOG_TAU)

    def slopes(self, of_action: Vector, weight: float) -> Vector:
        """Slopes of the scores, [2 D, N], from those of the actions [D, N] and of each log-probability (a weight).

        With u the number before tanh, dl / du = 2 tanh u. The noise is fixed, so that a log-scale has slope -1 in l and moves u
        by the deviation times the noise.
        """
        a = self.action
        of_u = of_action * (1 - a * a) + np.float32(2 * weight) * a
        of_log_scale = of_u * self._shift
        of_log_scale -= np.float32(weight)
        of_log_scale *= self._within
        slopes: Vector = np.concatenate([of_u, of_log_scale])
        return slopes


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

    def __init__(self, network: TwinCritics, config: SACConfig, name: str, flat: Vector, target: Vector, grad: Vector) -> None:
        piece, self.hidden, self._tau = network.pieces()[name], network.hidden, np.float32(config.tau)
        self._own, self._their, self._grad = flat[piece], target[piece], grad[piece]
        self._layers, self._targets, self._gradients = (network.layers(vector, name) for vector in (flat, target, grad))
        self.adam = Adam(len(self._own), config.adam_epsilon, math.inf)
        self._moved = np.empty_like(self._own)

    def allocate(self, taken: Vector, following: Vector, chosen: Vector) -> None:
        """Take the inputs, [F + D + 1, N]: states with the actions taken, next states and states with the policy's actions."""
        self._taken, self._following, self._chosen = (Pass(x, self.hidden) for x in (taken, following, chosen))

    def look(self) -> tuple[Vector, Vector]:
        """Values of the actions taken, and those of the next actions by the target network, [N] each."""
        return self._taken.forward(self._layers)[0], self._following.forward(self._targets)[0]

    def of_chosen(self) -> Vector:
        """Values of the policy's actions, [N]."""
        values: Vector = self._chosen.forward(self._layers)[0]
        return values

    def learn(self, slope: Vector, learning_rate: float) -> Vector:
        """Descend, from the slopes of the values of the actions taken; then look at the policy's actions."""
        self._taken.backward(self._layers, slope[None], lambda i, left, right: np.matmul(left, right, out=self._gradients[i]))
        self.adam.step(self._own, self._grad, learning_rate)
        np.subtract(self._own, self._their, out=self._moved)
        self._moved *= self._tau
        self._their += self._moved
        return self.of_chosen()

    def of_action(self, columns: NDArray[np.int64], rows: slice, out: Vector) -> None:
        """Write the slopes of a sum of values of the policy's actions, [D, N], in some columns."""
        ones = np.ones((1, len(columns)), np.float32)
        out[:, columns] = self._chosen.of_inputs(self._layers, ones, columns, rows)


class NumpyUpdater:
    """Holder of the weights, of target networks and of Adam's moments, as `tianji.algorithms.sac` describes an update.

    Parameters
    ----------
    helper
        computes one critic beside this thread; None: this thread computes all.
    """

    def __init__(self, network: TwinCritics, config: SACConfig, weights: Vector, helper: Helper | None = None) -> None:
        self.network, self.config, self.helper = network, config, helper
        self._pieces = network.pieces()
        self.flat = first(weights, config, self._pieces["temperature"])
        self.target, self.grad = self.flat.copy(), np.zeros_like(self.flat)
        self._w = network.views(self.flat)
        self._layers, self._gradients = network.layers(self.flat, "policy"), network.layers(self.grad, "policy")
        self._critics = [Critic(network, config, name, self.flat, self.target, self.grad) for name in CRITICS]
        self._policy, self._temperature = (
            Adam(_length(self._pieces[name]), config.adam_epsilon, math.inf) for name in ("policy", "temperature")
        )
        self._aim, self._bounds = aim(config, network.actions), network.actions.log_scale_bounds
        self._products: list[Later[Any]] = []
        self._rows = 0

    @property
    def _optimizers(self) -> dict[str, Adam]:
        q1, q2 = self._critics
        return {"policy": self._policy, "q1": q1.adam, "q2": q2.adam, "temperature": self._temperature}

    def weights(self) -> Vector:
        return self.flat

    def load(self, weights: Vector) -> None:
        self.flat[:] = weights

    def assign(self, blocks: Mapping[str, Vector]) -> None:
        for name, block in blocks.items():
            self._w[name][:] = block

    def norm_sum(self) -> float:
        return sum(adam.norms for adam in self._optimizers.values())

    def sound(self) -> bool:
        return math.isfinite(self.norm_sum()) and bool(np.isfinite(self.flat).all())

    def state(self) -> Arrays:
        adams = self._optimizers.values()
        return {
            "weights": self.flat,
            "target": self.target,
            "first_moment": np.concatenate([adam.first_moment for adam in adams]),
            "second_moment": np.concatenate([adam.second_moment for adam in adams]),
            "moment_scales": np.array(SCALES),
            # Both critics make their steps together.
            "optimizer_steps": np.array([adam.steps for name, adam in self._optimizers.items() if name != "q2"], np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        self.load(arrays["weights"])
        self.target[:] = arrays["target"]
        first_moment, second_moment = moments(arrays, SCALES)
        policy, critics, temperature = (int(steps) for steps in arrays["optimizer_steps"])
        for (name, adam), steps in zip(self._optimizers.items(), (policy, critics, critics, temperature), strict=True):
            adam.first_moment[:], adam.second_moment[:] = first_moment[self._pieces[name]], second_moment[self._pieces[name]]
            adam.steps = steps

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the temperature, the critics, the policy and the target networks."""
        other = self.config.critic_learning_rate or learning_rate
        one, two = self._critics
        n, alpha = len(batch.reward), self._alpha()
        drawn, values, futures = self._look(batch, alpha)
        slopes = [(value - futures) / np.float32(n) for value in values]
        chosen = self._both(lambda: one.learn(slopes[0], other), lambda: two.learn(slopes[1], other))
        # Of the smaller value alone.
        first_is_least, slope = chosen[0] <= chosen[1], np.empty_like(drawn.action)
        self._both(
            lambda: one.of_action(np.flatnonzero(first_is_least), self._of_action, slope),
            lambda: two.of_action(np.flatnonzero(~first_is_least), self._of_action, slope),
        )
        slope *= np.float32(-1 / n)
        self._now.backward(self._layers, drawn.slopes(slope, alpha / n), self._later)
        while self._products:
            self._products.pop().result()
        piece = self._pieces["policy"]
        self._policy.step(self.flat[piece], self.grad[piece], learning_rate)
        if self.config.temperature == "auto":
            piece = self._pieces["temperature"]
            self.grad[piece] = -(float(drawn.log_probability.mean()) + self._aim)
            self._temperature.step(self.flat[piece], self.grad[piece], other)

    def targets(self, batch: Transitions) -> Vector:
        """Targets of the critics' values, [N]."""
        return self._look(batch, self._alpha())[2]

    def measured(self, batch: Transitions) -> dict[str, float]:
        alpha = self._alpha()
        drawn, values, futures = self._look(batch, alpha)
        chosen = [critic.of_chosen() for critic in self._critics]
        found = {
            "policy_loss": (alpha * drawn.log_probability - np.minimum(*chosen)).mean(),
            "critic_loss": 0.5 * sum(np.square(value - futures).mean() for value in values),
            "mean_value": np.mean(chosen),
            "entropy": -drawn.log_probability.mean(),
            "temperature": alpha,
        }
        return {name: float(value) for name, value in found.items()}

    def _look(self, batch: Transitions, alpha: float) -> tuple[Squashed, tuple[Vector, Vector], Vector]:
        """The policy's actions in the states, both critics' values of the actions taken, and the targets of these values."""
        if len(batch.reward) != self._rows:
            self._allocate(len(batch.reward), vectors(batch.features).shape[1])
        rows = self._of_action
        self._fill(batch)
        drawn, following = self._both(
            lambda: self._drawn(self._now, batch.noise, self._chosen[rows]),
            lambda: self._drawn(self._next, batch.next_noise, self._following[rows]),
        )
        (value1, future1), (value2, future2) = self._both(self._critics[0].look, self._critics[1].look)
        soft = np.minimum(future1, future2) - np.float32(alpha) * following.log_probability
        return drawn, (value1, value2), batch.reward + batch.discount * soft

    def _alpha(self) -> float:
        return math.exp(float(self._w["temperature.log"][0]))

    def _allocate(self, rows: int, features: int) -> None:
        """Allocate arrays with a column for each row of a batch."""
        self._rows, numbers, hidden = rows, self.network.actions.parts, self.network.hidden
        self._of_action = slice(features, features + numbers)
        self._taken, self._following, self._chosen = (np.ones((features + numbers + 1, rows), np.float32) for _ in range(3))
        states = [np.ones((features + 1, rows), np.float32) for _ in range(2)]
        self._now, self._next = (Pass(x, hidden) for x in states)
        self._states = states
        for critic in self._critics:
            critic.allocate(self._taken, self._following, self._chosen)

    def _fill(self, batch: Transitions) -> None:
        """Copy a batch's columns into the inputs."""
        end = self._of_action.start
        now, following = vectors(batch.features).T, vectors(batch.following).T
        for place, column in zip((self._taken, self._chosen, self._following), (now, now, following), strict=True):
            place[:end] = column
        for place, column in zip(self._states, (now, following), strict=True):
            place[:end] = column
        self._taken[self._of_action] = batch.action.T

    def _drawn(self, states: Pass, noise: NDArray[np.float32], place: Vector) -> Squashed:
        """Actions that the policy draws in some states, also written to their place among a critic's inputs."""
        drawn = Squashed(states.forward(self._layers), np.ascontiguousarray(noise.T), self._bounds)
        place[:] = drawn.action
        return drawn

    def _later(self, i: int, left: Vector, right: Vector) -> None:
        """Compute the gradient of a layer of the policy, by the helper if there is one and it is worth it."""
        out = self._gradients[i]
        if self.helper is None or out.size * left.shape[1] < WORTH:
            np.matmul(left, right, out=out)
        else:
            self._products.append(self.helper.do(partial(np.matmul, left, right, out=out)))

    def _both(self, one: Callable[[], T], two: Callable[[], U]) -> tuple[T, U]:
        """Results of two pieces of work, by two threads if there is a helper."""
        if self.helper is None:
            return one(), two()
        later = self.helper.do(two)
        mine = one()
        return mine, later.result()


def _length(piece: slice) -> int:
    return int(piece.stop - piece.start)
