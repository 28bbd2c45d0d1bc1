"""Which kernel computes an algorithm's optimizer steps."""

from __future__ import annotations

import importlib
from typing import Any

from tianji.algorithms.flat import FlatNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork
from tianji.config import TrainConfig
from tianji.settings import ConfigError


def make(config: TrainConfig, network: FlatNetwork, weights: Vector) -> Any:
    """The fastest kernel of the configuration's algorithm that can do what was asked.

    Gradients derived by hand (modules `..._numpy`) are for perceptrons on a CPU; torch, which takes a second to import,
    computes everything else.

    Raises
    ------
    ConfigError
        when NumPy was asked for and cannot.
    """
    settings = getattr(config, config.algo)
    if isinstance(network, ActorCritic | QNetwork) and config.kernel != "torch" and config.device == "cpu":
        return importlib.import_module(f"tianji.algorithms.{config.algo}_numpy").NumpyKernel(network, settings, weights)
    if config.kernel == "numpy":
        raise ConfigError(f"kernel 'numpy' computes perceptrons only, not {network.name}; use kernel 'auto'")
    module = importlib.import_module(f"tianji.algorithms.{config.algo}_torch")
    return module.TorchKernel(network, settings, weights, config.device)
