"""Translation of a workload to Stable-Baselines3: arguments as plain data, its schedule, and deviations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from baselines.workload import Workload
from programs.cli import ConfigError
from tianji.config import ActionsConfig
from tianji.environments.atari import is_atari
from tianji.hyperparameters import ReplayConfig

PICTURES = ("nature-shared", "nature-q")
"""Kinds of network that its `CnnPolicy` has."""
STACKED = "In the first steps of an episode, frames that are not there yet are black; here its first frame is repeated."
"""What its `VecFrameStack` departs from."""
VECTORISERS = {"dummy": "DummyVecEnv", "subproc": "SubprocVecEnv"}
"""Its classes that step several environments: in one process, and each in a process of its own."""


SQUASHED = "Log-probabilities of squashed actions have 1e-6 added to 1 - tanh^2, so that they stop rising near the bounds."
"""What its squashed Gaussian departs from."""
MOVING = "Statistics by which observations and rewards are normalised move at every step, not once a round."
"""What its `VecNormalize` departs from."""


def total_steps(w: Workload) -> int:
    """Steps for `learn`: the complete rounds within the budget, because a partial round would overrun it.

    Raises
    ------
    ConfigError
        when the budget holds no round, or environments stepped together cannot make a round's count.
    """
    if w.round_steps % w.environments:
        raise ConfigError(f"{w.algo}.train_every_steps {w.round_steps} must be a multiple of the {w.environments} environments")
    if w.budget_steps < w.round_steps:
        raise ConfigError(f"budget_steps {w.budget_steps} is less than one round of {w.round_steps} steps; raise it")
    return w.budget_steps // w.round_steps * w.round_steps


def settings(w: Workload, seed: int) -> dict[str, Any]:
    """Everything that Stable-Baselines3 is given, as plain data."""
    hidden = list(w.network.hidden)
    made: dict[str, Callable[[Workload], dict[str, Any]]] = {"ppo": _ppo, "dqn": _dqn, "sac": _sac, "td3": _td3}
    arguments = made[w.algo](w)
    tuned: Any = w.hyperparameters
    return {
        "algorithm": w.algo.upper(),
        "policy": "MlpPolicy",
        "total_timesteps": total_steps(w),
        **(_pictures(w) if w.network.kind in PICTURES else {}),
        "make_vec_env": {
            "n_envs": w.environments,
            "seed": seed,
            # Checks for people who write environments: no system has them on. And nobody watches: asked for pictures, as this
            # function does unless told otherwise, LunarLander makes a body of each puff of its engines, and its physics
            # take several times as long.
            "env_kwargs": {"disable_env_checker": True, "render_mode": None},
        },
        **({"vec_normalize": _normalisation(w)} if w.normalises else {}),
        "arguments": {**arguments, **_exploration(w), "seed": seed, "device": "cpu"},
        "learning_rate_schedule": w.for_ppo.learning_rate_schedule if w.algo == "ppo" else "constant",
        "net_arch": {"pi": hidden, "vf": hidden} if w.algo == "ppo" else hidden,
        "activation_fn": {"tanh": "Tanh", "relu": "ReLU"}[w.network.activation],
        "optimizer_kwargs": {"eps": tuned.adam_epsilon},
        "vec_env_cls": VECTORISERS["dummy"],
        # One thread, as in every system: these matrices are too small for a thread pool to pay.
        "torch_threads": 1,
    }


def _pictures(w: Workload) -> dict[str, Any]:
    """What is otherwise for a workload of pictures: games as every system plays them, stacked by its own wrapper."""
    return {"policy": "CnnPolicy", "games": msgspec.to_builtins(w.games), "features_dim": w.network.hidden[0]}


def beyond_pictures(w: Workload) -> str | None:
    """What its `CnnPolicy` cannot be of a workload of pictures; None: it is the workload's network."""
    if w.algo == "impala" or not is_atari(w.env):
        return "pictures other than those of Atari games, for PPO and DQN, are not translated to it"
    if len(w.network.hidden) != 1 or w.network.dueling or w.network.pixel_scale not in (UNSET, 255.0):
        return "its convolutional network has one dense layer, no streams, and bytes divided by 255"
    return w.beyond_any


