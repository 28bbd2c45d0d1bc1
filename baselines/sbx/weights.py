"""Conversion of weights between SBX's Flax modules and the flat vector of the workload's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baselines.sb3.translate import statistics
from tianji.algorithms.networks import FlatNetwork, Vector

Variables = Mapping[str, Any]
"""Variables of a Flax module: `{"params": {"Dense_0": {"kernel", "bias"}, ...}}`. Kernels are [inputs, outputs], as ours."""
SCALE = "log_std"
"""Its name for the logarithm of the deviations of actions that are numbers."""


def to_flax(network: FlatNetwork, flat: Vector, tower: str) -> dict[str, Any]:
    """Variables of the module that computes a tower of the network: `policy`, `value` or `q`."""
    tensors = network.named_tensors(flat)
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
        for layer, parts in variables["params"].items():
            if layer == SCALE:
                tensors["policy.log_scale"] = np.asarray(parts)
            else:
                number = layer.removeprefix("Dense_")
                tensors |= {f"{tower}.{number}.{part}": np.asarray(value) for part, value in parts.items()}
    return network.flatten(tensors)
