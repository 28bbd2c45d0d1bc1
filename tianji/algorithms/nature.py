"""Convolutional networks like those of Mnih et al. (2015), computed in torch, which is imported at first use.

They have convolutions (`tianji.algorithms.convolutions`), then dense layers, all with ReLU, then heads. Pictures are bytes
[N, channels, height, width], which the network divides by `pixel_scale`. Several pictures, or pictures with a vector, come as
rows of bytes (`Branches`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tianji.algorithms.convolutions import trunk_shapes
from tianji.algorithms.flat import (
    PIXEL_SCALE,
    ActionValueNetwork,
    FlatNetwork,
    PolicyValueNetwork,
    Vector,
    head_shapes,
    policy_shapes,
)
from tianji.algorithms.mlp import split_streams
from tianji.environments.actions import Actions
from tianji.environments.description import Branches


@dataclass(frozen=True)
class NatureActorCritic(PolicyValueNetwork):
    """Scores of a policy and a value on one trunk."""

    features: tuple[int, ...] | Branches
    hidden: tuple[int, ...]
    actions: Actions
    pixel_scale: float = PIXEL_SCALE
    name = "nature-shared"

    def description(self) -> dict[str, Any]:
        return {**super().description(), "pixel_scale": self.pixel_scale}

    def load(self) -> None:
        _load()

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        trunk, last = trunk_shapes(self.features, self.hidden)
        return trunk | policy_shapes(last, self.actions) | head_shapes("value", last, 1)

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        scores, values = _infer(self, blocks, x)
        return scores, values


@dataclass(frozen=True)
class NatureQ(ActionValueNetwork):
    """Action values on one trunk, or on two streams with `dueling`."""

    features: tuple[int, ...] | Branches
    hidden: tuple[int, ...]
    actions: Actions
    dueling: bool = False
    pixel_scale: float = PIXEL_SCALE
    name = "nature-q"

    def description(self) -> dict[str, Any]:
        return {**super().description(), "pixel_scale": self.pixel_scale}

    def load(self) -> None:
        _load()

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        trunk, last = trunk_shapes(self.features, self.outputs)
        if not self.dueling:
            return trunk | head_shapes("q", last, self.actions.outputs)
        return trunk | head_shapes("value", last // 2, 1) | head_shapes("advantage", last // 2, self.actions.outputs)

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        blocks = self.views(flat)
        return split_streams(blocks, f"dense.{len(self.hidden) - 1}", self.hidden[-1]) if self.dueling else blocks

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Action values."""
        (values,) = _infer(self, blocks, x)
        return values


def _load() -> None:
    importlib.import_module("tianji.algorithms.networks_torch")


def _infer(network: FlatNetwork, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, ...]:
    from tianji.algorithms.networks_torch import infer

    return infer(network, blocks, x)
