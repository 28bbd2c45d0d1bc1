"""PPO (Schulman et al., 2017, arXiv 1707.06347): one round of updates, from chunks to new weights.

The loss is written twice. `tianji.algorithms.ppo_torch.loss` is the reference for the tests. `tianji.algorithms.ppo_numpy` has
a hand-derived gradient for multilayer perceptrons on a CPU and is several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms import vtrace
from tianji.algorithms.base import FromRollouts, Slices
from tianji.algorithms.flat import Vector
from tianji.algorithms.metrics import of_policy
from tianji.algorithms.rollouts import Both, Fragment, Rollouts, Updater, by_length, padded
from tianji.algorithms.state import State
from tianji.algorithms.vtrace import generalised_advantages
from tianji.config import PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import Views
from tianji.seeds import Stream

ADVANTAGE_EPSILON = 1e-8


class PPO(FromRollouts):
    """Proximal policy optimisation: several epochs of shuffled minibatches per round.

    Parameters
    ----------
    seed, group
        seed the order of minibatches.
    round_rows
        rows of a usual round. A round of another size is divided into minibatches of equal size, as near to the setting as
        possible. None: all minibatches have the size that the settings say, but for a smaller last one.
    """

    updater: Updater
    config: PPOConfig

    def __init__(
        self,
        updater: Updater,
        describe: EnvDescription,
        config: PPOConfig,
        horizon_steps: int,
        seed: int,
        group: int = 0,
        round_rows: int | None = None,
    ) -> None:
        super().__init__(updater, describe, config, horizon_steps)
        self._round_rows = round_rows
        self._rng = seeds.generator(seed, Stream.MINIBATCHES, group)

    @classmethod
    def of(cls, config: TrainConfig, describe: EnvDescription, updater: Any, group: int) -> PPO:
        return cls(updater, describe, config.ppo, config.horizon_steps, config.seed, group, config.round_steps)

    def updates(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> Slices[int]:
        """Train on one round. If `stale` is set, `assess_stale` corrects for older behaviour policies."""
        if stale:
            return self.training(assess_stale(chunks, self.updater.both, self.describe, self.config), steps)
        return self.training(self.prepare(chunks), steps)

    def training(self, batch: Rollouts, steps: int) -> Slices[int]:
        """Train on a batch that is ready for the loss, and return the number of optimizer steps; `steps` as for `updates`."""
        rate = self.learning_rate(steps)
        done = 0
        for minibatch in self.minibatches(replace(batch, features=self.updater.place(batch.features))):
            self.updater.step(minibatch, rate)
            done += 1
            yield
        self.measured(done, rate, minibatch)
        return done

    def measured(self, steps: int, rate: float, batch: Rollouts) -> None:
        self.meter.after(steps, rate, lambda: of_policy(self.updater, self.describe.actions, batch, self.config))

    def state(self, *, replay: bool = True) -> State:
        return State(self.updater.state(), {"rng": self._rng.bit_generator.state})

    def restore(self, state: State) -> None:
        super().restore(state)
        self._rng.bit_generator.state = state.values["rng"]

    def prepare(self, chunks: Sequence[Views]) -> Rollouts:
        """Batch of a round's chunks, with advantages under the updater's weights."""
        return assess(chunks, self.updater.values, self.describe, self.config)

    def minibatches(self, batch: Rollouts) -> Iterator[Rollouts]:
        """Minibatches with every transition once per epoch, in a new random order. A last short minibatch is kept.

        A minibatch that is the whole batch is not shuffled, because a mean does not depend on the order.
        """
        size = self._minibatch_size(len(batch))

        def finish(rows: Rollouts) -> Rollouts:
            return weighted(normalise(rows) if self.config.normalise_advantages else rows)

        if self.config.value_clip is None:
            batch = replace(batch, value=None)  # So minibatches do not copy it.
        if size >= len(batch):
            yield from repeat(finish(batch), self.config.epochs)
            return
        for _ in range(self.config.epochs):
            order = self._rng.permutation(len(batch))
            for start in range(0, len(batch), size):
                yield finish(batch.take(order[start : start + size]))

    def _minibatch_size(self, rows: int) -> int:
        size, usual = self.config.minibatch_size, self._round_rows
        if usual is None or rows == usual:
            return size
        # A few rows beyond whole minibatches would be a minibatch of their own, which counts as much as a whole one.
        return -(-rows // max(1, round(rows / size)))


@by_length
def assess(
    chunks: Sequence[Views], values_of: Callable[[NDArray[Any]], Vector], describe: EnvDescription, config: PPOConfig
) -> Rollouts:
    """Batch of chunks, with generalised advantage estimates and value targets.

    Parameters
    ----------
    values_of
        maps features [N, ...] to state values [N].
    """
    seen = Fragment(chunks, describe)
    value, next_value = seen.values(lambda features: values_of(padded(features))[: len(features)])
    columns = (seen.reward, value, next_value, seen.terminated, seen.truncated)
    advantage = generalised_advantages(*columns, config.gamma, config.gae_lambda)
    return seen.batch(seen.behaviour, advantage, advantage + value, value)


@by_length
def assess_stale(chunks: Sequence[Views], both: Both, describe: EnvDescription, config: PPOConfig) -> Rollouts:
    """Batch of chunks whose behaviour policies mu are older than the policy pi that is trained.

    This rule is the project's own. X = v - V is V-trace's correction under pi, with rho-bar = c-bar = 1 and
    lambda = `gae_lambda`. The advantage is A_t = delta_t + gamma lambda X_{t+1}, so that later actions count as much as pi
    would have taken them. The action's own weight is the ratio in PPO's loss, which stays pi / mu and is clipped around mu.
    The value target is V + X. Without lag, pi = mu and the result is that of `assess`.

    With the correction `decoupled` the loss clips around pi, not mu, and the surrogate of each row has the weight pi / mu. For
    a policy p that is trained it is pi / mu min(p / pi A, clip(p / pi) A). Nothing truncates the weight, as in its sources.

    Parameters
    ----------
    both
        gives scores and state values under pi.
    """
    seen, gamma, lambda_ = Fragment(chunks, describe), config.gamma, config.gae_lambda

    def alike(features: NDArray[Any]) -> tuple[Vector, Vector]:
        scores, values = both(padded(features))
        return scores[: len(features)], values[: len(features)]

    now, value, next_value = seen.outputs(alike)
    columns = (seen.reward, value, next_value, seen.terminated, seen.truncated, np.exp(now - seen.behaviour))
    excess = vtrace.excess(*columns, gamma=gamma, lambda_=lambda_, rho_clip=1.0, c_clip=1.0)
    advantage = seen.reward + np.float32(gamma) * np.where(seen.terminated, 0, next_value) - value
    ended = seen.terminated | seen.truncated
    advantage[:-1] += np.float32(gamma * lambda_) * np.where(ended[:-1], 0, excess[1:])
    if config.correction == "decoupled":
        return seen.batch(now, advantage, excess + value, value, np.exp(now - seen.behaviour))
    return seen.batch(seen.behaviour, advantage, excess + value, value)


def normalise(batch: Rollouts) -> Rollouts:
    """The same minibatch with advantages of mean 0 and (population) standard deviation 1."""
    a = batch.advantage
    scaled = (a - a.mean()) / (a.std() + np.float32(ADVANTAGE_EPSILON))
    return replace(batch, advantage=scaled)


def weighted(batch: Rollouts) -> Rollouts:
    """The same minibatch with the rows' weights in their advantages, where the surrogate is linear in both.

    This comes after `normalise`, whose mean and deviation are those of advantages without weights.
    """
    if batch.weight is None:
        return batch
    return replace(batch, advantage=batch.weight * batch.advantage, weight=None)
