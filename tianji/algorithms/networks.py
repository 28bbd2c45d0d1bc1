"""Makes the network that a configuration names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork, FlatNetwork, PolicyValueNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork, SharedActorCritic
from tianji.algorithms.nature import NatureActorCritic, NatureQ
from tianji.algorithms.twin import Deterministic, TwinCritics
from tianji.config import NetworkConfig, NormaliseConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import Branches, EnvDescription, Features
from tianji.trunks import SMALLEST_IMAGE

__all__ = [
    "KINDS",
    "ActionValueNetwork",
    "ActorCritic",
    "Deterministic",
    "Features",
    "FlatNetwork",
    "NatureActorCritic",
    "NatureQ",
    "PolicyValueNetwork",
    "QNetwork",
    "SharedActorCritic",
    "TwinCritics",
    "Vector",
    "build",
    "from_factory",
    "make_network",
    "of",
]

KINDS: dict[str, Any] = {
    kind.name: kind
    for kind in (ActorCritic, SharedActorCritic, QNetwork, NatureActorCritic, NatureQ, TwinCritics, Deterministic)
}


def of(config: TrainConfig, describe: EnvDescription) -> FlatNetwork:
    """Network of a run, for its environment. Raises the errors of `build`."""
    return fitted(suited(config.network, config.algo, describe), config.normalise, describe)


def fitted(network: NetworkConfig, normalise: NormaliseConfig, describe: EnvDescription) -> FlatNetwork:
    """Network of these settings for an environment, with or without normalisation. Raises the errors of `build`."""
    describe = describe.seen_by(network.kind)
    if describe.actions.state and not network.kind.startswith("mlp"):
        raise ConfigError(f"actions.exploration 'state' is for perceptrons, not for network {network.kind}")
    if not normalise.observations:
        return build(network, describe.features, describe.actions)
    if describe.image or not network.kind.startswith("mlp"):
        raise ConfigError(
            f"normalise.observations is for vectors and perceptrons, and network {network.kind} sees {describe.features}: "
            "leave it out"
        )
    normalised = {"normalised": describe.frame_features, "normalised_clip": normalise.clip_observations}
    return make_network(network.kind, describe.features, network.hidden, describe.actions, **normalised)


def suited(config: NetworkConfig, algo: str, describe: EnvDescription) -> NetworkConfig:
    """The settings of a network, with the kind that suits an environment's observations if they leave the choice.

    Raises
    ------
    ConfigError
        if other settings of the network do not fit that kind.
    """
    try:
        return config.of(algo, pictures=describe.image) if config.kind == "auto" else config
    except ValueError as error:
        raise ConfigError(str(error)) from None


def build(config: NetworkConfig, features: Features, actions: Actions | int) -> FlatNetwork:
    """Network of a configuration, for observations of the shape `EnvDescription.features`.

    Parameters
    ----------
    actions
        actions of the environment; a number: that many Discrete ones.

    Raises
    ------
    ConfigError
        if a network would get what it cannot read, such as pictures that are too small for convolutions, or if a factory's
        network cannot be trained (`tianji.algorithms.modules.make_module`).
    """
    if isinstance(config.factory, str):
        return from_factory(config.factory, features, actions)
    choices: dict[str, Any] = {"dueling": config.dueling, "activation": config.activation}
    if isinstance(config.pixel_scale, float | int):
        choices["pixel_scale"] = float(config.pixel_scale)
    return make_network(config.kind, features, config.hidden, actions, **choices)


def make_network(kind: str, features: Features, hidden: tuple[int, ...], actions: Actions | int, **choices: Any) -> FlatNetwork:
    """Network of a built-in kind. Each of `choices` applies to kinds that offer it. Raises the errors of `build`."""
    if kind.startswith("nature"):
        _check_image(kind, features)
    elif isinstance(features, Branches):
        raise ConfigError(
            f"network {kind} sees one vector, and the environment's observations have pictures: leave network.kind out"
        )
    taken: dict[str, Any] = {field.name: choices[field.name] for field in fields(KINDS[kind]) if field.name in choices}
    network: FlatNetwork = KINDS[kind](features, hidden, actions, **taken)
    return network


def from_factory(factory: str, features: Features, actions: Actions | int) -> FlatNetwork:
    """Network of a user's factory, `module:function`. Imports torch. Raises the errors of `build`."""
    from tianji.algorithms import modules

    return modules.make_module(factory, features, Actions.of(actions))


def _check_image(kind: str, features: Features) -> None:
    images: Any = features.images if isinstance(features, Branches) else [features]
    if any(isinstance(image, int) or len(image) != 3 or min(image[1:]) < SMALLEST_IMAGE for image in images):
        raise ConfigError(
            f"network {kind} sees images (bytes) of at least {SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, "
            "and the environment's observations are none: choose an mlp kind"
        )
