"""A policy on disk: safetensors, which cannot run code, with the network's description beside the arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tianji.algorithms import networks
from tianji.algorithms.networks import KINDS, ActionValueNetwork, FlatNetwork, QNetwork, Vector
from tianji.config import NetworkConfig
from tianji.settings import ConfigError, convert


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
    description: dict[str, Any] = {
        "features": network.features,
        "hidden": network.hidden,
        "actions": network.actions,
        "dueling": isinstance(network, ActionValueNetwork) and network.dueling,
    }
    if isinstance(network, QNetwork):  # The other kinds have one activation each.
        description["activation"] = network.activation
    save_file(
        # Where a tensor is not contiguous, safetensors writes what lies between its elements.
        {name: np.ascontiguousarray(tensor) for name, tensor in network.named_tensors(policy.weights).items()},
        path,
        metadata={"network": network.name, "description": json.dumps(description), **metadata},
    )


def load_policy(path: Path) -> Policy:
    """Read a policy.

    Raises
    ------
    ConfigError
        when the file is not a policy of a network that this version knows.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: not a safetensors file: {error}") from None
    kind = metadata.get("network", "")
    if kind not in KINDS:
        raise ConfigError(f"{path}: holds network {metadata.get('network')!r}; known: {', '.join(KINDS)}")
    try:
        description = json.loads(metadata["description"])
        seen = description["features"]
        features = tuple(map(int, seen)) if isinstance(seen, list) else int(seen)
        # What files of earlier versions do not say was then what it is by default.
        said = {key: description[key] for key in ("dueling", "activation") if key in description}
        config = convert({"kind": kind, "hidden": description["hidden"], **said}, NetworkConfig, "network")
        network = networks.build(config, features, int(description["actions"]))
        return Policy(network, network.flatten(tensors))
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError) as error:
        raise ConfigError(f"{path}: damaged policy: {error}") from None
