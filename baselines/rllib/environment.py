"""Environments of RLlib's env runners.

A synthetic simulator is one vector for each env runner, in which waits overlap. RLlib makes vectors by `gymnasium.make_vec`,
and accepts a vector from a creator in the mode "vector_entry_point". It tells the number of the env runner only afterwards.
Rewards that a workload normalises are normalised by a wrapper, because RLlib has nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from baselines import normalisation
from baselines.workload import Workload
from tianji.env_settings import ActionsConfig
from tianji.environments import simulated

SIMULATED, NORMALISED = "tianji-simulated", "tianji-normalised"
"""Names in RLlib's registry, in every process of a cluster."""


def register(workload: Workload) -> None:
    """Make the environment known to Ray, which must have been started."""
    from ray.tune import register_env

    if workload.simulator is not None:
        register_env(SIMULATED, make)
    if workload.normalises_rewards:
        register_env(NORMALISED, make_normalised)


def environment(workload: Workload) -> dict[str, Any]:
    """Keyword arguments of `AlgorithmConfig.environment`."""
    # Numbers are bounded as in the workload: the environment gets the nearest one within.
    bounds = {"normalize_actions": False, "clip_actions": True} if isinstance(workload.actions, ActionsConfig) else {}
    found: dict[str, Any] = {"env": workload.env}
    if workload.simulator is not None:
        found = {"env": SIMULATED, "env_config": simulated.arguments(workload.env, workload.simulator, workload.atari)}
    elif workload.normalises_rewards:
        scaled = {"gamma": workload.for_ppo.gamma, "clip": workload.normaliser.clip_rewards}
        found = {"env": NORMALISED, "env_config": {"name": workload.env, **scaled}}
    return found | bounds


def vectorize_mode(workload: Workload) -> str:
    """How an env runner steps several of them: `gym_env_vectorize_mode` of `AlgorithmConfig.env_runners`.

    Simulators come as a vector in which they wait at the same time; others are stepped one after the other.
    """
    return "sync" if workload.simulator is None else "vector_entry_point"


def when_created(workload: Workload) -> Callable[..., None] | None:
    """Callback of an env runner after it made its environments."""
    return None if workload.simulator is None else number


def make(context: Any) -> Any:
    """A vector where RLlib asks for one (it then gives `num_envs`), else one environment that waits by itself."""
    given = dict(context)
    return simulated.SimulatedVector(**given) if "num_envs" in given else simulated.single(**given)


def make_normalised(context: Any) -> Any:
    """One environment that tells its returns (`info["episode"]`) and whose rewards are normalised."""
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(context["name"], disable_env_checker=True))
    return normalisation.normalised_rewards(env, context["gamma"], context["clip"])


def number(*, env: Any, env_context: Any, **_: Any) -> None:
    """Tell a vector which environments it has: those of the first env runner come first, and so on.

    How fast each one is follows from that (`SimulatorConfig.spread`). Env runners count from 1; one within the learner's
    process is 0.
    """
    if isinstance(env, simulated.SimulatedVector):
        env.renumber(max(0, env_context.worker_index - 1) * env.num_envs)
