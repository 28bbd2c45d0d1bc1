"""Conversion of weights between SBX's Flax modules and the flat vector of the workload's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tianji.algorithms.networks import FlatNetwork, Vector

Variables = Mapping[str, Any]
"""Variables of a Flax module: `{"params": {"Dense_0": {"kernel", "bias"}, ...}}`. Kernels are [inputs, outputs], as ours."""


def to_flax(network: FlatNetwork, flat: Vector, tower: str) -> dict[str, Any]:
    """Variables of the module that computes a tower of the network: `policy`, `value` or `q`."""
    tensors = network.named_tensors(flat)
    layers = range(len(network.hidden) + 1)
    parts = ("kernel", "bias")
    # Copies, because a tensor is a view into the flat vector.
    return {"params": {f"Dense_{i}": {part: np.array(tensors[f"{tower}.{i}.{part}"]) for part in parts} for i in layers}}


def from_flax(network: FlatNetwork, towers: Mapping[str, Variables]) -> Vector:
    """The flat vector of modules, by tower, as a copy."""
    return network.flatten(
        {
            f"{tower}.{layer.removeprefix('Dense_')}.{part}": np.asarray(value)
            for tower, variables in towers.items()
            for layer, parts in variables["params"].items()
            for part, value in parts.items()
        }
    )