def chosen(settings: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with a task's options."""
    named = {"vec_env_cls": VECTORISERS[options["vectoriser"]]} if "vectoriser" in options else {}
    return settings | named | {name: options[name] for name in ("torch_threads", "precision") if name in options}


def _ppo(w: Workload) -> dict[str, Any]:
    ppo = w.for_ppo
    return {
        "learning_rate": ppo.learning_rate,
        "n_steps": ppo.rollout_steps,
        "batch_size": ppo.minibatch_size,
        "n_epochs": ppo.epochs,
        "gamma": ppo.gamma,
        "gae_lambda": ppo.gae_lambda,
        "clip_range": ppo.clip,
        "clip_range_vf": None,
        "normalize_advantage": ppo.normalise_advantages,
        "ent_coef": ppo.entropy_coefficient,
        "vf_coef": ppo.value_coefficient,
        "max_grad_norm": ppo.max_grad_norm,
        "target_kl": None,
    }


def _normalisation(w: Workload) -> dict[str, Any]:
    """Arguments of its `VecNormalize`."""
    return {
        "norm_obs": w.normaliser.observations,
        "norm_reward": w.normaliser.rewards,
        "clip_obs": w.normaliser.clip_observations,
        "clip_reward": w.normaliser.clip_rewards,
        "gamma": w.for_ppo.gamma,
    }


def _exploration(w: Workload) -> dict[str, Any]:
    """Its state-dependent exploration, if the workload has it. -1: the noise is kept for a rollout."""
    if not isinstance(w.actions, ActionsConfig) or w.actions.exploration != "state":
        return {}
    return {"use_sde": True, "sde_sample_freq": w.actions.noise_steps or -1}


def _replayed(w: Workload, replay: ReplayConfig) -> dict[str, Any]:
    """What its algorithms with a replay have in common."""
    return {
        "learning_rate": replay.learning_rate,
        "buffer_size": replay.replay_capacity,
        # It trains when it has taken more steps than this; the workload, when it has taken as many.
        "learning_starts": max(0, replay.learning_starts - 1),
        "batch_size": replay.batch_size,
        "gamma": replay.gamma,
        # Counted in steps of the vector of environments.
        "train_freq": [replay.train_every_steps // w.environments, "step"],
        "gradient_steps": replay.updates,
    }


def _sac(w: Workload) -> dict[str, Any]:
    sac = w.for_sac
    return _replayed(w, sac) | {
        "tau": sac.tau,
        "ent_coef": sac.temperature,
        "target_entropy": "auto" if sac.target_entropy is None else sac.target_entropy,
        "target_update_interval": 1,
    }


def _td3(w: Workload) -> dict[str, Any]:
    td3 = w.for_td3
    return _replayed(w, td3) | {
        "tau": td3.tau,
        "policy_delay": td3.policy_every,
        "target_policy_noise": td3.target_noise,
        "target_noise_clip": td3.target_noise_clip,
        # The standard deviation of its `NormalActionNoise`.
        "action_noise": td3.exploration_noise,
    }


def _dqn(w: Workload) -> dict[str, Any]:
    dqn = w.for_dqn
    return _replayed(w, dqn) | {
        "tau": 1.0,
        "target_update_interval": dqn.target_every_steps,
        # Of what `learn` is asked for.
        "exploration_fraction": dqn.epsilon_steps / total_steps(w),
        "exploration_initial_eps": dqn.epsilon_start,
        "exploration_final_eps": dqn.epsilon_end,
        "max_grad_norm": dqn.max_grad_norm,
    }


def linear_from_round_start(learning_rate: float, round_steps: int, total: int, horizon_steps: int) -> Callable[[float], float]:
    """The workload's linear schedule as a function of Stable-Baselines3's `progress_remaining`.

    Stable-Baselines3 asks once a round, after sampling, and counts towards the steps of `learn`. The workload's rate is that of
    the round's first step, and reaches zero at the horizon.
    """

    def rate(progress_remaining: float) -> float:
        # Its first question, while it builds the optimizer, comes before any round.
        before_round = max(0, round((1.0 - progress_remaining) * total) - round_steps)
        return learning_rate * max(0.0, 1.0 - before_round / horizon_steps)

    return rate


def deviations(w: Workload) -> list[str]:
    """Deviations from the workload, in words."""
    stacked = [STACKED] * (w.network.kind in PICTURES and w.games.stack > 1)
    if w.algo == "ppo":
        n = min(w.for_ppo.minibatch_size, w.round_steps)
        return (
            stacked
            + [MOVING] * w.normalises
            + [
                f"Advantages are divided by the sample standard deviation of the minibatch (N - 1), not the population's (N): "
                f"with {n} rows they are smaller by {1 - ((n - 1) / n) ** 0.5:.2%}."
            ]
            * w.for_ppo.normalise_advantages
        )
    if w.squashes:
        return [SQUASHED] if w.algo == "sac" else []
    dqn, found = w.for_dqn, stacked
    if dqn.learning_starts > 1:
        found.append(
            f"Actions are uniformly random, whatever epsilon is, until learning starts (the first {dqn.learning_starts - 1} "
            "steps); epsilon meanwhile falls as the workload says."
        )
    if w.environments > 1:
        found.append(f"One draw decides for all {w.environments} environments whether a step is random.")
    if dqn.target_every_steps > dqn.train_every_steps:
        found.append(
            "The target network is copied while sampling, at its interval, not at the end of the round in which that ends."
        )
    if dqn.huber_delta != 1.0:
        found.append(f"Its Huber loss has delta 1, not {dqn.huber_delta}.")
    return found
