"""Compiles what SBX runs before its first step, so that compilation can be told apart from training.

JAX compiles a function when it is first called with arrays of a shape. So each function is called once, with arrays of the
shapes of training and the model's own objects, which are part of what it is compiled for. Afterwards the model is as it was.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

BACKEND = "/jax/core/compile/backend_compile_duration"
"""JAX's event of one compilation by XLA."""


class Watch:
    """Adds up the seconds in which XLA compiles in this process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration: float, **_: Any) -> None:
        if event == BACKEND:
            self.seconds += duration


def compile_ahead(model: Any) -> None:
    """Call everything that a model calls while it trains, and leave no trace of it.

    Parameters
    ----------
    model
        SBX's PPO, DQN or SAC, with its weights, before its first step.
    """
    space = model.env.observation_space
    observation = np.zeros((model.env.num_envs, *space.shape), space.dtype)
    # Minibatches are drawn from the generator that the model was seeded by.
    drawn = np.random.get_state()  # noqa: NPY002 (Stable-Baselines3 draws from the global one)
    learn = _ppo if hasattr(model, "rollout_buffer") else _sac if hasattr(model, "ent_coef_state") else _dqn
    learn(model, observation)
    np.random.set_state(drawn)  # noqa: NPY002
    model.logger.name_to_value.clear()
    model._n_updates = 0


def _ppo(model: Any, observation: Any) -> None:
    policy, buffer = model.policy, model.rollout_buffer
    kept = {name: getattr(policy, name) for name in ("actor_state", "vf_state", "key", "noise_key")}
    # These are set in place, to a number where an array was, which would be compiled for again.
    rates = [state.opt_state[1].hyperparams for state in (policy.actor_state, policy.vf_state)]
    kept_rates = [dict(one) for one in rates]
    for rows in (observation, observation[:1]):
        # As its collect_rollouts does: for a step, and for the last observation of one truncated episode.
        model.vf.apply(policy.vf_state.params, policy.prepare_obs(rows)[0]).flatten()

    policy.reset_noise()
    policy.predict_all(policy.prepare_obs(observation)[0], policy.noise_key)
    buffer.reset()
    buffer.pos, buffer.full = model.n_steps, True
    model.train()
    for one, before in zip(rates, kept_rates, strict=True):
        one.update(before)
    buffer.reset()
    for name, value in kept.items():
        setattr(policy, name, value)


def _dqn(model: Any, observation: Any) -> None:
    policy, replay = model.policy, model.replay_buffer
    kept = policy.qf_state
    policy.predict(observation)
    policy.qf_state = type(model).soft_update(model.tau, kept)
    # One row of zeros, from which every minibatch is drawn.
    replay.pos = 1
    model.train(batch_size=model.batch_size, gradient_steps=model.gradient_steps)
    replay.reset()
    policy.qf_state = kept


def _sac(model: Any, observation: Any) -> None:
    policy, replay = model.policy, model.replay_buffer
    kept = {name: getattr(policy, name) for name in ("actor_state", "qf_state", "key", "noise_key")}
    rates = [state.opt_state.hyperparams for state in (policy.actor_state, policy.qf_state)]
    kept_rates, temperature, key = [dict(one) for one in rates], model.ent_coef_state, model.key
    policy.predict(observation)
    replay.pos = 1
    model.train(batch_size=model.batch_size, gradient_steps=model.gradient_steps)
    replay.reset()
    for one, before in zip(rates, kept_rates, strict=True):
        one.update(before)
    for name, value in kept.items():
        setattr(policy, name, value)
    model.ent_coef_state, model.key = temperature, key
