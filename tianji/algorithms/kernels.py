"""Which kernel computes an algorithm's optimizer steps."""

from __future__ import annotations

import importlib
from typing import Any

from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork, FlatNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork
from tianji.config import TrainConfig


def check(config: TrainConfig, network: FlatNetwork) -> None:
    """See whether a configuration's algorithm and kernel are for this network.

    Raises
    ------
    ConfigError
        when NumPy was asked for and cannot, and when a factory's network has other outputs than the algorithm trains.
    """
    if config.kernel == "numpy" and not isinstance(network, ActorCritic | QNetwork):
        raise ConfigError(f"kernel 'numpy' computes perceptrons only, not {network.name}; use kernel 'auto'")
    if isinstance(network, ActionValueNetwork) != (config.algo == "dqn"):
        made = f"what network.factory {config.network.factory} makes returns"
        if config.algo == "dqn":
            raise ConfigError(f"algo dqn trains action values [N, {network.actions}]; {made} a pair")
        raise ConfigError(f"algo {config.algo} trains a pair (logits [N, {network.actions}], values [N]); {made} one tensor")


def make(config: TrainConfig, network: FlatNetwork, weights: Vector) -> Any:
    """The fastest kernel of the configuration's algorithm that can do what was asked.

    Gradients derived by hand (modules `..._numpy`) are for perceptrons on a CPU; torch, which takes a second to import,
    computes everything else.

    Raises
    ------
    ConfigError
        see `check`.
    """
    check(config, network)
    settings = getattr(config, config.algo)
    if isinstance(network, ActorCritic | QNetwork) and config.kernel != "torch" and config.device == "cpu":
        return importlib.import_module(f"tianji.algorithms.{config.algo}_numpy").NumpyKernel(network, settings, weights)
    module = importlib.import_module(f"tianji.algorithms.{config.algo}_torch")
    return module.TorchKernel(network, settings, weights, config.device)
