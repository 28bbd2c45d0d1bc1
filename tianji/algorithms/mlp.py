"""Multilayer perceptrons, computed in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tianji.algorithms.flat import (
    ActionValueNetwork,
    FlatNetwork,
    Parts,
    PolicyValueNetwork,
    Vector,
    head_shapes,
    parted,
    policy_scores,
    policy_shapes,
)
from tianji.algorithms.gelu import gelu
from tianji.environments.actions import Actions
from tianji.environments.description import Branches, Features

TOGETHER = 512
"""Rows that a network of action values computes together. Hidden layers of more rows leave a core's cache."""


def vectors(x: NDArray[Any]) -> Vector:
    """Encoded observations as vectors [N, F]. Images (bytes) are flattened and scaled to 0..1."""
    if x.dtype != np.uint8:
        return x
    return x.reshape(len(x), -1).astype(np.float32) / np.float32(255)


def relu(x: Vector) -> None:
    """max(x, 0) in place, [N, F]. Against a row of zeros it takes half as long as against a single zero."""
    np.maximum(x, np.zeros(x.shape[1], np.float32), out=x)


def widths(network: FlatNetwork, outputs: tuple[int, ...]) -> tuple[int, ...]:
    """Number of inputs of each hidden layer, then of the heads."""
    features = network.features
    assert not isinstance(features, Branches)
    return (features if isinstance(features, int) else math.prod(features), *outputs)


