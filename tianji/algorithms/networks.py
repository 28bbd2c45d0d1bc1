"""Policy and value networks as one flat float32 vector with named views.

A flat vector is what the system moves (weights), what Adam steps over in a handful of array operations, and what a
snapshot stores. Kernels are [inputs, outputs]: a layer is `x @ kernel + bias`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tianji.config import NetworkConfig

Vector = NDArray[np.float32]


class FlatNetwork(ABC):
    """A network whose parameters are blocks of one flat vector, in the order of `shapes`."""

    name: ClassVar[str]
    features: int
    hidden: tuple[int, ...]
    actions: int

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Blocks of the flat vector, in order."""

    @abstractmethod
    def initialise(self, seed: int) -> Vector:
        """Initial parameters, from a seed alone."""

    @abstractmethod
    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        """One array a layer and tower, for snapshots: `policy.0.kernel`, ..., `value.2.bias`. Views where possible."""

    @abstractmethod
    def scores(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """What actions are chosen by, [N, A], of features [N, F]: logits, or action values."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs of each hidden layer, then the width that the heads read."""
        return (self.features, *self.hidden)

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

    def flatten(self, tensors: Mapping[str, NDArray[Any]]) -> Vector:
        """Inverse of `named_tensors`.

        Raises
        ------
        ValueError
            when a tensor is missing or has another shape.
        """
        flat = np.zeros(self.size, np.float32)
        for name, place in self.named_tensors(flat).items():
            if name not in tensors or tensors[name].shape != place.shape:
                raise ValueError(f"network {self.name}: tensor {name} of shape {place.shape} is missing or has another shape")
            place[...] = tensors[name]
        return flat


@dataclass(frozen=True)
class ActorCritic(FlatNetwork):
    """Two tanh towers of the same widths over the same features, one ending in logits and one in a value.

    In the flat vector the two towers' hidden layers lie side by side ([2, inputs, outputs], policy first), so that
    one batched matrix product serves both; the heads follow.
    """

    features: int
    hidden: tuple[int, ...]
    actions: int
    name = "mlp-separate"

    def shapes(self) -> dict[str, tuple[int, ...]]:
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

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        blocks, depth = self.views(flat), len(self.hidden)
        tensors: dict[str, Vector] = {}
        for tower, name in enumerate(("policy", "value")):
            for i in range(depth):
                for part in ("kernel", "bias"):
                    tensors[f"{name}.{i}.{part}"] = blocks[f"hidden.{i}.{part}"][tower]
            for part in ("kernel", "bias"):
                tensors[f"{name}.{depth}.{part}"] = blocks[f"{name}.{part}"]
        return tensors

    def initialise(self, seed: int) -> Vector:
        """Orthogonal kernels (gain sqrt 2; policy head .01; value head 1) and zero biases."""
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

    def scores(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """Policy logits."""
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


@dataclass(frozen=True)
class QNetwork(FlatNetwork):
    """Action values: ReLU layers and a linear head."""

    features: int
    hidden: tuple[int, ...]
    actions: int
    name = "mlp-q"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (inputs, outputs) in enumerate(zip(self.widths, (*self.hidden, self.actions), strict=True)):
            shapes[f"q.{i}.kernel"] = (inputs, outputs)
            shapes[f"q.{i}.bias"] = (outputs,)
        return shapes

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        return self.views(flat)

    def initialise(self, seed: int) -> Vector:
        """Kernels and biases uniform in +-1 / sqrt(inputs), as torch's Linear begins."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1218]))
        flat = np.zeros(self.size, np.float32)
        blocks = self.views(flat)
        for i, inputs in enumerate(self.widths):
            for part in ("kernel", "bias"):
                block = blocks[f"q.{i}.{part}"]
                block[...] = rng.uniform(-1, 1, block.shape) / math.sqrt(inputs)
        return flat

    def scores(self, blocks: Mapping[str, Vector], x: Vector) -> Vector:
        """Action values."""
        depth = len(self.hidden)
        for i in range(depth):
            x = x @ blocks[f"q.{i}.kernel"]
            x += blocks[f"q.{i}.bias"]
            np.maximum(x, 0, out=x)
        return x @ blocks[f"q.{depth}.kernel"] + blocks[f"q.{depth}.bias"]


KINDS: dict[str, type[ActorCritic] | type[QNetwork]] = {kind.name: kind for kind in (ActorCritic, QNetwork)}


def build(config: NetworkConfig, features: int, actions: int) -> FlatNetwork:
    """The network of a configuration."""
    return KINDS[config.kind](features, tuple(config.hidden), actions)


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Vector:
    """A matrix with orthonormal rows or columns times `gain` (Saxe et al., 2014, arXiv 1312.6120)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if rows >= columns else q.T), np.float32)
