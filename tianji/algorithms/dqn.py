"""DQN (Mnih et al., 2015): one round of updates, from chunks to new weights.

As for PPO, the loss is written twice: in torch (`tianji.algorithms.dqn_torch`), and with a hand-derived gradient in NumPy
(`tianji.algorithms.dqn_numpy`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms import base
from tianji.algorithms.base import Explore, FromReplay
from tianji.algorithms.flat import Vector
from tianji.algorithms.second_core import WORTH, Helper, Later
from tianji.algorithms.state import State
from tianji.config import DQNConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import Views


@dataclass
class Regression:
    """Minibatch of N rows: observations, actions, and the targets of their values."""

    features: NDArray[Any]
    """Encoded observations, [N, ...]."""
    action: NDArray[np.int64]
    target: NDArray[np.float32]
    """Targets r + gamma Q'(s', a'), [N], or r alone if the episode terminated; see `DQN.regression`."""


class Updater(base.Updater[Regression], Protocol):
    """Holder of the weights of an action-value network and of its target network."""

    helper: Helper | None
    """Computes target values beside optimizer steps; None: they are computed between them."""
    together: int | None
    """Rows whose target values are computed together, at least; None: those of a whole round."""

    def copy_to_target(self) -> None:
        """Copy the network's current weights to the target network."""

    def values(self, features: NDArray[Any]) -> Vector:
        """Action values, [N, A]."""

    def target_values(self, features: NDArray[Any]) -> Vector:
        """Action values of the target network, [N, A]."""


class DQN(FromReplay):
    """Deep Q-learning: epsilon-greedy actors, and targets from a network that is copied now and then."""

    updater: Updater
    config: DQNConfig

    def __init__(
        self, updater: Updater, describe: EnvDescription, config: DQNConfig, environments: int, seed: int, group: int = 0
    ) -> None:
        super().__init__(updater, describe, config, environments, seed, group)
        self._copied_at = 0

    @staticmethod
    def explorer(config: TrainConfig, network: Any) -> Explore:
        """Epsilon-greedy explorer: the action of the highest value, or a random one with a falling probability."""
        everybody, score = config.environments // config.envs_per_actor, network.scores

        def mostly_greedy(
            blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int
        ) -> NDArray[np.int64]:
            # An actor's own steps show how far all actors are, so the schedule needs no message.
            return epsilon_greedy(score(blocks, x), noise, epsilon(config.dqn, steps * everybody))

        return mostly_greedy

    def begin_round(self, steps: int) -> None:
        """Copy the target network if that is due."""
        if steps - self._copied_at >= self.config.target_every_steps:
            self.updater.copy_to_target()
            self._copied_at = steps

    def measured(self, batch: Regression) -> dict[str, float]:
        """Mean Huber loss, and mean value of the actions taken, of a minibatch under the present weights."""
        values = self.updater.values(batch.features)[np.arange(len(batch.action)), batch.action]
        error, delta = np.abs(values - batch.target), self.config.huber_delta
        huber = np.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta))
        return {"loss": float(huber.mean()), "mean_value": float(values.mean())}

    def state(self, *, replay: bool = True) -> State:
        state = super().state(replay=replay)
        state.values["copied_at"] = self._copied_at
        return state

    def restore(self, state: State) -> None:
        super().restore(state)
        self._copied_at = state.values["copied_at"]

    def minibatches(self, count: int) -> Iterator[Regression]:
        """Minibatches drawn with replacement, with their targets."""
        size = self.config.batch_size
        drawn = self.drawn(count)
        parts = [slice(start, start + size) for start in range(0, size * count, size)]
        if self.config.double:
            # The best actions change with every optimizer step.
            for rows in parts:
                yield self.regression({name: column[rows] for name, column in drawn.items()})
            return
        # The target network does not change during a round, so one pass serves many minibatches. The next pass begins while
        # the learner trains on those of the last one.
        each = count if self.updater.together is None else -(-self.updater.together // size)
        helper, weights = self.updater.helper, len(self.updater.weights())
        begin = Later if helper is None or each * size * weights < WORTH else helper.do
        blocks = [slice(start * size, (start + each) * size) for start in range(0, count, each)]
        passes = (begin(partial(self.regression, {name: c[rows] for name, c in drawn.items()})) for rows in blocks)
        following: Later[Regression] | None = next(passes)
        while following is not None:
            block, following = following.result(), next(passes, None)
            for rows in parts[: len(block.action) // size]:
                yield Regression(block.features[rows], block.action[rows], block.target[rows])

    def regression(self, transitions: dict[str, NDArray[Any]]) -> Regression:
        """Transitions with their one-step targets under the target network.

        The target uses the next action that the target network values most. Double DQN uses the one that the current network
        values most (van Hasselt et al., 2016, arXiv 1509.06461, equation 4).
        """
        following = self.describe.encode(transitions["next_observation"])
        values = self.updater.target_values(following)
        if self.config.double:
            best = values[np.arange(len(values)), self.updater.values(following).argmax(axis=1)]
        else:
            best = values.max(axis=1)
        future = np.where(transitions["terminated"], np.float32(0), np.float32(self.config.gamma) * best)
        return Regression(
            self.describe.encode(transitions["observation"]), transitions["action"], transitions["reward"] + future
        )


def epsilon(config: DQNConfig, steps: int) -> float:
    """Share of random actions after `steps` environment steps, summed over actors."""
    share = min(1.0, steps / config.epsilon_steps)
    return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)


def epsilon_greedy(values: Vector, noise: NDArray[np.float64], epsilon: float) -> NDArray[np.int64]:
    """Greedy actions [B], or uniform ones with probability epsilon.

    Parameters
    ----------
    values : [B, A]
    noise : [B, 2]
        uniform on [0, 1). The first column decides whether to explore, the second selects the random action.
    """
    greedy, anything = values.argmax(axis=1), (noise[:, 1] * values.shape[1]).astype(np.int64)
    action: NDArray[np.int64] = np.where(noise[:, 0] < epsilon, anything, greedy)
    return action
