"""Convolutional networks of Mnih et al. (2015), computed in torch, which is imported at first use.

They have three convolutions, then dense layers, all with ReLU, then heads. The convolutions have 32 kernels of 8x8 with
stride 4, 64 of 4x4 with stride 2, and 64 of 3x3 with stride 1. Images are bytes [N, frames, height, width], which the network
scales to 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tianji.algorithms.convolutions import trunk_shapes
from tianji.algorithms.flat import ActionValueNetwork, FlatNetwork, PolicyValueNetwork, Vector, head_shapes
from tianji.algorithms.mlp import split_streams


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

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        logits, values = _infer(self, blocks, x)
        return logits, values


@dataclass(frozen=True)
class NatureQ(ActionValueNetwork):
    """Action values on one trunk, or on two streams with `dueling`."""

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

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Action values."""
        (values,) = _infer(self, blocks, x)
        return values


def _infer(network: FlatNetwork, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, ...]:
    from tianji.algorithms.networks_torch import infer

    return infer(network, blocks, x)
