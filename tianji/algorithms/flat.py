"""What every network here is: parameters in one flat float32 vector, with named views.

A flat vector is what the system moves (weights), what Adam steps over in a handful of array operations, and what a
snapshot stores. Dense kernels are [inputs, outputs]: a layer is `x @ kernel + bias`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Features = int | tuple[int, ...]
"""What a network sees of one observation: a vector's length, or an image's (frames, height, width)."""


class FlatNetwork(ABC):
    """A network whose parameters are blocks of one flat vector, in the order of `shapes`."""

    name: ClassVar[str]
    features: Features
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
    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """What actions are chosen by, [N, A], of encoded observations [N, ...]: logits, or action values."""

    def description(self) -> dict[str, Any]:
        """What it takes, beside the kind, to make this network again: plain data."""
        return {"features": self.features, "hidden": self.hidden, "actions": self.actions, "dueling": False}

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
            when a tensor is missing, has another shape, or is none of this network's.
        """
        flat = np.zeros(self.size, np.float32)
        places = self.named_tensors(flat)
        if unknown := tensors.keys() - places.keys():
            raise ValueError(f"network {self.name}: it has no tensor {min(unknown)}")
        for name, place in places.items():
            if name not in tensors or tensors[name].shape != place.shape:
                raise ValueError(f"network {self.name}: tensor {name} of shape {place.shape} is missing or has another shape")
            place[...] = tensors[name]
        return flat


class PolicyValueNetwork(FlatNetwork):
    """Logits of a policy and state values."""

    @abstractmethod
    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """State values [N] of encoded observations [N, ...]."""

    @abstractmethod
    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        """Logits [N, A] and state values [N]; what the two share is computed once."""


class ActionValueNetwork(FlatNetwork):
    """Action values.

    Where it is `dueling`, its last hidden layer is two of the same width side by side, one for the state's value and
    one for the actions' advantages (Wang et al., 2016): to that point it is one network with a wider layer.
    """

    dueling: bool

    def description(self) -> dict[str, Any]:
        return {**super().description(), "dueling": self.dueling}

    @property
    def outputs(self) -> tuple[int, ...]:
        """Outputs of each hidden layer, both streams' together."""
        if not self.dueling:
            return self.hidden
        return (*self.hidden[:-1], 2 * self.hidden[-1])


def head_shapes(prefix: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """Blocks of one dense layer."""
    return {f"{prefix}.kernel": (inputs, outputs), f"{prefix}.bias": (outputs,)}


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Vector:
    """A matrix with orthonormal rows or columns times `gain` (Saxe et al., 2014, arXiv 1312.6120)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if rows >= columns else q.T), np.float32)


def uniform(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Vector:
    """Uniform in +-1 / sqrt(inputs), as torch's layers begin."""
    return np.asarray(rng.uniform(-1, 1, shape) / math.sqrt(inputs), np.float32)
