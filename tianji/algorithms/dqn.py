"""DQN (Mnih et al., 2015): one round of updates, from chunks to new weights.

As for PPO, the loss is written twice: in torch (`tianji.algorithms.dqn_torch`), and with a hand-derived gradient in NumPy
(`tianji.algorithms.dqn_numpy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms import base
from tianji.algorithms.base import Explore, FromReplay, Slices
from tianji.algorithms.flat import Vector
from tianji.algorithms.meter import Meter
from tianji.algorithms.replay import Experience, Replay
from tianji.algorithms.second_core import WORTH, Helper, Later
from tianji.algorithms.state import State, named, part
from tianji.config import DQNConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import Views
from tianji.seeds import Stream

DRAWN_BYTES = 16 * 2**20
"""Most bytes of observations that are drawn from the replay at a time."""


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
    """Deep Q-learning: keeps the replay, and does rounds of optimizer steps on it.

    Parameters
    ----------
    updater
        computes the optimizer steps.
    describe
        describes the environment, to turn observations into features.
    environments
        number of environments whose experience is inserted, over all producers.
    seed, group
        seed the draws from the replay.
    """

    def __init__(
        self, updater: Updater, describe: EnvDescription, config: DQNConfig, environments: int, seed: int, group: int = 0
    ) -> None:
        self.updater: Updater = updater
        self.describe = describe
        self.config, self.meter = config, Meter(updater)
        self.replay = Replay(config.replay_capacity, environments, describe)
        self.inserted = 0
        """Environment steps inserted so far."""
        self._rng = seeds.generator(seed, Stream.REPLAY, group)
        self._copied_at = 0

    @classmethod
    def of(cls, config: TrainConfig, describe: EnvDescription, updater: Any, group: int) -> DQN:
        return cls(updater, describe, config.dqn, config.actors * config.envs_per_actor, config.seed, group)

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

    def insert(self, chunks: Sequence[Experience]) -> None:
        """Copy chunks into the replay. Those of one producer must come in the order in which it made them."""
        for chunk in chunks:
            self.replay.insert(chunk)
            self.inserted += chunk.views["reward"].size

    def training(self, steps: int) -> Slices[int]:
        """Do one round: copy the target network if that is due, then do `updates` optimizer steps.

        Nothing is done while fewer than `learning_starts` steps were inserted.
        """
        if self.inserted < self.config.learning_starts:
            return 0
        if steps - self._copied_at >= self.config.target_every_steps:
            self.updater.copy_to_target()
            self._copied_at = steps
        left = self.config.updates
        together = max(1, DRAWN_BYTES // (self.config.batch_size * self.replay.drawn_bytes))
        while left:
            count = min(left, together)
            for batch in self._minibatches(count):
                self.updater.step(batch, self.config.learning_rate)
                yield
            left -= count
        self.meter.after(self.config.updates, self.config.learning_rate, lambda: self._measured(batch))
        return self.config.updates

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.meter.values

    def _measured(self, batch: Regression) -> dict[str, float]:
        """Mean Huber loss, and mean value of the actions taken, of a minibatch under the present weights."""
        values = self.updater.values(batch.features)[np.arange(len(batch.action)), batch.action]
        error, delta = np.abs(values - batch.target), self.config.huber_delta
        huber = np.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta))
        return {"loss": float(huber.mean()), "mean_value": float(values.mean())}

    def state(self, *, replay: bool = True) -> State:
        """The complete state. Without the replay, a restored object starts with an empty one."""
        arrays, inserted = self.updater.state(), self.inserted if replay else 0
        values = {"rng": self._rng.bit_generator.state, "copied_at": self._copied_at, "inserted": inserted}
        return State(arrays | named("replay", self.replay.state()) if replay else arrays, values)

    def restore(self, state: State) -> None:
        """Continue from the state of another object.

        Raises
        ------
        ValueError
            if the replay's sizes differ.
        """
        self.updater.restore(state.arrays)
        self._rng.bit_generator.state = state.values["rng"]
        self._copied_at, self.inserted = state.values["copied_at"], state.values["inserted"]
        if kept := part(state.arrays, "replay"):
            self.replay.restore(kept)

    def _minibatches(self, count: int) -> Iterator[Regression]:
        """Minibatches drawn with replacement, with their targets."""
        size = self.config.batch_size
        drawn = self.replay.draw(self._rng, size * count, self.config.recent, self.config.recent_steps)
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
