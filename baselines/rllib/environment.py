"""What RLlib's env runners step: the one place that says it."""

from __future__ import annotations

from typing import Any

from baselines.workload import Workload


def environment(workload: Workload) -> dict[str, Any]:
    """Keyword arguments of `AlgorithmConfig.environment`."""
    return {"env": workload.env}


def vectorize_mode(workload: Workload) -> str:
    """How an env runner steps several of them: `gym_env_vectorize_mode` of `AlgorithmConfig.env_runners`."""
    return "sync"
