"""A policy, and a policy on disk: safetensors, which cannot run code, with the network's description beside the arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from programs.cli import ConfigError
from tianji.algorithms import networks
from tianji.algorithms.networks import KINDS, FlatNetwork, Vector
from tianji.config import NetworkConfig
from tianji.settings import convert
from tianji.tensors import save_tensors

FACTORY = "factory"
"""The kind of a network that a user's factory made."""


@dataclass(frozen=True)
class Policy:
    """A network with its weights."""

    network: FlatNetwork
    weights: Vector

    def greedy(self, features: np.ndarray) -> np.ndarray:
        """Best actions [N] for encoded observations [N, ...]: the most probable, or of the highest value."""
        return np.asarray(self.network.scores(self.network.views(self.weights), features).argmax(axis=1))


def save_policy(path: Path, policy: Policy, **metadata: str) -> None:
    """Write a policy; `metadata` is kept as text."""
    network = policy.network
    save_tensors(
        network.named_tensors(policy.weights),
        path,
        {"network": network.name, "description": json.dumps(network.description()), **metadata},
    )


def load_policy(path: Path, factory: str | None = None) -> Policy:
    """Read a policy.

    Parameters
    ----------
    factory
        `module:function` that makes its network, where that is of no kind known here. The file says what made it, but what
        is imported is for its reader alone to say.

    Raises
    ------
    ConfigError
        when the file is not a policy of a network that this version knows, or that the factory makes.
    """
    metadata, tensors = _read(path)
    kind = metadata.get("network", "")
    if kind not in (*KINDS, FACTORY):
        raise ConfigError(f"{path}: holds network {metadata.get('network')!r}; known: {', '.join((*KINDS, FACTORY))}")
    if kind != FACTORY and factory is not None:
        raise ConfigError(f"{path}: holds network {kind}, which no factory makes; leave {factory} out")
    try:
        description = json.loads(metadata["description"])
        seen = description["features"]
        features = tuple(map(int, seen)) if isinstance(seen, list) else int(seen)
        actions = int(description["actions"])
        if kind != FACTORY:
            # What files of earlier versions do not say was then what it is by default.
            said = {key: description[key] for key in ("dueling", "activation") if key in description}
            config = convert({"kind": kind, "hidden": description["hidden"], **said}, NetworkConfig, "network")
            network = networks.build(config, features, actions)
            return Policy(network, network.flatten(tensors))
        made_by = str(description["factory"])
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError) as error:
        raise ConfigError(f"{path}: damaged policy: {error}") from None
    if factory is None:
        raise ConfigError(
            f"{path}: its network was made by {made_by!r}, and a file does not decide what is run here; name what makes it: "
            "evaluate --network MODULE:FUNCTION, or load_policy(path, factory=...)"
        )
    network = networks.from_factory(factory, features, actions)
    try:
        return Policy(network, network.flatten(tensors))
    except ValueError as error:
        raise ConfigError(f"{path}: was made by {made_by!r}, and {factory} makes another network: {error}") from None


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """What is written beside the tensors, and these."""
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: not a safetensors file: {error}") from None
