"""Convolutional networks of Mnih et al. (2015), computed in torch, which is imported when one is first asked.

Three convolutions with ReLU (32 of 8x8, stride 4; 64 of 4x4, stride 2; 64 of 3x3, stride 1), dense layers with ReLU, and
heads. Images come as bytes [N, frames, height, width] and are scaled to 0..1 inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms.flat import (
    ActionValueNetwork,
    FlatNetwork,
    PolicyValueNetwork,
    Vector,
    head_shapes,
    orthogonal,
    uniform,
)
from tianji.algorithms.mlp import split_streams
from tianji.seeds import Stream

CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, side of the kernel and stride of each."""


def trunk_shapes(features: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[dict[str, tuple[int, ...]], int]:
    """Blocks of the convolutions and dense layers, and the width that heads read.

    A convolution's kernel is [channels, channels below, side, side], as torch has it.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    below, *sides = features
    for i, (channels, side, stride) in enumerate(CONVOLUTIONS):
        shapes[f"conv.{i}.kernel"] = (channels, below, side, side)
        shapes[f"conv.{i}.bias"] = (channels,)
        below = channels
        sides = [(length - side) // stride + 1 for length in sides]
    inputs = below * math.prod(sides)
    for i, width in enumerate(outputs):
        shapes |= head_shapes(f"dense.{i}", inputs, width)
        inputs = width
    return shapes, inputs


@dataclass(frozen=True)
class NatureActorCritic(PolicyValueNetwork):
    """Logits and a value on one trunk."""

    features: tuple[int, ...]
    hidden: tuple[int, ...]
    actions: int
    name = "nature-shared"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        trunk, last = trunk_shapes(self.features, self.hidden)
        return trunk | head_shapes("policy", last, self.actions) | head_shapes("value", last, 1)

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        return self.views(flat)

    def initialise(self, seed: int) -> Vector:
        """Orthogonal kernels (gain sqrt 2; policy head .01; value head 1) and zero biases."""
        rng = seeds.generator(seed, Stream.WEIGHTS)
        flat = np.zeros(self.size, np.float32)
        gains = {"policy.kernel": 0.01, "value.kernel": 1.0}
        for name, block in self.views(flat).items():
            if name.endswith("kernel"):
                matrix = (len(block), block[0].size)
                block[...] = orthogonal(rng, matrix, gains.get(name, math.sqrt(2))).reshape(block.shape)
        return flat

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Policy logits."""
        return self.both(blocks, x)[0]

    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        return self.both(blocks, x)[1]

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        logits, values = _infer(self, blocks, x)
        return logits, values


@dataclass(frozen=True)
class NatureQ(ActionValueNetwork):
    """Action values on one trunk, or on two streams where it is dueling."""

    features: tuple[int, ...]
    hidden: tuple[int, ...]
    actions: int
    dueling: bool = False
    name = "nature-q"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        trunk, last = trunk_shapes(self.features, self.outputs)
        if not self.dueling:
            return trunk | head_shapes("q", last, self.actions)
        return trunk | head_shapes("value", last // 2, 1) | head_shapes("advantage", last // 2, self.actions)

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        blocks = self.views(flat)
        return split_streams(blocks, f"dense.{len(self.hidden) - 1}", self.hidden[-1]) if self.dueling else blocks

    def initialise(self, seed: int) -> Vector:
        """Kernels and biases uniform in +-1 / sqrt(inputs), as torch's layers begin."""
        rng = seeds.generator(seed, Stream.WEIGHTS)
        flat = np.zeros(self.size, np.float32)
        inputs = 0
        for name, block in self.views(flat).items():
            if name.endswith("kernel"):
                inputs = block[0].size if name.startswith("conv") else len(block)
            block[...] = uniform(rng, block.shape, inputs)
        return flat

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Action values."""
        (values,) = _infer(self, blocks, x)
        return values


def _infer(network: FlatNetwork, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, ...]:
    from tianji.algorithms.networks_torch import infer

    return infer(network, blocks, x)
