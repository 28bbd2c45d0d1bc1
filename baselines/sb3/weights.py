"""Conversion of weights between Stable-Baselines3's policies and the flat vector of the workload's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from baselines.normalisation import statistics
from tianji.algorithms.networks import Deterministic, FlatNetwork, NatureActorCritic, NatureQ, TwinCritics, Vector
from tianji.algorithms.twin import CRITICS

HEADS = ("actor.mu", "actor.log_std")
"""Its layers that give the means and the log-scales of SAC's policy."""


def _places(network: FlatNetwork) -> dict[str, tuple[str, ...]]:
    """Names of Stable-Baselines3's layers for each of ours (`policy.0`).

    A torch Sequential counts a linear layer, then its activation, and so on. DQN's policy holds its network twice: the
    second is the target network.
    """
    depth = len(network.hidden)
    if isinstance(network, NatureActorCritic | NatureQ):
        return _pictures(network)
    if isinstance(network, TwinCritics):
        return _twin(network)
    if network.name == "mlp-q":
        return {f"q.{i}": (f"q_net.q_net.{2 * i}", f"q_net_target.q_net.{2 * i}") for i in range(depth + 1)}
    places: dict[str, tuple[str, ...]] = {f"policy.{depth}": ("action_net",), f"value.{depth}": ("value_net",)}
    for tower in ("policy", "value"):
        places |= {f"{tower}.{i}": (f"mlp_extractor.{tower}_net.{2 * i}",) for i in range(depth)}
    return places


def _pictures(network: NatureActorCritic | NatureQ) -> dict[str, tuple[str, ...]]:
    """As `_places`, for a convolutional network. A policy with a value holds its extractor under three names."""
    shared = isinstance(network, NatureActorCritic)
    above = ("", "pi_", "vf_") if shared else ("q_net.", "q_net_target.")
    extractors = [f"{name}features_extractor" for name in above]
    places = {f"conv.{i}": tuple(f"{one}.cnn.{2 * i}" for one in extractors) for i in range(3)}
    places["dense.0"] = tuple(f"{one}.linear.0" for one in extractors)
    if shared:
        return places | {"policy": ("action_net",), "value": ("value_net",)}
    return places | {"q": ("q_net.q_net.0", "q_net_target.q_net.0")}


def _twin(network: TwinCritics) -> dict[str, tuple[str, ...]]:
    """As `_places`, for SAC and TD3. What has a target network is held twice: the second one is that."""
    depth = len(network.hidden)
    if network.soft:
        places: dict[str, tuple[str, ...]] = {f"policy.{i}": (f"actor.latent_pi.{2 * i}",) for i in range(depth)}
    else:
        places = {f"policy.{i}": (f"actor.mu.{2 * i}", f"actor_target.mu.{2 * i}") for i in range(depth + 1)}
    for number, critic in enumerate(CRITICS):
        for i in range(depth + 1):
            places[f"{critic}.{i}"] = tuple(f"{held}.qf{number}.{2 * i}" for held in ("critic", "critic_target"))
    return places


def to_sb3(network: FlatNetwork, flat: Vector) -> dict[str, torch.Tensor]:
    """The complete state of their policy; DQN's target network is the network.

    torch's linear layers hold [outputs, inputs]; ours [inputs, outputs].
    """
    tensors, state = network.named_tensors(flat), dict[str, torch.Tensor]()
    for ours, places in _places(network).items():
        for theirs in places:
            state[f"{theirs}.weight"] = torch.tensor(_turned(tensors[f"{ours}.kernel"]))
            state[f"{theirs}.bias"] = torch.tensor(tensors[f"{ours}.bias"])
    if isinstance(network, Deterministic):
        return state
    if isinstance(network, TwinCritics):
        # Its head has two layers: means, and log-scales.
        kernel, bias = (tensors[f"policy.{len(network.hidden)}.{part}"] for part in ("kernel", "bias"))
        for place, name in enumerate(HEADS):
            columns = slice(place * network.actions.parts, (place + 1) * network.actions.parts)
            state[f"{name}.weight"] = torch.tensor(_turned(kernel[:, columns]))
            state[f"{name}.bias"] = torch.tensor(bias[columns])
    elif network.actions.deviations:
        state["log_std"] = torch.tensor(tensors["policy.log_scale"])
    return state


def from_sb3(network: FlatNetwork, state: Mapping[str, Any], rest: Mapping[str, Vector] | None = None) -> Vector:
    """The flat vector, a copy, of a policy's state; of DQN's the network that is trained.

    Parameters
    ----------
    rest
        blocks that are no part of its policy, by our names: a temperature, and those by which observations are normalised.
        None: they are zero.
    """
    tensors = statistics(network, rest)
    for ours, (theirs, *_) in _places(network).items():
        tensors[f"{ours}.kernel"] = _turned(np.asarray(state[f"{theirs}.weight"]))
        tensors[f"{ours}.bias"] = np.asarray(state[f"{theirs}.bias"])
    if isinstance(network, Deterministic):
        return network.flatten(tensors)
    if isinstance(network, TwinCritics):
        kernels, biases = ([np.asarray(state[f"{name}.{part}"]) for name in HEADS] for part in ("weight", "bias"))
        head = f"policy.{len(network.hidden)}"
        tensors |= {f"{head}.kernel": _turned(np.concatenate(kernels)), f"{head}.bias": np.concatenate(biases)}
    elif network.actions.deviations:
        tensors["policy.log_scale"] = np.asarray(state["log_std"])
    return network.flatten(tensors)


def _turned(kernel: Vector) -> Vector:
    """A dense kernel with its axes exchanged; those of convolutions are torch's in both."""
    return np.ascontiguousarray(kernel.T) if kernel.ndim == 2 else kernel
