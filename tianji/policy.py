"""Policies, in memory and on disk. Files are safetensors, which cannot run code, with a description of the network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open

from programs.cli import ConfigError
from tianji.algorithms import networks
from tianji.algorithms.distributions import from_scores
from tianji.algorithms.flat import ActionValueNetwork
from tianji.algorithms.networks import KINDS, FlatNetwork, Vector
from tianji.config import NetworkConfig
from tianji.environments.actions import Actions
from tianji.environments.description import Branches
from tianji.settings import Count, Positive, convert
from tianji.tensors import regular, save_tensors

FACTORY = "factory"
"""Kind of a network that a user's factory made."""


@dataclass(frozen=True)
class Policy:
    """A network with its weights."""

    network: FlatNetwork
    weights: Vector

    def greedy(self, features: np.ndarray) -> np.ndarray:
        """Best actions [N, ...] for encoded observations [N, ...]: those with the highest probability, density or value."""
        scores = self._scores(features)
        if isinstance(self.network, ActionValueNetwork):
            return np.asarray(scores.argmax(axis=1))
        return from_scores(self.network.actions, scores).mode()

    def sampled(self, features: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Actions [N, ...] that the policy samples for encoded observations [N, ...], from noise [N, W] (`Actions.noise`).

        Not for networks of action values, nor for policies without probabilities.
        """
        return from_scores(self.network.actions, self._scores(features)).sample(noise)[0]

    def _scores(self, features: np.ndarray) -> np.ndarray:
        blocks = self.network.views(self.weights)
        return self.network.scores(blocks, self.network.normalise(blocks, features))


def save_policy(path: Path, policy: Policy, **metadata: str) -> None:
    """Write a policy to a file. `metadata` is stored as text."""
    network = policy.network
    save_tensors(
        network.named_tensors(policy.weights),
        path,
        {"network": network.name, "description": json.dumps(network.description()), **metadata},
    )


def load_policy(path: Path, factory: str | None = None) -> Policy:
    """Read a policy from a file.

    Parameters
    ----------
    factory
        `module:function` that makes its network, if it is not of a built-in kind. The file names it too, but only the caller
        decides what is imported.

    Raises
    ------
    ConfigError
        if the file is not a policy of a built-in network or of the factory's.
    """
    metadata, tensors = _read(path)
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            raise ConfigError(f"{path}: damaged policy: tensor {name} is not of finite float32 numbers")
    kind = metadata.get("network", "")
    if kind not in (*KINDS, FACTORY):
        raise ConfigError(f"{path}: holds network {metadata.get('network')!r}; known: {', '.join((*KINDS, FACTORY))}")
    if kind != FACTORY and factory is not None:
        raise ConfigError(f"{path}: holds the built-in network {kind}; leave {factory} out")
    try:
        description = json.loads(metadata["description"])
        seen = description["features"]
        features: Any = msgspec.convert(
            tuple(seen) if isinstance(seen, list) else seen, Positive | tuple[Positive, ...] | Branches
        )
        actions = Actions.of(msgspec.convert(description["actions"], Positive | Actions))
        if kind != FACTORY:
            # Entries that are missing in files of earlier versions have their defaults.
            said = {key: description[key] for key in ("dueling", "activation", "pixel_scale") if key in description}
            config = convert({"kind": kind, "hidden": description["hidden"], **said}, NetworkConfig, "network")
            network = networks.build(config, features, actions)
            if normalised := msgspec.convert(description.get("normalised", 0), Count):
                network = networks.make_network(config.kind, features, config.hidden, actions, normalised=normalised)
            if network.size != sum(tensor.size for tensor in tensors.values()):
                # Checked before memory is allocated.
                raise ValueError(f"it speaks of {network.size} parameters and holds others")
            return Policy(network, network.flatten(tensors))
        made_by = str(description["factory"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError, ConfigError) as error:
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
    """Metadata and tensors of a file."""
    try:
        with safe_open(regular(path), framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: not a safetensors file: {error}") from None
