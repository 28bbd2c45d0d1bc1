"""What RLlib's env runners step: the one place that says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baselines.rllib import simulated
from baselines.workload import Workload

SIMULATED = "tianji-simulated"
"""By which RLlib's registry knows it, in every process of a cluster."""


def register(workload: Workload) -> None:
    """Make the environment known to Ray, which must have been started."""
    if workload.simulator is not None:
        from ray.tune import register_env

        register_env(SIMULATED, simulated.make)


def environment(workload: Workload) -> dict[str, Any]:
    """Keyword arguments of `AlgorithmConfig.environment`."""
    if workload.simulator is None:
        return {"env": workload.env}
    return simulated.environment(workload) | {"env": SIMULATED}


def vectorize_mode(workload: Workload) -> str:
    """How an env runner steps several of them: `gym_env_vectorize_mode` of `AlgorithmConfig.env_runners`.

    Simulators come as a vector in which they wait at the same time; others are stepped one after the other.
    """
    return "sync" if workload.simulator is None else "vector_entry_point"


def when_created(workload: Workload) -> Callable[..., None] | None:
    """What an env runner calls when it has made them."""
    return None if workload.simulator is None else simulated.number
