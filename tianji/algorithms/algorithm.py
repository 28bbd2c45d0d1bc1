"""The two shapes of an algorithm, and which class is of which.

An algorithm holds a kernel, which holds the weights. *On-policy* ones use each chunk once: a round of chunks goes in,
optimizer steps come out. *Replaying* ones keep chunks: inserting and training are calls of their own, and whoever calls
decides how much of one there is for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from tianji.algorithms import dqn, impala, kernels, networks, ppo
from tianji.algorithms.flat import Vector
from tianji.algorithms.replay import Experience
from tianji.algorithms.rollouts import Views
from tianji.algorithms.state import State
from tianji.config import TrainConfig
from tianji.envs import EnvDescription

__all__ = ["Algorithm", "Experience", "OnPolicy", "Replaying", "Views", "Weights", "make"]


class Weights(Protocol):
    """What everybody may ask of a kernel."""

    def weights(self) -> Vector:
        """The flat vector as it stands (not a copy)."""

    def load(self, weights: Vector) -> None:
        """Set the weights, in place; Adam's moments, and a target network, stay as they are."""


class Restorable(Protocol):
    """What can be stored between two calls, and go on from there."""

    def state(self, *, replay: bool = True) -> State:
        """All that follows from what came so far; of a replay only if that is wanted. Arrays are not copied."""

    def restore(self, state: State) -> None:
        """Go on where another one was; `ValueError` where that had other sizes."""


class OnPolicy(Restorable, Protocol):
    """Trains on each chunk once."""

    reuses: Literal[False]

    @property
    def kernel(self) -> Weights: ...

    def update(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> int:
        """Train on one round, and return the optimizer steps done.

        Parameters
        ----------
        chunks
            views by field name, in an order that does not depend on timing.
        steps
            environment steps, summed over actors, before this round.
        stale
            whether some chunk's policy may be older than the kernel's weights.
        """


class Replaying(Restorable, Protocol):
    """Keeps chunks, and trains on what it draws from them."""

    reuses: Literal[True]

    @property
    def kernel(self) -> Weights: ...

    def insert(self, chunks: Sequence[Experience]) -> None:
        """Keep these chunks (copies of them), each producer's in the order in which it made them."""

    def train(self, steps: int) -> int:
        """Make one round of optimizer steps, and return how many: 0 while too little was inserted.

        Parameters
        ----------
        steps
            environment steps that were inserted by now, summed over actors.
        """


Algorithm = OnPolicy | Replaying


def make(config: TrainConfig, describe: EnvDescription, group: int = 0) -> Algorithm:
    """The algorithm of one group. Initial weights follow from the seed, and are those of every group.

    Raises
    ------
    ConfigError
        when the network cannot see this environment, or the kernel that is asked for cannot compute it.
    """
    network = networks.build(config.network, describe.features, describe.actions)
    kernel = kernels.make(config, network, network.initialise(config.seed))
    match config.algo:
        case "dqn":
            return dqn.DQN(kernel, describe, config.dqn, config.actors * config.envs_per_actor, config.seed, group)
        case "impala":
            return impala.IMPALA(kernel, describe, config.impala, config.horizon_steps)
        case "ppo":
            return ppo.PPO(kernel, describe, config.ppo, config.horizon_steps, config.seed, group)
