"""Conversion of weights between SBX's Flax modules and the flat vector of the workload's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baselines.normalisation import statistics
from tianji.algorithms.networks import FlatNetwork, TwinCritics, Vector
from tianji.algorithms.twin import CRITICS

Variables = Mapping[str, Any]
"""Variables of a Flax module: `{"params": {"Dense_0": {"kernel", "bias"}, ...}}`. Kernels are [inputs, outputs], as ours."""
SCALE = "log_std"
"""Its name for the logarithm of the deviations of actions that are numbers."""
BOTH = "VmapContinuousCritic_0"
"""Its name for both critics of SAC, whose arrays have one more axis in front."""


def to_flax(network: FlatNetwork, flat: Vector, tower: str) -> dict[str, Any]:
    """Variables of the module that computes a tower of the network: `policy`, `value` or `q` (of SAC, both critics)."""
    tensors = network.named_tensors(flat)
    if isinstance(network, TwinCritics):
        return _twin(network, tensors, tower)
    layers = range(len(network.hidden) + 1)
    parts = ("kernel", "bias")
    # Copies, because a tensor is a view into the flat vector.
    found: dict[str, Any] = {f"Dense_{i}": {part: np.array(tensors[f"{tower}.{i}.{part}"]) for part in parts} for i in layers}
    if tower == "policy" and network.actions.deviations:
        found[SCALE] = np.array(tensors["policy.log_scale"])
    return {"params": found}


def from_flax(network: FlatNetwork, towers: Mapping[str, Variables], rest: Mapping[str, Vector] | None = None) -> Vector:
    """The flat vector of modules, by tower, as a copy.

    Parameters
    ----------
    rest
        blocks that are no part of its modules, by our names: those by which observations are normalised. None: they are zero.
    """
    tensors = statistics(network, rest)
    for tower, variables in towers.items():
        if isinstance(network, TwinCritics):
            tensors |= _from_twin(network, variables["params"], tower)
            continue
        for layer, parts in variables["params"].items():
            if layer == SCALE:
                tensors["policy.log_scale"] = np.asarray(parts)
            else:
                number = layer.removeprefix("Dense_")
                tensors |= {f"{tower}.{number}.{part}": np.asarray(value) for part, value in parts.items()}
    return network.flatten(tensors)


def temperature(state: Any) -> Vector:
    """The logarithm of the temperature that a training state of SAC holds; of a fixed one too."""
    (value,) = state.params.values()
    return np.asarray(value, np.float32).reshape(1)


def _twin(network: TwinCritics, tensors: Mapping[str, Vector], tower: str) -> dict[str, Any]:
    """As `to_flax`, for SAC: the policy's head is two layers, means and log-scales."""
    depth, numbers = len(network.hidden), network.actions.parts
    found: dict[str, Any] = {}
    for part in ("kernel", "bias"):
        for i in range(depth + 1):
            ours = [tensors[f"{owner}.{i}.{part}"] for owner in (CRITICS if tower == "q" else ("policy",))]
            found.setdefault(f"Dense_{i}", {})[part] = np.stack(ours) if tower == "q" else np.array(ours[0])
    if tower == "q":
        return {"params": {BOTH: found}}
    head = found.pop(f"Dense_{depth}")
    for place in range(2):
        columns = slice(place * numbers, (place + 1) * numbers)
        found[f"Dense_{depth + place}"] = {part: array[..., columns] for part, array in head.items()}
    return {"params": found}


def _from_twin(network: TwinCritics, params: Mapping[str, Any], tower: str) -> dict[str, Vector]:
    """Inverse of `_twin`, as named tensors."""
    depth = len(network.hidden)
    if tower == "q":
        layers = params[BOTH]
        return {
            f"{owner}.{i}.{part}": np.asarray(layers[f"Dense_{i}"][part])[place]
            for place, owner in enumerate(CRITICS)
            for i in range(depth + 1)
            for part in ("kernel", "bias")
        }
    found: dict[str, Vector] = {}
    for part in ("kernel", "bias"):
        found |= {f"policy.{i}.{part}": np.asarray(params[f"Dense_{i}"][part]) for i in range(depth)}
        heads = [np.asarray(params[f"Dense_{depth + place}"][part]) for place in range(2)]
        found[f"policy.{depth}.{part}"] = np.concatenate(heads, axis=-1)
    return found
