"""DQN (Mnih et al., 2015): what a round of updates computes, from chunks to new weights.

As for PPO, the loss is written as torch reads it (`tianji.algorithms.dqn_torch`) and once with its gradient derived by
hand (`tianji.algorithms.dqn_numpy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.networks import QNetwork, Vector
from tianji.algorithms.replay import Replay, transitions_of
from tianji.config import DQNConfig, TrainConfig
from tianji.envs import EnvDescription


@dataclass
class Regression:
    """A minibatch of N rows: action values to be moved towards targets."""

    features: NDArray[np.float32]
    """[N, F]"""
    action: NDArray[np.int64]
    target: NDArray[np.float32]
    """r + gamma max Q'(s', .), without the second term where the episode terminated."""


class Kernel(Protocol):
    """Holds the weights, the target network's weights and Adam's moments."""

    def weights(self) -> Vector:
        """The flat vector as it stands (not a copy)."""

    def copy_to_target(self) -> None:
        """Let the target network be the network as it stands."""

    def target_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Action values of the target network, [N, A]."""

    def step(self, batch: Regression, learning_rate: float) -> None:
        """One optimizer step on this minibatch."""


def make_kernel(config: TrainConfig, network: QNetwork, weights: Vector) -> Kernel:
    """The fastest kernel that can do what was asked."""
    if config.kernel == "torch" or config.device != "cpu":
        from tianji.algorithms.dqn_torch import TorchKernel

        return TorchKernel(network, config.dqn, weights, config.device)
    from tianji.algorithms.dqn_numpy import NumpyKernel

    return NumpyKernel(network, config.dqn, weights)


class DQN:
    """Keeps the replay and turns each round's chunks into optimizer steps.

    Parameters
    ----------
    kernel
        what computes.
    describe
        the environment, for turning observations into features.
    seed
        of what is drawn from the replay.
    """

    def __init__(self, kernel: Kernel, describe: EnvDescription, config: DQNConfig, seed: int) -> None:
        self.kernel = kernel
        self.describe = describe
        self.config = config
        self.replay = Replay(config.replay_capacity, describe.observation_shape, describe.observation_dtype)
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 0xD91]))
        self._copied_at = 0

    def update(self, chunks: Sequence[dict[str, NDArray[Any]]], steps: int) -> int:
        """Insert a round's chunks, copy the target network if that is due, and train.

        Parameters
        ----------
        chunks
            views by field name (see `tianji.layout.rollout_layout`).
        steps
            environment steps, summed over actors, before this round.

        Returns
        -------
        int
            optimizer steps done: 0 before `learning_starts`.
        """
        for chunk in chunks:
            transitions = transitions_of(chunk)
            self.replay.insert(transitions)
            steps += len(transitions["action"])
        if steps < self.config.learning_starts:
            return 0
        if steps - self._copied_at >= self.config.target_every_steps:
            self.kernel.copy_to_target()
            self._copied_at = steps
        size, count = self.config.batch_size, self.config.updates
        # The target network stays put during a round: one pass over all of its minibatches does for every step.
        drawn = self.draw(size * count)
        for start in range(0, size * count, size):
            rows = slice(start, start + size)
            self.kernel.step(
                Regression(drawn.features[rows], drawn.action[rows], drawn.target[rows]), self.config.learning_rate
            )
        return count

    def draw(self, count: int) -> Regression:
        """Rows drawn uniformly, with replacement, and their targets."""
        return self.regression(self.replay.take(self._rng.integers(0, self.replay.size, count)))

    def regression(self, transitions: dict[str, NDArray[Any]]) -> Regression:
        """Transitions with their one-step targets under the target network."""
        best = self.kernel.target_values(self.describe.encode(transitions["next_observation"])).max(axis=1)
        future = np.where(transitions["terminated"], np.float32(0), np.float32(self.config.gamma) * best)
        return Regression(
            self.describe.encode(transitions["observation"]), transitions["action"], transitions["reward"] + future
        )


def epsilon(config: DQNConfig, steps: int) -> float:
    """Share of random actions after `steps` environment steps, summed over actors."""
    share = min(1.0, steps / config.epsilon_steps)
    return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)
