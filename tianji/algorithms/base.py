"""Base classes of algorithms: those that learn from rollouts, and those that learn from a replay.

An algorithm holds an updater, and the updater holds the weights. An algorithm that learns *from rollouts* uses each chunk in
one round: it takes a round of chunks and does optimizer steps. An algorithm that learns *from a replay* keeps chunks. Inserting
and training are separate calls, and the caller decides the ratio between them.

Both work in *slices*: a generator yields about once per optimizer step, so that its caller can look for new messages, and
returns when the work is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.distributions import Categorical, from_scores
from tianji.algorithms.flat import Vector, policy_scores
from tianji.algorithms.meter import Meter
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

    def assign(self, blocks: Mapping[str, Vector]) -> None:
        """Set some blocks of the weights in place: those that nothing trains."""

    def norm_sum(self) -> float:
        """Sum of the norms of all gradients so far, before they were clipped."""

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


Explore = Callable[[Mapping[str, Vector], NDArray[Any], NDArray[np.float64], int, Views, int], NDArray[Any]]
"""Function by which actors choose actions: (blocks of the weights, encoded observations [B, ...], noise [B, W], steps of this
actor, the chunk, t) -> actions [B, ...].

It also writes the fields of the chunk that only it knows, such as log-probabilities."""


class Restorable(ABC):
    """Object whose state can be stored between two calls and restored later."""

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, float]:
        """Latest values of what its learner reports, by name (`tianji.algorithms.meter`)."""

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
        self.meter = Meter(updater)

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.meter.values

    @abstractmethod
    def measured(self, steps: int, rate: float, batch: Any) -> None:
        """Note a round of so many optimizer steps, with its last batch. Now and then it is measured."""

    @staticmethod
    def explorer(config: TrainConfig, network: Any) -> Explore:
        """Explorer that draws actions from the policy and records their log-probabilities."""
        actions, score = network.actions, network.scores

        def one_of_some(blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[np.int64]:
            # The usual case, and without what only updates need.
            action, views["log_probability"][t] = Categorical.drawn(score(blocks, x).T, noise[:, 0])
            return action

        def any_action(blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[Any]:
            action, views["log_probability"][t] = from_scores(actions, score(blocks, x)).sample(noise)
            return action

        def by_state(blocks: Any, x: Any, noise: NDArray[np.float64], steps: int, views: Views, t: int) -> NDArray[Any]:
            top = network.latent(blocks, x)
            policy = from_scores(actions, policy_scores(actions, blocks, top))
            matrices = noise.astype(np.float32).reshape(len(top), top.shape[1], actions.parts) * np.exp(
                blocks["policy.log_scale"]
            )
            action: NDArray[Any] = policy.mode() + np.einsum("bl,bld->bd", top, matrices)
            views["log_probability"][t] = policy.log_probability(action)
            return action

        if actions.kind == "discrete":
            return one_of_some
        return by_state if actions.state else any_action

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
        batch, rate = self.prepare(chunks), self.learning_rate(steps)
        self.updater.step(batch, rate)
        self.measured(1, rate, batch)
        yield
        return 1

    def part(self, chunks: Sequence[Views], steps: int, share: float, *, last: bool) -> Slices[int]:
        """Add a part of a round to its gradient; after the last one make the step.

        Parameters
        ----------
        share
            of the round's rows that this part has.
        """
        batch, rate = self.prepare(chunks), self.learning_rate(steps)
        self.updater.accumulate(batch, share)
        yield
        if last:
            self.updater.apply(rate)
            self.measured(1, rate, batch)
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
