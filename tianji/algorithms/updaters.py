"""Selects the updater that computes an algorithm's optimizer steps."""

from __future__ import annotations

import importlib
from typing import Any

from programs import cores
from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork, FlatNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork
from tianji.algorithms.networks import KINDS
from tianji.algorithms.second_core import Helper
from tianji.algorithms.twin import TwinCritics
from tianji.config import TrainConfig


def check(config: TrainConfig, network: FlatNetwork) -> None:
    """Check that a configuration's algorithm and updater support this network.

    Raises
    ------
    ConfigError
        if NumPy was chosen and cannot compute this network, if a factory's network has other outputs than the algorithm trains,
        or if the gradients of policy and value are to be clipped apart and share parameters.
    """
    if config.updater == "numpy" and config.precision != "fp32":
        raise ConfigError(f"updater 'numpy' computes in fp32 only, not {config.precision}; use updater 'auto'")
    if config.updater == "numpy" and not isinstance(network, ActorCritic | QNetwork | TwinCritics):
        raise ConfigError(f"updater 'numpy' computes perceptrons only, not {network.name}; use updater 'auto'")
    # A factory's network must have the outputs of the kinds that the algorithm trains.
    trained = KINDS[config.hyperparameters.networks[0]]
    if issubclass(trained, ActionValueNetwork) and network.actions.kind != "discrete":
        others = "ppo, impala, sac or td3" if network.actions.kind == "box" else "ppo or impala"
        raise ConfigError(
            f"algo {config.algo} chooses among Discrete actions, and those of environment {config.env} are "
            f"{network.actions}: use algo {others}"
        )
    if issubclass(trained, TwinCritics) and network.actions.kind != "box":
        raise ConfigError(
            f"algo {config.algo} chooses numbers (Box), and the actions of environment {config.env} are {network.actions}: use "
            "algo ppo or impala"
        )
    if issubclass(trained, ActionValueNetwork) != isinstance(network, ActionValueNetwork):
        raise ConfigError(
            f"algo {config.algo} trains {trained.outputs_of(network.actions)}; what network.factory {config.network.factory} "
            f"makes returns {network.returns}"
        )
    if config.hyperparameters.clips_apart and network.parts() is None:
        raise ConfigError(
            f"{config.algo}.clip_gradients 'each' is for a network whose policy and value share no parameters, such as "
            f"mlp-separate; those of network {network.name} do: use 'together'"
        )


def make_updater(config: TrainConfig, network: FlatNetwork, weights: Vector) -> Any:
    """Make the fastest updater that supports the configuration.

    Hand-derived gradients (modules `..._numpy`) serve perceptrons on a CPU. torch computes everything else; its import takes a
    second.

    Raises
    ------
    ConfigError
        see `check`.
    """
    check(config, network)
    settings = config.hyperparameters
    by_hand = config.updater != "torch" and config.device == "cpu" and config.precision == "fp32"
    if isinstance(network, ActorCritic | QNetwork | TwinCritics) and by_hand:
        helper = Helper() if config.learner_threads != 1 and cores.usable() >= 2 else None
        return importlib.import_module(f"tianji.algorithms.{config.algo}_numpy").NumpyUpdater(
            network, settings, weights, helper
        )
    module = importlib.import_module(f"tianji.algorithms.{config.algo}_torch")
    return module.TorchUpdater(network, settings, weights, config.device, config.precision)
