"""A synthetic simulator as RLlib's environment: a vector of each env runner's, whose waits overlap.

RLlib makes vectors by `gymnasium.make_vec`, and takes a registered vector entry point in the mode "vector_entry_point". It
says which env runner a vector is of only when the vector has been made.
"""

from __future__ import annotations

from typing import Any

from baselines.workload import Workload
from tianji import simulated


def environment(workload: Workload) -> dict[str, Any]:
    """Keyword arguments of `AlgorithmConfig.environment`.

    To be used with `env_runners(gym_env_vectorize_mode="vector_entry_point")` and
    `callbacks(on_environment_created=number)`. Where a creator is wanted, `make` is one for `ray.tune.register_env`, with the
    same arguments as its `env_config`.
    """
    assert workload.simulator is not None
    return {
        "env": simulated.FULL_ID,
        "env_config": simulated.arguments(workload.env, workload.simulator, workload.atari),
    }


def make(context: Any) -> Any:
    """A vector where RLlib asks for one (it then gives `num_envs`), else one environment that waits by itself."""
    given = dict(context)
    return simulated.SimulatedVector(**given) if "num_envs" in given else simulated.single(**given)


def number(*, env: Any, env_context: Any, **_: Any) -> None:
    """Tell a vector which environments it has: those of the first env runner come first, and so on.

    How fast each one is follows from that (`SimulatorConfig.spread`). Env runners count from 1; one within the learner's
    process is 0.
    """
    if isinstance(env, simulated.SimulatedVector):
        env.renumber(max(0, env_context.worker_index - 1) * env.num_envs)
