"""Networks whose parameters are one flat float32 vector with named views.

The system sends this vector as weights, Adam updates it in a few array operations, and a snapshot stores it. Dense kernels
are [inputs, outputs]: a layer is `x @ kernel + bias`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.seeds import Stream

Vector = NDArray[np.float32]
Features = int | tuple[int, ...]
"""Shape of one encoded observation: the length of a vector, or (frames, height, width) of an image."""
Parts = tuple[tuple[slice, ...], tuple[slice, ...]]
"""Slices of a flat vector that are the policy's, and those that are the value's."""


class FlatNetwork(ABC):
    """Network whose parameters are blocks of one flat vector, in the order of `shapes`."""

    name: ClassVar[str]
    returns: ClassVar[str]
    """Description, for error messages, of what a user's network of this kind returns."""
    features: Features
    hidden: tuple[int, ...]
    actions: int

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each block of the flat vector, in order."""

    @abstractmethod
    def initialise(self, seed: int) -> Vector:
        """Initial parameters, which depend on the seed alone."""

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        """Arrays of each layer and tower for snapshots: `policy.0.kernel`, ..., `value.2.bias`. Views if possible."""
        return self.views(flat)

    @abstractmethod
    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Logits or action values, [N, A], for encoded observations [N, ...]."""

    def description(self) -> dict[str, Any]:
        """Plain data from which, with the kind, the same network can be made again."""
        return {"features": self.features, "hidden": self.hidden, "actions": self.actions, "dueling": False}

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def views(self, flat: Any) -> dict[str, Any]:
        """Named blocks as views of a flat vector (NumPy or torch). Writing to a view writes to the vector."""
        blocks, offset = {}, 0
        for name, shape in self.shapes().items():
            count = math.prod(shape)
            blocks[name] = flat[offset : offset + count].reshape(shape)
            offset += count
        return blocks

    def parts(self) -> Parts | None:
        """Slices of the flat vector that are the policy's, and those that are the value's. Together they are the whole vector.

        None: policy and value share parameters, or the network has not both.
        """
        return None

    def flatten(self, tensors: Mapping[str, NDArray[Any]]) -> Vector:
        """Inverse of `named_tensors`.

        Raises
        ------
        ValueError
            if a tensor is missing, has another shape, or does not belong to this network.
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
    """Network with logits of a policy and state values."""

    returns = "a pair"

    def initialise(self, seed: int) -> Vector:
        """Orthogonal kernels (gain sqrt 2; policy head .01; value head 1) and zero biases."""
        rng, flat = seeds.generator(seed, Stream.WEIGHTS), np.zeros(self.size, np.float32)
        gains = {"policy.kernel": 0.01, "value.kernel": 1.0}
        for name, block in self.views(flat).items():
            if name.endswith("kernel"):
                # Each tower has a matrix. A convolution's kernel is treated as a matrix [out, in x side x side].
                for matrix in block if block.ndim == 3 else [block.reshape(len(block), -1)]:
                    matrix[...] = orthogonal(rng, matrix.shape, gains.get(name, math.sqrt(2)))
        return flat

    @staticmethod
    def outputs_of(actions: int) -> str:
        """Description, for error messages, of the outputs for N observations."""
        return f"a pair (logits [N, {actions}], values [N])"

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Policy logits."""
        return self.both(blocks, x)[0]

    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """State values [N] of encoded observations [N, ...]."""
        return self.both(blocks, x)[1]

    @abstractmethod
    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        """Logits [N, A] and state values [N]. Shared layers are computed once."""


class ActionValueNetwork(FlatNetwork):
    """Network with action values.

    With `dueling`, the last hidden layer is twice as wide: one half is the stream of the state's value, the other the stream
    of the actions' advantages (Wang et al., 2016).
    """

    dueling: bool
    returns = "one tensor"

    @staticmethod
    def outputs_of(actions: int) -> str:
        """Description, for error messages, of the outputs for N observations."""
        return f"action values [N, {actions}]"

    def initialise(self, seed: int) -> Vector:
        """Kernels and biases uniform in +-1 / sqrt(inputs), torch's default for layers."""
        rng, flat, inputs = seeds.generator(seed, Stream.WEIGHTS), np.zeros(self.size, np.float32), 0
        for block in self.views(flat).values():
            if block.ndim > 1:  # A kernel: [inputs, outputs], or [out, in, side, side] for a convolution.
                inputs = len(block) if block.ndim == 2 else block[0].size
            block[...] = rng.uniform(-1, 1, block.shape) / math.sqrt(inputs)
        return flat

    def description(self) -> dict[str, Any]:
        return {**super().description(), "dueling": self.dueling}

    @property
    def outputs(self) -> tuple[int, ...]:
        """Number of outputs of each hidden layer. Dueling streams count together."""
        if not self.dueling:
            return self.hidden
        return (*self.hidden[:-1], 2 * self.hidden[-1])


def parted(owned: Iterable[tuple[bool, int]]) -> Parts:
    """Parts of a vector from its blocks in order: whether each is the value's, and its number of parameters."""
    parts: tuple[list[slice], list[slice]] = [], []
    start = 0
    for of_value, size in owned:
        part, end = parts[of_value], start + size
        if part and part[-1].stop == start:
            part[-1] = slice(part[-1].start, end)
        else:
            part.append(slice(start, end))
        start = end
    return tuple(parts[0]), tuple(parts[1])


def head_shapes(prefix: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of one dense layer's blocks."""
    return {f"{prefix}.kernel": (inputs, outputs), f"{prefix}.bias": (outputs,)}


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Vector:
    """A matrix with orthonormal rows or columns times `gain` (Saxe et al., 2014, arXiv 1312.6120)."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if rows >= columns else q.T), np.float32)
