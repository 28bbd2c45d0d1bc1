"""PPO (Schulman et al., 2017, arXiv 1707.06347): what an update round computes, from chunks to new weights.

The loss is written once as torch reads it (`tianji.algorithms.ppo_torch.loss`), which is also what the tests trust, and
once with its gradient derived by hand for multilayer perceptrons on a CPU (`tianji.algorithms.ppo_numpy`), which is
several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms import schedules, vtrace
from tianji.algorithms.flat import Vector
from tianji.algorithms.returns import generalised_advantages
from tianji.algorithms.rollouts import (
    Kernel,
    Rollouts,
    Views,
    beside,
    following,
    log_probabilities,
    observations,
    padded,
)
from tianji.algorithms.state import State, of_generator, restore_generator
from tianji.config import PPOConfig
from tianji.envs import EnvDescription
from tianji.seeds import Stream

ADVANTAGE_EPSILON = 1e-8


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
    seed, group
        of the minibatch order.
    """

    reuses: Literal[False] = False

    def __init__(
        self, kernel: Kernel, describe: EnvDescription, config: PPOConfig, horizon_steps: int, seed: int, group: int = 0
    ) -> None:
        self.kernel = kernel
        self.describe = describe
        self.config = config
        self.horizon_steps = horizon_steps
        self._rng = seeds.generator(seed, Stream.MINIBATCHES, group)

    def learning_rate(self, steps: int) -> float:
        """The rate for a round whose first transition is environment step `steps`, summed over actors."""
        return schedules.learning_rate(self.config, steps, self.horizon_steps)

    def update(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> int:
        """Train on one round.

        Parameters
        ----------
        chunks
            views by field name (see `tianji.layout.rollout_layout`), in an order that does not depend on timing.
        steps
            environment steps, summed over actors, before this round.
        stale
            whether some behaviour policy may be older than the kernel's weights: then `assess_stale` corrects for it.

        Returns
        -------
        int
            optimizer steps done.
        """
        if stale:
            return self.train(assess_stale(chunks, self.kernel.both, self.describe, self.config), steps)
        return self.train(self.prepare(chunks), steps)

    def train(self, batch: Rollouts, steps: int) -> int:
        """Train on a batch that is ready for the loss, and return the optimizer steps done; `steps` as for `update`."""
        rate = self.learning_rate(steps)
        done = 0
        for minibatch in self.minibatches(batch):
            self.kernel.step(minibatch, rate)
            done += 1
        return done

    def state(self, *, replay: bool = True) -> State:
        """All that the next rounds follow from."""
        return State(self.kernel.state(), {"rng": of_generator(self._rng)})

    def restore(self, state: State) -> None:
        """Go on where another one was."""
        self.kernel.restore(state.arrays)
        restore_generator(self._rng, state.values["rng"])

    def prepare(self, chunks: Sequence[Views]) -> Rollouts:
        """The batch of a round's chunks, assessed under the kernel's weights."""
        return assess(chunks, self.kernel.values, self.describe, self.config)

    def minibatches(self, batch: Rollouts) -> Iterator[Rollouts]:
        """Every transition once an epoch, in a fresh random order; a last short minibatch is kept.

        A minibatch that is the whole batch needs no order: a mean does not depend on it.
        """
        size, finish = self.config.minibatch_size, normalise if self.config.normalise_advantages else _as_it_is
        if self.config.value_clip is None:
            batch = replace(batch, value=None)  # Then no minibatch gathers it.
        if size >= len(batch):
            yield from repeat(finish(batch), self.config.epochs)
            return
        for _ in range(self.config.epochs):
            order = self._rng.permutation(len(batch))
            for start in range(0, len(batch), size):
                yield finish(batch.take(order[start : start + size]))


def assess(
    chunks: Sequence[Views],
    values_of: Callable[[NDArray[Any]], Vector],
    describe: EnvDescription,
    config: PPOConfig,
) -> Rollouts:
    """Advantages and value targets of chunks that lie side by side in time.

    Rows come in order of (step, environment) over all chunks, so the batch is the same, to the bit, however the
    environments were dealt out to actors.

    Parameters
    ----------
    values_of
        from features [N, ...] to state values [N].
    """
    action, terminated, truncated = (beside(chunks, name) for name in ("action", "terminated", "truncated"))
    t, b = action.shape
    features, finals = observations(chunks, describe)
    value = values_of(padded(features))[: len(features)].reshape(t + 1, b)
    of_finals = values_of(padded(finals))[: len(finals)] if len(finals) else np.zeros(0, np.float32)
    advantage = generalised_advantages(
        beside(chunks, "reward"),
        value[:-1],
        following(value, truncated, of_finals),
        terminated,
        truncated,
        config.gamma,
        config.gae_lambda,
    )
    return Rollouts(
        features[: t * b],
        action.reshape(-1),
        beside(chunks, "log_probability").reshape(-1),
        advantage.reshape(-1),
        (advantage + value[:-1]).reshape(-1),
        value[:-1].reshape(-1),
    )


def assess_stale(
    chunks: Sequence[Views],
    both: Callable[[NDArray[Any]], tuple[Vector, Vector]],
    describe: EnvDescription,
    config: PPOConfig,
) -> Rollouts:
    """The batch of chunks whose behaviour policies mu are older than the policy pi that is to be trained.

    This rule is the project's own. With X = v - V of V-trace (rho-bar = c-bar = 1, lambda = `gae_lambda`) under pi, an
    action's advantage is A_t = delta_t + gamma lambda X_{t+1}: later actions count as far as pi would have taken them. The
    action's own weight is the ratio in PPO's loss, which stays pi / mu and is clipped around mu. A value target is
    V + X. Without lag pi = mu, and this is `assess`.

    Parameters
    ----------
    both
        from features [N, ...] to logits [N, A] and state values [N] under pi.
    """
    action, terminated, truncated = (beside(chunks, name) for name in ("action", "terminated", "truncated"))
    t, b = action.shape
    features, finals = observations(chunks, describe)
    logits, values = (output[: len(features)] for output in both(padded(features)))
    of_finals = both(padded(finals))[1][: len(finals)] if len(finals) else np.zeros(0, np.float32)
    value = values.reshape(t + 1, b)
    behaviour, reward = beside(chunks, "log_probability"), beside(chunks, "reward")
    now = log_probabilities(logits[: t * b], action.reshape(-1)).reshape(t, b)
    next_value = following(value, truncated, of_finals)
    gamma, lambda_ = config.gamma, config.gae_lambda
    excess = vtrace.excess(
        reward,
        value[:-1],
        next_value,
        terminated,
        truncated,
        np.exp(now - behaviour),
        gamma=gamma,
        lambda_=lambda_,
        rho_clip=1.0,
        c_clip=1.0,
    )
    advantage = reward + np.float32(gamma) * np.where(terminated, 0, next_value) - value[:-1]
    advantage[:-1] += np.float32(gamma * lambda_) * np.where(terminated[:-1] | truncated[:-1], 0, excess[1:])
    return Rollouts(
        features[: t * b],
        action.reshape(-1),
        behaviour.reshape(-1),
        advantage.reshape(-1),
        (excess + value[:-1]).reshape(-1),
        value[:-1].reshape(-1),
    )


def collate(chunks: Sequence[Views], describe: EnvDescription) -> Rollouts:
    """The batch of chunks that their producers have assessed (fields `advantage`, `value`), to the bit what `assess` gives."""
    action, log_probability, advantage, value = (
        beside(chunks, name).reshape(-1) for name in ("action", "log_probability", "advantage", "value")
    )
    features = observations(chunks, describe)[0][: len(action)]
    return Rollouts(features, action, log_probability, advantage, advantage + value, value)


def normalise(batch: Rollouts) -> Rollouts:
    """The same minibatch with advantages of mean 0 and (population) standard deviation 1."""
    a = batch.advantage
    scaled = (a - a.mean()) / (a.std() + np.float32(ADVANTAGE_EPSILON))
    return Rollouts(batch.features, batch.action, batch.log_probability, scaled, batch.value_target, batch.value)


def _as_it_is(batch: Rollouts) -> Rollouts:
    return batch
