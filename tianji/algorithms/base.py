"""Base classes of algorithms: those that learn from rollouts, and those that learn from a replay.

An algorithm holds an updater, and the updater holds the weights. An algorithm that learns *from rollouts* uses each chunk in
one round: it takes a round of chunks and does optimizer steps. An algorithm that learns *from a replay* keeps chunks. Inserting
and training are separate calls, and the caller decides the ratio between them.

Both work in *slices*: a generator yields about once per optimizer step, so that its caller can look for new messages, and
returns when the work is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms.distributions import Categorical, from_scores
from tianji.algorithms.flat import Vector, policy_scores
from tianji.algorithms.meter import Meter
from tianji.algorithms.replay import Experience, Replay
from tianji.algorithms.state import Arrays, State, named, part
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.hyperparameters import PolicyGradientConfig
from tianji.layout import Views
from tianji.seeds import Stream

T = TypeVar("T")
B = TypeVar("B", contravariant=True)
Slices = Generator[None, None, T]
"""Work that is done in slices and returns a T."""
DRAWN_BYTES = 16 * 2**20
"""Most bytes of observations that are drawn from a replay at a time."""


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


class Accumulating(Updater[B], Protocol):
    """Updater that can make one step of several batches."""

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

    updater: Accumulating[Any]

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
    """Algorithm that keeps chunks in a replay and trains on transitions drawn from it.

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

    replays: ClassVar[Literal[True]] = True
    updater: Updater[Any]

    def __init__(
        self, updater: Any, describe: EnvDescription, config: Any, environments: int, seed: int, group: int = 0
    ) -> None:
        self.updater, self.describe, self.config, self.meter = updater, describe, config, Meter(updater)
        self.replay = Replay(config.replay_capacity, environments, describe)
        self.inserted = 0
        """Environment steps inserted so far."""
        self._rng = seeds.generator(seed, Stream.REPLAY, group)

    @classmethod
    def of(cls, config: TrainConfig, describe: EnvDescription, updater: Any, group: int) -> Self:
        """The algorithm of a group, with its share of the settings."""
        return cls(updater, describe, config.hyperparameters, config.actors * config.envs_per_actor, config.seed, group)

    def insert(self, chunks: Sequence[Experience]) -> None:
        """Copy these chunks into the replay. Those of one producer must come in the order in which it made them."""
        for chunk in chunks:
            self.replay.insert(chunk)
            self.inserted += chunk.views["reward"].size

    def training(self, steps: int) -> Slices[int]:
        """Do one round of updates in slices, and return their number: 0 while the replay holds less than `learning_starts`.

        Parameters
        ----------
        steps
            environment steps inserted so far, summed over actors. A resumed run continues the count.
        """
        config = self.config
        if self.inserted < config.learning_starts:
            return 0
        self.begin_round(steps)
        left, together = config.updates, max(1, DRAWN_BYTES // (config.batch_size * self.replay.drawn_bytes))
        while left:
            count = min(left, together)
            for batch in self.minibatches(count):
                self.updater.step(batch, config.learning_rate)
                yield
            left -= count
        self.meter.after(config.updates, config.learning_rate, lambda: self.measured(batch))
        return int(config.updates)

    def train(self, steps: int) -> int:
        """Do all of `training` without a pause."""
        return complete(self.training(steps))

    def begin_round(self, steps: int) -> None:
        """Do what is due before a round."""

    @abstractmethod
    def minibatches(self, count: int) -> Iterator[Any]:
        """So many minibatches, drawn with replacement. The updater trains on each before the next is asked for."""

    @abstractmethod
    def measured(self, batch: Any) -> Mapping[str, float]:
        """Metrics of a minibatch under the present weights."""

    def drawn(self, count: int) -> dict[str, NDArray[Any]]:
        """Transitions of so many minibatches."""
        return self.replay.draw(self._rng, self.config.batch_size * count, self.config.recent, self.config.recent_steps)

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.meter.values

    def state(self, *, replay: bool = True) -> State:
        """The complete state. Without the replay, a restored object starts with an empty one."""
        arrays, inserted = self.updater.state(), self.inserted if replay else 0
        values = {"rng": self._rng.bit_generator.state, "inserted": inserted}
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
        self.inserted = state.values["inserted"]
        if kept := part(state.arrays, "replay"):
            self.replay.restore(kept)


Algorithm = FromRollouts | FromReplay
