"""TianJi: decoupled actors, buffer and learner that train deep RL as data arrives.

An independent implementation, over ZeroMQ and shared memory, of the system described in He et al., AAAI 2025
(arXiv 2502.20190). `tianji.train(tianji.TrainConfig(...))` is the Python entry point, `python -m tianji` the command.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tianji.config import (
        ActionsConfig,
        AtariConfig,
        DQNConfig,
        EnvironmentConfig,
        EvaluationConfig,
        IMPALAConfig,
        NetworkConfig,
        NormaliseConfig,
        PPOConfig,
        SACConfig,
        TD3Config,
        TrainConfig,
    )
    from tianji.run.training import train
    from tianji.run.watch import Result

__version__ = "0.2.0"
__all__ = [
    "ActionsConfig",
    "AtariConfig",
    "DQNConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "IMPALAConfig",
    "NetworkConfig",
    "NormaliseConfig",
    "PPOConfig",
    "Result",
    "SACConfig",
    "TD3Config",
    "TrainConfig",
    "__version__",
    "train",
]

_HOMES = dict.fromkeys((name for name in __all__ if name.endswith("Config")), "tianji.config") | {
    "Result": "tianji.run.watch",
    "train": "tianji.run.training",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562), so that importing this package alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
