"""Base classes of algorithms: those that learn from rollouts, and those that learn from a replay.

An algorithm holds an updater, and the updater holds the weights. An algorithm that learns *from rollouts* uses each chunk in
one round: it takes a round of chunks and does optimizer steps. An algorithm that learns *from a replay* keeps chunks. Inserting
and training are separate calls, and the caller decides the ratio between them.

Both work in *slices*: a generator yields about once per optimizer step, so that its caller can look for new messages, and
returns when the work is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.distributions import Categorical
from tianji.algorithms.flat import Vector
from tianji.algorithms.replay import Experience
from tianji.algorithms.state import Arrays, State
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.hyperparameters import PolicyGradientConfig
from tianji.layout import Views

T = TypeVar("T")
B = TypeVar("B", contravariant=True)
Slices = Generator[None, None, T]
"""Work that is done in slices and returns a T."""


def complete(slices: Slices[T]) -> T:
    """Run all slices without a pause, and return the result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


class Updater(Protocol[B]):
    """Holder of the weights and of Adam's moments that does optimizer steps on batches of type B."""

    def weights(self) -> Vector:
        """The current flat vector, not a copy."""

    def load(self, weights: Vector) -> None:
        """Set the weights in place. Adam's moments and a target network stay unchanged."""

    def sound(self) -> bool:
        """Whether the weights and the norms of all gradients so far are finite."""

    def state(self) -> Arrays:
        """The weights, the moments and a target network. The next step may change these arrays."""

    def restore(self, arrays: Arrays) -> None:
        """Restore what `state` returned."""

    def step(self, batch: B, learning_rate: float) -> None:
        """One optimizer step on this batch."""

    def accumulate(self, batch: B, weight: float) -> None:
        """Add `weight` times the gradient of this batch's loss to the gradient that `apply` uses.

        The loss is a mean over rows. So the pieces of a batch give its gradient if each is weighted by its share of the rows.
        The accumulated gradient is not part of the state.
        """

    def apply(self, learning_rate: float) -> None:
        """Do one optimizer step on the accumulated gradient, and clear it. `RuntimeError` if there is none."""


Explore = Callable[[Vector, NDArray[np.float64], int, Views, int], NDArray[np.int64]]
"""Function by which actors choose actions: (scores [B, A], noise [B, 2], steps of this actor, the chunk, t) -> actions [B].

It also writes the fields of the chunk that only it knows, such as log-probabilities."""


class Restorable(ABC):
    """Object whose state can be stored between two calls and restored later."""

    @abstractmethod
    def state(self, *, replay: bool = True) -> State:
        """The complete state, with the contents of a replay if `replay` is set. Arrays are not copied."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Continue from the state of another object. `ValueError` if its sizes differ."""


class FromRollouts(Restorable):
    """Algorithm that trains on each chunk in one round.

    Parameters
    ----------
    updater
        computes the optimizer steps.
    describe
        describes the environment, to turn observations into features.
    horizon_steps
        end of a linear learning-rate schedule, in environment steps.
    """

    updater: Updater[Any]
    config: PolicyGradientConfig

    replays: ClassVar[Literal[False]] = False

    def __init__(self, updater: Any, describe: EnvDescription, config: Any, horizon_steps: int) -> None:
        self.updater, self.describe, self.config, self.horizon_steps = updater, describe, config, horizon_steps

    @staticmethod
    def explorer(config: TrainConfig) -> Explore:
        """Explorer that draws actions from the policy and records their log-probabilities."""

        def by_probability(scores: Vector, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.int64]:
            action, views["log_probability"][t] = Categorical.sample(scores, noise[:, :1])
            return action

        return by_probability

    @abstractmethod
    def updates(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> Slices[int]:
        """Train on one round in slices, and return the number of optimizer steps.

        Parameters
        ----------
        chunks
            in an order that does not depend on timing. Some may have fewer steps than others.
        steps
            environment steps before this round, summed over actors.
        stale
            whether some chunk may come from an older policy than the updater's weights.
        """

    def update(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> int:
        """Do all of `updates` without a pause."""
        return complete(self.updates(chunks, steps, stale=stale))

    def learning_rate(self, steps: int) -> float:
        """Learning rate of a round that starts at environment step `steps`, summed over actors."""
        return self.config.rate(steps, self.horizon_steps)

    def state(self, *, replay: bool = True) -> State:
        return State(self.updater.state())

    def restore(self, state: State) -> None:
        self.updater.restore(state.arrays)


class OneStep(FromRollouts):
    """Makes one optimizer step a round, on the mean of a loss over all of its rows."""

    @abstractmethod
    def prepare(self, chunks: Sequence[Views]) -> Any:
        """The batch of some chunks, under the updater's weights."""

    def updates(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> Slices[int]:
        """Train on one round. Whether chunks are stale makes no difference: the algorithm corrects for all."""
        self.updater.step(self.prepare(chunks), self.learning_rate(steps))
        yield
        return 1

    def part(self, chunks: Sequence[Views], steps: int, share: float, *, last: bool) -> Slices[int]:
        """Add a part of a round to its gradient; after the last one make the step.

        Parameters
        ----------
        share
            of the round's rows that this part has.
        """
        self.updater.accumulate(self.prepare(chunks), share)
        yield
        if last:
            self.updater.apply(self.learning_rate(steps))
        return int(last)


class FromReplay(Restorable):
    """Algorithm that keeps chunks in a replay and trains on transitions drawn from it."""

    replays: ClassVar[Literal[True]] = True
    updater: Updater[Any]

    @abstractmethod
    def insert(self, chunks: Sequence[Experience]) -> None:
        """Copy these chunks into the replay. Those of one producer must come in the order in which it made them."""

    @abstractmethod
    def training(self, steps: int) -> Slices[int]:
        """Do one round of optimizer steps in slices, and return their number: 0 while the replay holds too little.

        Parameters
        ----------
        steps
            environment steps inserted so far, summed over actors. A resumed run continues the count.
        """

    def train(self, steps: int) -> int:
        """Do all of `training` without a pause."""
        return complete(self.training(steps))


Algorithm = FromRollouts | FromReplay
