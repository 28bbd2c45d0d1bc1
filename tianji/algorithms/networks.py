"""Policy and value networks as one flat float32 vector with named views.

A flat vector is what the system moves (weights), what Adam steps over in a handful of array operations, and what a
snapshot stores. Kernels are [inputs, outputs]: a layer is `x @ kernel + bias`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.config import NetworkConfig

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class ActorCritic:
    """Two tanh towers of the same widths over the same features, one ending in logits and one in a value.

    In the flat vector the two towers' hidden layers lie side by side ([2, inputs, outputs], policy first), so that
    one batched matrix product serves both; the heads follow.
    """

    features: int
    hidden: tuple[int, ...]
    actions: int
    name = "mlp-separate"

    @classmethod
    def build(cls, config: NetworkConfig, features: int, actions: int) -> ActorCritic:
        return cls(features, tuple(config.hidden), actions)

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs of each layer, then the width that the heads read."""
        return (self.features, *self.hidden)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Blocks of the flat vector, in order."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (inputs, outputs) in enumerate(zip(self.widths, self.hidden, strict=False)):
            shapes[f"hidden.{i}.kernel"] = (2, inputs, outputs)
            shapes[f"hidden.{i}.bias"] = (2, outputs)
        last = self.widths[-1]
        shapes["policy.kernel"] = (last, self.actions)
        shapes["policy.bias"] = (self.actions,)
        shapes["value.kernel"] = (last, 1)
        shapes["value.bias"] = (1,)
        return shapes

    @property
    def size(self) -> int:
        """Parameters in all."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def views(self, flat: Any) -> dict[str, Any]:
        """Named blocks as views of a flat vector (NumPy or torch): writing to one writes to the vector."""
        blocks, offset = {}, 0
        for name, shape in self.shapes().items():
            count = math.prod(shape)
            blocks[name] = flat[offset : offset + count].reshape(shape)
            offset += count
        return blocks

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        """One array per layer and tower, for snapshots: `policy.0.kernel`, ..., `value.2.bias`."""
        blocks, depth = self.views(flat), len(self.hidden)
        tensors: dict[str, Vector] = {}
        for tower, name in enumerate(("policy", "value")):
            for i in range(depth):
                for part in ("kernel", "bias"):
                    tensors[f"{name}.{i}.{part}"] = np.ascontiguousarray(blocks[f"hidden.{i}.{part}"][tower])
            for part in ("kernel", "bias"):
                tensors[f"{name}.{depth}.{part}"] = np.ascontiguousarray(blocks[f"{name}.{part}"])
        return tensors

    def flatten(self, tensors: Mapping[str, NDArray[Any]]) -> Vector:
        """Inverse of `named_tensors`.

        Raises
        ------
        ValueError
            when a tensor is missing or has another shape.
        """
        flat = np.zeros(self.size, np.float32)
        blocks, depth = self.views(flat), len(self.hidden)
        for name, expected in self.named_tensors(flat).items():
            if name not in tensors or tensors[name].shape != expected.shape:
                raise ValueError(
                    f"network {self.name}: tensor {name} of shape {expected.shape} is missing or has another shape"
                )
            tower, layer, part = name.split(".")
            if int(layer) < depth:
                blocks[f"hidden.{layer}.{part}"][("policy", "value").index(tower)] = tensors[name]
            else:
                blocks[f"{tower}.{part}"][...] = tensors[name]
        return flat

    def initialise(self, seed: int) -> Vector:
        """Orthogonal kernels (gain sqrt 2; policy head .01; value head 1) and zero biases, from a seed."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1217]))
        flat = np.zeros(self.size, np.float32)
        blocks = self.views(flat)
        for i in range(len(self.hidden)):
            for tower in range(2):
                kernel = blocks[f"hidden.{i}.kernel"][tower]
                kernel[...] = orthogonal(rng, kernel.shape, math.sqrt(2))
        blocks["policy.kernel"][...] = orthogonal(rng, blocks["policy.kernel"].shape, 0.01)
        blocks["value.kernel"][...] = orthogonal(rng, blocks["value.kernel"].shape, 1.0)
        return flat

    def logits(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """Policy logits [N, A] of features [N, F]."""
        for i in range(len(self.hidden)):
            x = x @ blocks[f"hidden.{i}.kernel"][0]
            x += blocks[f"hidden.{i}.bias"][0]
            np.tanh(x, out=x)
        return x @ blocks["policy.kernel"] + blocks["policy.bias"]

    def values(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """State values [N] of features [N, F]."""
        for i in range(len(self.hidden)):
            x = x @ blocks[f"hidden.{i}.kernel"][1]
            x += blocks[f"hidden.{i}.bias"][1]
            np.tanh(x, out=x)
        return (x @ blocks["value.kernel"] + blocks["value.bias"])[:, 0]


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Vector:
    """A matrix with orthonormal rows or columns times `gain` (Saxe et al., 2014, arXiv 1312.6120)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if rows >= columns else q.T), np.float32)
