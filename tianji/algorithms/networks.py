"""The networks that there are, by the kind that a configuration names."""

from __future__ import annotations

from programs.cli import ConfigError
from tianji.algorithms.flat import ActionValueNetwork, Features, FlatNetwork, PolicyValueNetwork, Vector
from tianji.algorithms.mlp import ActorCritic, QNetwork, SharedActorCritic
from tianji.algorithms.nature import NatureActorCritic, NatureQ
from tianji.config import NetworkConfig
from tianji.envs import SMALLEST_IMAGE

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

Kind = type[ActorCritic] | type[SharedActorCritic] | type[QNetwork] | type[NatureActorCritic] | type[NatureQ]
KINDS: dict[str, Kind] = {kind.name: kind for kind in (ActorCritic, SharedActorCritic, QNetwork, NatureActorCritic, NatureQ)}


def build(config: NetworkConfig, features: Features, actions: int) -> FlatNetwork:
    """The network of a configuration, for observations as `EnvDescription.features` tells.

    Raises
    ------
    ConfigError
        when a convolutional network is to see something else than images that are large enough, or a factory makes what
        cannot be trained (`tianji.algorithms.modules.make`).
    """
    if isinstance(config.factory, str):
        return from_factory(config.factory, features, actions)
    return make(config.kind, features, config.hidden, actions, dueling=config.dueling, activation=config.activation)


def make(
    kind: str,
    features: Features,
    hidden: tuple[int, ...],
    actions: int,
    *,
    dueling: bool = False,
    activation: str = "relu",
) -> FlatNetwork:
    """A network of a kind that is known here; `activation` is for a kind that has a choice. Raises as `build` does."""
    which = KINDS[kind]
    if which is NatureActorCritic:
        return NatureActorCritic(_image(kind, features), hidden, actions)
    if which is NatureQ:
        return NatureQ(_image(kind, features), hidden, actions, dueling)
    if which is QNetwork:
        return QNetwork(features, hidden, actions, dueling, activation)
    return ActorCritic(features, hidden, actions) if which is ActorCritic else SharedActorCritic(features, hidden, actions)


def from_factory(factory: str, features: Features, actions: int) -> FlatNetwork:
    """The network of a user's factory, `module:function`; torch is imported for it, and raises as `build` does."""
    from tianji.algorithms import modules

    return modules.make(factory, features, actions)


def _image(kind: str, features: Features) -> tuple[int, ...]:
    if isinstance(features, int) or len(features) != 3 or min(features[1:]) < SMALLEST_IMAGE:
        raise ConfigError(
            f"network {kind} sees images (bytes) of at least {SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, "
            "and the environment's observations are none: choose an mlp kind"
        )
    return features
