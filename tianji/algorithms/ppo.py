"""PPO (Schulman et al., 2017, arXiv 1707.06347): what an update round computes, from chunks to new weights.

The loss is written once as torch reads it (`loss`), which is also what the tests trust, and once with its gradient
derived by hand for multilayer perceptrons on a CPU (`tianji.algorithms.ppo_numpy`), which is several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.networks import ActorCritic, Vector
from tianji.algorithms.returns import generalised_advantages
from tianji.config import PPOConfig, TrainConfig
from tianji.envs import EnvDescription

ADVANTAGE_EPSILON = 1e-8
ROWS_TOGETHER = 8
"""More than BLAS takes at a time (4 on the machines that were looked at)."""


@dataclass
class Rollouts:
    """A batch of N transitions, ready for the loss."""

    features: NDArray[np.float32]
    """[N, F]"""
    action: NDArray[np.int64]
    log_probability: NDArray[np.float32]
    """Under the behaviour policy, [N]."""
    advantage: NDArray[np.float32]
    value_target: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: NDArray[np.int64]) -> Rollouts:
        return Rollouts(
            self.features[rows], self.action[rows], self.log_probability[rows], self.advantage[rows], self.value_target[rows]
        )


class Kernel(Protocol):
    """Holds the weights and Adam's moments, and does one optimizer step at a time."""

    def weights(self) -> Vector:
        """The flat vector as it stands (not a copy)."""

    def values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """State values [N]."""

    def step(self, batch: Rollouts, learning_rate: float) -> None:
        """One optimizer step on this minibatch."""


def make_kernel(config: TrainConfig, network: ActorCritic, weights: Vector) -> Kernel:
    """The fastest kernel that can do what was asked."""
    if config.kernel == "torch" or config.device != "cpu":
        from tianji.algorithms.ppo_torch import TorchKernel

        return TorchKernel(network, config.ppo, weights, config.device)
    from tianji.algorithms.ppo_numpy import NumpyKernel

    return NumpyKernel(network, config.ppo, weights)


class PPO:
    """Turns the chunks of one round into optimizer steps.

    Parameters
    ----------
    kernel
        what computes.
    describe
        the environment, for turning observations into features.
    horizon_steps
        where a linear learning-rate schedule reaches zero.
    seed
        of the minibatch order.
    """

    def __init__(self, kernel: Kernel, describe: EnvDescription, config: PPOConfig, horizon_steps: int, seed: int) -> None:
        self.kernel = kernel
        self.describe = describe
        self.config = config
        self.horizon_steps = horizon_steps
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 0x990]))

    def learning_rate(self, steps: int) -> float:
        """The rate for a round whose first transition is environment step `steps`, summed over actors."""
        if self.config.learning_rate_schedule == "constant":
            return self.config.learning_rate
        return self.config.learning_rate * max(0.0, 1.0 - steps / self.horizon_steps)

    def update(self, chunks: Sequence[dict[str, NDArray[Any]]], steps: int) -> int:
        """Train on one round.

        Parameters
        ----------
        chunks
            views by field name (see `tianji.layout.rollout_layout`), in an order that does not depend on timing.
        steps
            environment steps, summed over actors, before this round.

        Returns
        -------
        int
            optimizer steps done.
        """
        return self.train(self.prepare(chunks), steps)

    def train(self, batch: Rollouts, steps: int) -> int:
        """Train on a batch that is ready for the loss, and return the optimizer steps done; `steps` as for `update`."""
        rate = self.learning_rate(steps)
        done = 0
        for minibatch in self.minibatches(batch):
            self.kernel.step(minibatch, rate)
            done += 1
        return done

    def prepare(self, chunks: Sequence[dict[str, NDArray[Any]]]) -> Rollouts:
        """The batch of a round's chunks, assessed under the kernel's weights."""
        return assess(chunks, self.kernel.values, self.describe, self.config)

    def minibatches(self, batch: Rollouts) -> Iterator[Rollouts]:
        """Every transition once an epoch, in a fresh random order; a last short minibatch is kept.

        A minibatch that is the whole batch needs no order: a mean does not depend on it.
        """
        size, finish = self.config.minibatch_size, normalise if self.config.normalise_advantages else _as_it_is
        if size >= len(batch):
            yield from repeat(finish(batch), self.config.epochs)
            return
        for _ in range(self.config.epochs):
            order = self._rng.permutation(len(batch))
            for start in range(0, len(batch), size):
                yield finish(batch.take(order[start : start + size]))


