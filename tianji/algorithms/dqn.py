"""DQN (Mnih et al., 2015): what a round of updates computes, from chunks to new weights.

As for PPO, the loss is written as torch reads it (`tianji.algorithms.dqn_torch`) and once with its gradient derived by
hand (`tianji.algorithms.dqn_numpy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms.flat import Vector
from tianji.algorithms.replay import Experience, Replay
from tianji.algorithms.state import Arrays, State, named, of_generator, part, restore_generator
from tianji.config import DQNConfig
from tianji.envs import EnvDescription
from tianji.seeds import Stream

DRAWN_BYTES = 16 * 2**20
"""Of the observations that are drawn from the replay at a time."""


@dataclass
class Regression:
    """A minibatch of N rows: action values to be moved towards targets."""

    features: NDArray[Any]
    """Encoded observations, [N, ...]."""
    action: NDArray[np.int64]
    target: NDArray[np.float32]
    """r + gamma Q'(s', a'), without the second term where the episode terminated; see `DQN.regression`."""


class Kernel(Protocol):
    """Holds the weights, the target network's weights and Adam's moments."""

    def weights(self) -> Vector:
        """The flat vector as it stands (not a copy)."""

    def state(self) -> Arrays:
        """The weights, what the optimizer keeps, and a target network: arrays that may change with the next step."""

    def restore(self, arrays: Arrays) -> None:
        """Set what `state` gave."""

    def load(self, weights: Vector) -> None:
        """Set the weights, in place; the target network and Adam's moments stay."""

    def copy_to_target(self) -> None:
        """Let the target network be the network as it stands."""

    def values(self, features: NDArray[Any]) -> Vector:
        """Action values, [N, A]."""

    def target_values(self, features: NDArray[Any]) -> Vector:
        """Action values of the target network, [N, A]."""

    def step(self, batch: Regression, learning_rate: float) -> None:
        """One optimizer step on this minibatch."""


class DQN:
    """Keeps the replay and makes rounds of optimizer steps on it.

    Parameters
    ----------
    kernel
        what computes.
    describe
        the environment, for turning observations into features.
    environments
        whose experience is inserted, over all producers.
    seed, group
        of what is drawn from the replay.
    """

    reuses: Literal[True] = True

    def __init__(
        self, kernel: Kernel, describe: EnvDescription, config: DQNConfig, environments: int, seed: int, group: int = 0
    ) -> None:
        self.kernel = kernel
        self.describe = describe
        self.config = config
        self.replay = Replay(
            config.replay_capacity, environments, describe.observation_shape, describe.observation_dtype, describe.stack
        )
        self.inserted = 0
        """Environment steps."""
        self._rng = seeds.generator(seed, Stream.REPLAY, group)
        self._copied_at = 0

    def insert(self, chunks: Sequence[Experience]) -> None:
        """Add chunks to the replay, each producer's in the order in which it made them."""
        for chunk in chunks:
            self.replay.insert(chunk)
            self.inserted += chunk.views["action"].size

    def train(self, steps: int) -> int:
        """One round: copy the target network if that is due, then `updates` optimizer steps.

        Parameters
        ----------
        steps
            environment steps that were inserted by now, summed over actors (a run that was resumed counts on).

        Returns
        -------
        int
            optimizer steps done: 0 while fewer than `learning_starts` steps were inserted.
        """
        if self.inserted < self.config.learning_starts:
            return 0
        if steps - self._copied_at >= self.config.target_every_steps:
            self.kernel.copy_to_target()
            self._copied_at = steps
        left = self.config.updates
        together = max(1, DRAWN_BYTES // (self.config.batch_size * self.replay.drawn_bytes))
        while left:
            count = min(left, together)
            for batch in self._minibatches(count):
                self.kernel.step(batch, self.config.learning_rate)
            left -= count
        return self.config.updates

    def state(self, *, replay: bool = True) -> State:
        """All that the next rounds follow from; without its replay a restored one has to fill it anew."""
        values = {"rng": of_generator(self._rng), "copied_at": self._copied_at, "inserted": self.inserted if replay else 0}
        arrays = self.kernel.state()
        return State(arrays | named("replay", self.replay.state()) if replay else arrays, values)

    def restore(self, state: State) -> None:
        """Go on where another one was.

        Raises
        ------
        ValueError
            when the replay is of other sizes.
        """
        self.kernel.restore(state.arrays)
        restore_generator(self._rng, state.values["rng"])
        self._copied_at, self.inserted = state.values["copied_at"], state.values["inserted"]
        if kept := part(state.arrays, "replay"):
            self.replay.restore(kept)

    def _minibatches(self, count: int) -> Iterator[Regression]:
        """Minibatches of rows drawn uniformly, with replacement, and their targets."""
        size = self.config.batch_size
        drawn = self.replay.draw(self._rng, size * count)
        parts = [slice(start, start + size) for start in range(0, size * count, size)]
        if self.config.double:
            # Which actions are best changes with every step.
            for rows in parts:
                yield self.regression({name: column[rows] for name, column in drawn.items()})
            return
        # The target network stays put during a round: one pass over all minibatches does for every step.
        whole = self.regression(drawn)
        for rows in parts:
            yield Regression(whole.features[rows], whole.action[rows], whole.target[rows])

    def regression(self, transitions: dict[str, NDArray[Any]]) -> Regression:
        """Transitions with their one-step targets under the target network.

        Its values are of the actions that it holds to be the best or, where DQN is double, of those that the network as
        it stands does (van Hasselt et al., 2016, arXiv 1509.06461, equation 4).
        """
        following = self.describe.encode(transitions["next_observation"])
        values = self.kernel.target_values(following)
        if self.config.double:
            best = values[np.arange(len(values)), self.kernel.values(following).argmax(axis=1)]
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
