"""Soft actor-critic's update for multilayer perceptrons, with hand-derived gradients in NumPy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import HALF_LOG_TAU, Vector
from tianji.algorithms.sac import aim, first
from tianji.algorithms.second_core import Helper
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import TwinCritics
from tianji.algorithms.twin_numpy import Critic, Pass, TwinUpdater
from tianji.hyperparameters import SACConfig


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


class NumpyUpdater(TwinUpdater[SACConfig]):
    """Updates as `tianji.algorithms.sac` describes them."""

    def __init__(self, network: TwinCritics, config: SACConfig, weights: Vector, helper: Helper | None = None) -> None:
        super().__init__(network, config, first(weights, config, network.pieces()["temperature"]), helper)
        self._aim, self._bounds = aim(config, network.actions), network.actions.log_scale_bounds

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the temperature, the critics, the policy and the target networks."""
        other = self.config.critic_learning_rate or learning_rate
        one, two = self._critics
        n, alpha = len(batch.reward), self._alpha()
        drawn, values, futures = self._look(batch, alpha)
        slopes = [(value - futures) / np.float32(n) for value in values]

        def learn(critic: Critic, slope: Vector) -> tuple[Vector, Vector]:
            critic.descend(slope, other)
            critic.follow()
            return critic.of_chosen(), critic.of_action(self._of_action)

        # Slopes in the actions are computed before it is known whose value is the smaller one: two threads need not meet.
        (chosen1, slope1), (chosen2, slope2) = self.both(lambda: learn(one, slopes[0]), lambda: learn(two, slopes[1]))
        slope = np.where(chosen1 <= chosen2, slope1, slope2)
        slope *= np.float32(-1 / n)
        self.backward(drawn.slopes(slope, alpha / n))
        self.descend("policy", learning_rate)
        if self.config.temperature == "auto":
            self.grad[self._pieces["temperature"]] = -(float(drawn.log_probability.mean()) + self._aim)
            self.descend("temperature", other)

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
        self.ready(batch)
        rows, (one, two) = self._of_action, self._critics

        def now() -> tuple[Squashed, tuple[Vector, Vector]]:
            return self._drawn(self._now, batch.noise, self._chosen[rows]), (one.of_taken(), two.of_taken())

        def following() -> Vector:
            drawn = self._drawn(self._next, batch.next_noise, self._following[rows])
            soft = np.minimum(one.of_following(), two.of_following()) - np.float32(alpha) * drawn.log_probability
            targets: Vector = batch.reward + batch.discount * soft
            return targets

        (drawn, values), targets = self.both(now, following)
        return drawn, values, targets

    def _alpha(self) -> float:
        return math.exp(float(self._w["temperature.log"][0]))

    def _drawn(self, states: Pass, noise: NDArray[np.float32], place: Vector) -> Squashed:
        """Actions that the policy draws in some states, also written to their place among a critic's inputs."""
        drawn = Squashed(states.forward(self._layers), np.ascontiguousarray(noise.T), self._bounds)
        place[:] = drawn.action
        return drawn