def assess(
    chunks: Sequence[dict[str, NDArray[Any]]],
    values_of: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    describe: EnvDescription,
    config: PPOConfig,
) -> Rollouts:
    """Advantages and value targets of chunks that lie side by side in time.

    Rows come in order of (step, environment) over all chunks, so the batch is the same, to the bit, however the
    environments were dealt out to actors.

    Parameters
    ----------
    values_of
        from features [N, F] to state values [N].
    """
    action, terminated, truncated = (_beside(chunks, name) for name in ("action", "terminated", "truncated"))
    t, b = action.shape
    features = describe.encode(_beside(chunks, "observation").reshape((t + 1) * b, *describe.observation_shape))
    values = _each_row_alike(values_of, features).reshape(t + 1, b)
    value, next_value = values[:-1], values[1:]
    if truncated.any():
        next_value = next_value.copy()
        next_value[truncated] = _each_row_alike(values_of, describe.encode(final_observations(chunks)))
    advantage = generalised_advantages(
        _beside(chunks, "reward"), value, next_value, terminated, truncated, config.gamma, config.gae_lambda
    )
    return Rollouts(
        features[: t * b],
        action.reshape(-1),
        _beside(chunks, "log_probability").reshape(-1),
        advantage.reshape(-1),
        (advantage + value).reshape(-1),
    )


def collate(chunks: Sequence[dict[str, NDArray[Any]]], describe: EnvDescription) -> Rollouts:
    """The batch of chunks that their producers have assessed (fields `advantage`, `value_target`); rows as in `assess`."""
    observation = _beside([{"observation": chunk["observation"][:-1]} for chunk in chunks], "observation")
    t, b = observation.shape[:2]
    return Rollouts(
        describe.encode(observation.reshape(t * b, *describe.observation_shape)),
        *(_beside(chunks, name).reshape(-1) for name in ("action", "log_probability", "advantage", "value_target")),
    )


def _each_row_alike(
    values_of: Callable[[NDArray[np.float32]], NDArray[np.float32]], features: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Values of rows [N, F] whose bits do not depend on which other rows are asked for with them.

    BLAS multiplies by a vector several rows at a time, and sums the rows that are left over in another order.
    """
    rows = -(-len(features) // ROWS_TOGETHER) * ROWS_TOGETHER
    if rows == len(features):
        return values_of(features)
    padded = np.zeros((rows, features.shape[1]), np.float32)
    padded[: len(features)] = features
    return values_of(padded)[: len(features)]


def _beside(chunks: Sequence[dict[str, NDArray[Any]]], name: str) -> NDArray[Any]:
    """One field of all chunks, [T, B of all]."""
    return chunks[0][name] if len(chunks) == 1 else np.concatenate([chunk[name] for chunk in chunks], axis=1)


def normalise(batch: Rollouts) -> Rollouts:
    """The same minibatch with advantages of mean 0 and (population) standard deviation 1."""
    a = batch.advantage
    scaled = (a - a.mean()) / (a.std() + np.float32(ADVANTAGE_EPSILON))
    return Rollouts(batch.features, batch.action, batch.log_probability, scaled, batch.value_target)


def _as_it_is(batch: Rollouts) -> Rollouts:
    return batch


def final_observations(chunks: Sequence[dict[str, NDArray[Any]]]) -> NDArray[Any]:
    """Last observations of truncated episodes over all chunks, in order of (step, environment)."""
    places, rows, first = [], [], 0
    for chunk in chunks:
        step, environment = np.nonzero(chunk["truncated"])
        places.append(np.stack([step, environment + first]))
        rows.append(chunk["final_observation"][: len(step)])
        first += chunk["truncated"].shape[1]
    step, environment = np.concatenate(places, axis=1)
    return np.concatenate(rows)[np.lexsort((environment, step))]
