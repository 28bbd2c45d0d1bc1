"""TD3's update for multilayer perceptrons, with hand-derived gradients in NumPy."""

from __future__ import annotations

import numpy as np

from tianji.algorithms.flat import Vector
from tianji.algorithms.second_core import Helper
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import TwinCritics
from tianji.algorithms.twin_numpy import TwinUpdater, drift
from tianji.hyperparameters import TD3Config


class NumpyUpdater(TwinUpdater[TD3Config]):
    """Updates as `tianji.algorithms.td3` describes them. The vector of target networks has a policy too."""

    def __init__(self, network: TwinCritics, config: TD3Config, weights: Vector, helper: Helper | None = None) -> None:
        super().__init__(network, config, weights, helper)
        self._target_layers = network.layers(self.target, "policy")
        self._moved = np.empty(network.acting, np.float32)

    def step(self, batch: Transitions, learning_rate: float) -> None:
        """One update of the critics and, now and then, of the policy and the target networks."""
        n, (one, two) = np.float32(len(batch.reward)), self._critics
        values, targets = self._look(batch)
        slopes = [2 * (value - targets) / n for value in values]
        self.both(lambda: one.descend(slopes[0], learning_rate), lambda: two.descend(slopes[1], learning_rate))
        # The critics' steps are the updates so far.
        if one.adam.steps % self.config.policy_every:
            return
        action = self._act()
        one.of_chosen()
        slope = one.of_action(self._of_action)
        slope *= -1 / n
        slope *= 1 - action * action
        self.backward(slope)
        self.descend("policy", learning_rate)
        for critic in self._critics:
            critic.follow()
        piece = self._pieces["policy"]
        drift(self.target[piece], self.flat[piece], np.float32(self.config.tau), self._moved)

    def targets(self, batch: Transitions) -> Vector:
        """Targets of the critics' values, [N]."""
        return self._look(batch)[1]

    def measured(self, batch: Transitions) -> dict[str, float]:
        values, targets = self._look(batch)
        self._act()
        chosen = [critic.of_chosen() for critic in self._critics]
        found = {
            "policy_loss": -chosen[0].mean(),
            "critic_loss": sum(np.square(value - targets).mean() for value in values),
            "mean_value": np.mean(chosen),
        }
        return {name: float(value) for name, value in found.items()}

    def _look(self, batch: Transitions) -> tuple[tuple[Vector, Vector], Vector]:
        """Both critics' values of the actions taken, and the targets of these values."""
        self.ready(batch)
        one, two = self._critics
        most = np.float32(self.config.target_noise_clip)

        def following() -> Vector:
            noise = np.float32(self.config.target_noise) * batch.next_noise.T
            action = np.tanh(self._next.forward(self._target_layers)) + np.minimum(np.maximum(noise, -most), most)
            self._following[self._of_action] = np.minimum(np.maximum(action, np.float32(-1)), np.float32(1))
            return batch.reward + batch.discount * np.minimum(one.of_following(), two.of_following())

        return self.both(lambda: (one.of_taken(), two.of_taken()), following)

    def _act(self) -> Vector:
        """The policy's actions in the states, [D, N], also written to their place among a critic's inputs."""
        action: Vector = np.tanh(self._now.forward(self._layers))
        self._chosen[self._of_action] = action
        return action
