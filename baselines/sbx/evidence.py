"""Results of SBX's own buffers, losses and optimizer on the certificate's frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax
import torch

from baselines.certificate import Evidence, Frozen, batch_of
from baselines.sb3.evidence import fill_rollouts, samples_of
from baselines.sbx import state, weights
from tianji.algorithms.networks import Vector

MEAN_DECAY = 0.9
"""Of Adam's first moment: after one step it is 1 - 0.9 of the gradient."""


def collect(frozen: Frozen, model: Any) -> Evidence:
    """Evidence of a model that was set up for the workload: one call of its `train` on the frozen batch."""
    state.give(model, frozen.network, frozen.weights)
    return {"ppo": _ppo, "dqn": _dqn, "sac": _sac}[frozen.workload.algo](frozen, model)


def _ppo(frozen: Frozen, model: Any) -> Evidence:
    chunk, buffer = frozen.chunk, model.rollout_buffer

    def values(observation: Any) -> torch.Tensor:
        predicted = model.vf.apply(model.policy.vf_state.params, np.ascontiguousarray(observation)).flatten()
        return torch.as_tensor(np.array(predicted))

    fill_rollouts(chunk, buffer, model.gamma, values)
    advantages = jax.numpy.asarray(buffer.advantages.reshape(-1))
    evidence = {
        "targets": buffer.returns.reshape(-1).copy(),
        "advantages": np.asarray((advantages - advantages.mean()) / (advantages.std() + 1e-8)),
    }
    # The frozen batch has advantages of its own, normalised already: train on it as it stands.
    rows, shape = batch_of(frozen), chunk["reward"].shape
    buffer.advantages[:] = rows["advantage"].reshape(shape)
    buffer.returns[:] = rows["value_target"].reshape(shape)
    model.normalize_advantage = False
    model.n_epochs, model.batch_size = 1, len(rows["action"])
    model.lr_schedule = lambda _: frozen.workload.for_ppo.learning_rate
    model.train()
    told = model.logger.name_to_value
    # It reports the value loss as it is weighted.
    return evidence | {"loss": np.array([told["train/pg_loss"] + told["train/value_loss"]])} | _stepped(frozen, model)


def _dqn(frozen: Frozen, model: Any) -> Evidence:
    rows, policy = frozen.transitions, model.policy
    variables = jax.tree.map(jax.numpy.asarray, weights.to_flax(frozen.network, frozen.target_weights, "q"))
    policy.qf_state = policy.qf_state.replace(target_params=variables)
    best = np.asarray(model.qf.apply(variables, rows["next_observation"])).max(axis=1)
    samples = samples_of(rows)
    model.replay_buffer.sample = lambda *_, **__: samples
    model.train(gradient_steps=1, batch_size=len(rows["action"]))
    return {
        "targets": rows["reward"] + np.where(rows["terminated"], 0, model.gamma * best),
        "loss": np.array([model.logger.name_to_value["train/critic_loss"]]),
    } | _stepped(frozen, model)


def _sac(frozen: Frozen, model: Any) -> Evidence:
    """One call of its `train`, whose draws of actions are given the frozen noise, in the order in which it asks."""
    from tensorflow_probability.substrates import jax as tfp

    rows, policy = frozen.transitions, model.policy
    targets = jax.tree.map(jax.numpy.asarray, weights.to_flax(frozen.network, frozen.target_weights, "q"))
    policy.qf_state = policy.qf_state.replace(target_params=targets)
    now, following = frozen.noise
    draws = iter([following, following, now])

    def drawn(self: Any, *_: Any, **__: Any) -> Any:
        return self.loc + self.scale.diag_part() * next(draws)

    normal = tfp.distributions.MultivariateNormalDiag
    usual = normal._call_sample_n
    normal._call_sample_n = drawn
    try:
        future = policy.actor_state.apply_fn(policy.actor_state.params, rows["next_observation"])
        action = future.sample(seed=jax.random.key(0))
        least = np.asarray(policy.qf_state.apply_fn(targets, rows["next_observation"], action)).min(axis=0)[:, 0]
        alpha = np.exp(weights.temperature(model.ent_coef_state))
        soft = least - alpha * np.asarray(future.log_prob(action))
        samples = samples_of({**rows, "action": np.tanh(rows["action"])})
        model.replay_buffer.sample = lambda *_, **__: samples
        model.train(gradient_steps=1, batch_size=len(rows["reward"]))
    finally:
        normal._call_sample_n = usual
    temperature = model.ent_coef_state
    (moved,) = optax.tree_utils.tree_get(temperature.opt_state, "mu").values()
    return {
        "targets": rows["reward"] + np.where(rows["terminated"], 0, model.gamma * soft),
        "loss": np.array([model.logger.name_to_value["train/critic_loss"]]),
    } | _stepped(
        frozen,
        model,
        {"temperature.log": np.asarray(moved).reshape(1)},
        {"temperature.log": weights.temperature(temperature)},
    )


def _stepped(
    frozen: Frozen, model: Any, moments: Mapping[str, Vector] | None = None, rest: Mapping[str, Vector] | None = None
) -> Evidence:
    """Gradient and weights after one step of its optimizer. Adam's first moment shows the gradient, clipped.

    Parameters
    ----------
    moments, rest
        first moments of blocks that are no part of its modules, and these blocks. None: there are none that it trains.
    """
    rest = frozen.network.views(frozen.weights) if rest is None else rest
    towers = state.towers(model.policy)
    means = {tower: optax.tree_utils.tree_get(one.opt_state, "mu") for tower, one in towers.items()}
    trained = {tower: one.params for tower, one in towers.items()}
    return {
        "gradient": weights.from_flax(frozen.network, means, moments).astype(np.float64) / (1 - MEAN_DECAY),
        "weights": weights.from_flax(frozen.network, trained, rest).astype(np.float64),
    }
