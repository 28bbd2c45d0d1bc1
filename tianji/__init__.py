"""TianJi: decoupled actors, buffer and learner that train deep RL as data arrives.

An independent implementation, over ZeroMQ and shared memory, of the system described in He et al., AAAI 2025
(arXiv 2502.20190). `tianji.train(tianji.TrainConfig(...))` is the Python entry point, `python -m tianji` the command.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tianji.config import TrainConfig
    from tianji.training import Result, train

__version__ = "0.1.0"
__all__ = ["Result", "TrainConfig", "__version__", "train"]

_HOMES = {"Result": "tianji.training", "TrainConfig": "tianji.config", "train": "tianji.training"}


def __getattr__(name: str) -> Any:
    """What is public, from its module when it is first asked for (PEP 562): importing this package alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