@dataclass(frozen=True)
class ActorCritic(PolicyValueNetwork):
    """Two tanh towers of the same widths over the same features: one gives the outputs of a policy, the other a value.

    In the flat vector the hidden layers of both towers lie side by side, [2, inputs, outputs] with the policy first, so that
    one batched matrix product computes both. The heads follow.
    """

    features: Features
    hidden: tuple[int, ...]
    actions: Actions
    normalised: int = 0
    normalised_clip: float = 10.0
    name = "mlp-separate"
    towers: ClassVar[tuple[str, ...]] = ("policy", "value")

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        inputs_of, count = widths(self, self.hidden), len(self.towers)
        for i, (inputs, outputs) in enumerate(zip(inputs_of, self.hidden, strict=False)):
            shapes[f"hidden.{i}.kernel"] = (count, inputs, outputs)
            shapes[f"hidden.{i}.bias"] = (count, outputs)
        return shapes | policy_shapes(inputs_of[-1], self.actions) | head_shapes("value", inputs_of[-1], 1)

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        blocks, depth = self.views(flat), len(self.hidden)
        tensors: dict[str, Vector] = {}
        for tower, name in enumerate(self.towers):
            for i in range(depth):
                for part in ("kernel", "bias"):
                    tensors[f"{name}.{i}.{part}"] = blocks[f"hidden.{i}.{part}"][tower]
        for name in ("policy", "value"):
            for part in ("kernel", "bias"):
                tensors[f"{name}.{depth}.{part}"] = blocks[f"{name}.{part}"]
        if self.actions.deviations:
            tensors["policy.log_scale"] = blocks["policy.log_scale"]
        tensors |= {name: block for name, block in blocks.items() if name.startswith("normaliser.")}
        return tensors

    def description(self) -> dict[str, Any]:
        return {**super().description(), "normalised": self.normalised}

    def parts(self) -> Parts | None:
        if self.hidden and len(self.towers) == 1:
            return None
        owned = []
        for name, shape in self.shapes().items():
            owners = self.towers if name.startswith("hidden") else (name.partition(".")[0],)
            owned += [(owner == "value", math.prod(shape) // len(owners)) for owner in owners]
        return parted(owned)

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Scores of the policy."""
        return policy_scores(self.actions, blocks, self.latent(blocks, x))

    def latent(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Last hidden layer of the policy, [N, L]."""
        return self._tower(blocks, x, 0)

    @property
    def latent_width(self) -> int:
        """Width L of the last hidden layer."""
        return widths(self, self.hidden)[-1]

    def values(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        return (self._tower(blocks, x, -1) @ blocks["value.kernel"] + blocks["value.bias"])[:, 0]

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        return self.scores(blocks, x), self.values(blocks, x)

    def _tower(self, blocks: Mapping[str, Vector], x: NDArray[Any], tower: int) -> Vector:
        x = vectors(x)
        for i in range(len(self.hidden)):
            x = x @ blocks[f"hidden.{i}.kernel"][tower]
            x += blocks[f"hidden.{i}.bias"][tower]
            np.tanh(x, out=x)
        return x


@dataclass(frozen=True)
class SharedActorCritic(ActorCritic):
    """One tanh tower that ends in both the outputs of a policy and a value."""

    name = "mlp-shared"
    towers = ("shared",)

    def both(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> tuple[Vector, Vector]:
        top = self._tower(blocks, x, 0)
        value = (top @ blocks["value.kernel"] + blocks["value.bias"])[:, 0]
        return policy_scores(self.actions, blocks, top), value


@dataclass(frozen=True)
class QNetwork(ActionValueNetwork):
    """Action values from ReLU or GELU layers and a linear head (two heads with `dueling`)."""

    features: Features
    hidden: tuple[int, ...]
    actions: Actions
    dueling: bool = False
    activation: str = "relu"
    """`relu` or `gelu`."""
    name = "mlp-q"

    def description(self) -> dict[str, Any]:
        return {**super().description(), "activation": self.activation}

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        inputs_of, depth = widths(self, self.outputs), len(self.hidden)
        for i, (inputs, outputs) in enumerate(zip(inputs_of, self.outputs, strict=False)):
            shapes |= head_shapes(f"q.{i}", inputs, outputs)
        if not self.dueling:
            return shapes | head_shapes(f"q.{depth}", inputs_of[-1], self.actions.outputs)
        last = self.hidden[-1]
        return shapes | head_shapes("value", last, 1) | head_shapes("advantage", last, self.actions.outputs)

    def named_tensors(self, flat: Vector) -> dict[str, Vector]:
        blocks = self.views(flat)
        return split_streams(blocks, f"q.{len(self.hidden) - 1}", self.hidden[-1]) if self.dueling else blocks

    def layers(self, flat: Vector) -> list[Vector]:
        """Kernels of all layers but heads of streams, each with its bias as last row: [inputs + 1, outputs], views of `flat`.

        With a one after its inputs, a layer is a single product.
        """
        views, start = [], 0
        kernels = [shape for name, shape in self.shapes().items() if name.startswith("q.") and name.endswith(".kernel")]
        for inputs, outputs in kernels:
            end = start + (inputs + 1) * outputs
            views.append(flat[start:end].reshape(inputs + 1, outputs))
            start = end
        return views

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Action values."""
        if len(x) <= TOGETHER:
            return self._scores(blocks, x)
        return np.concatenate([self._scores(blocks, x[at : at + TOGETHER]) for at in range(0, len(x), TOGETHER)])

    def _scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        top, depth = vectors(x), len(self.hidden)
        for i in range(depth):
            top = top @ blocks[f"q.{i}.kernel"]
            top += blocks[f"q.{i}.bias"]
            if self.activation == "gelu":
                gelu(top)
            else:
                relu(top)
        if self.dueling:
            return np.asarray(duel(blocks, top))
        return top @ blocks[f"q.{depth}.kernel"] + blocks[f"q.{depth}.bias"]


def duel(blocks: Mapping[str, Any], top: Any) -> Any:
    """Action values [N, A] from the last hidden layers of both streams, side by side (NumPy or torch).

    Q = V + A - mean A (Wang et al., 2016, arXiv 1511.06581, equation 9).
    """
    last = top.shape[1] // 2
    value = top[:, :last] @ blocks["value.kernel"] + blocks["value.bias"]
    advantage = top[:, last:] @ blocks["advantage.kernel"] + blocks["advantage.bias"]
    return value + advantage - advantage.mean(1)[:, None]


def split_streams(blocks: dict[str, Vector], layer: str, width: int) -> dict[str, Vector]:
    """Named tensors of a dueling network, with each stream's hidden layer and head apart."""
    tensors = {name: block for name, block in blocks.items() if not name.startswith(("value.", "advantage.", f"{layer}."))}
    for stream, columns in (("value", slice(width)), ("advantage", slice(width, None))):
        for part in ("kernel", "bias"):
            tensors[f"{stream}.0.{part}"] = blocks[f"{layer}.{part}"][..., columns]
            tensors[f"{stream}.1.{part}"] = blocks[f"{stream}.{part}"]
    return tensors
