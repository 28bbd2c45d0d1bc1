"""Makes the network that a configuration names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork, Features, FlatNetwork, PolicyValueNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork, SharedActorCritic
from tianji.algorithms.nature import NatureActorCritic, NatureQ
from tianji.config import NetworkConfig
from tianji.environments.description import SMALLEST_IMAGE

__all__ = [
    "KINDS",
    "ActionValueNetwork",
    "ActorCritic",
    "Features",
    "FlatNetwork",
    "NatureActorCritic",
    "NatureQ",
    "PolicyValueNetwork",
    "QNetwork",
    "SharedActorCritic",
    "Vector",
    "build",
    "from_factory",
    "make",
]

KINDS: dict[str, Any] = {kind.name: kind for kind in (ActorCritic, SharedActorCritic, QNetwork, NatureActorCritic, NatureQ)}


def build(config: NetworkConfig, features: Features, actions: int) -> FlatNetwork:
    """Network of a configuration, for observations of the shape `EnvDescription.features`.

    Raises
    ------
    ConfigError
        if a convolutional network would not get images, or too small ones, or if a factory's network cannot be trained
        (`tianji.algorithms.modules.make`).
    """
    if isinstance(config.factory, str):
        return from_factory(config.factory, features, actions)
    return make(config.kind, features, config.hidden, actions, dueling=config.dueling, activation=config.activation)


def make(
    kind: str, features: Features, hidden: tuple[int, ...], actions: int, *, dueling: bool = False, activation: str = "relu"
) -> FlatNetwork:
    """Network of a built-in kind. `activation` applies to kinds that offer a choice. Raises the errors of `build`."""
    if kind.startswith("nature"):
        _check_image(kind, features)
    options = {"dueling": dueling, "activation": activation}
    taken: dict[str, Any] = {field.name: options[field.name] for field in fields(KINDS[kind]) if field.name in options}
    network: FlatNetwork = KINDS[kind](features, hidden, actions, **taken)
    return network


def from_factory(factory: str, features: Features, actions: int) -> FlatNetwork:
    """Network of a user's factory, `module:function`. Imports torch. Raises the errors of `build`."""
    from tianji.algorithms import modules

    return modules.make(factory, features, actions)


def _check_image(kind: str, features: Features) -> None:
    if isinstance(features, int) or len(features) != 3 or min(features[1:]) < SMALLEST_IMAGE:
        raise ConfigError(
            f"network {kind} sees images (bytes) of at least {SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, "
            "and the environment's observations are none: choose an mlp kind"
        )
