"""Perceptrons of actor-critics with a replay: a policy, and two critics of state and action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tianji import seeds
from tianji.algorithms.flat import FlatNetwork, Vector, head_shapes
from tianji.algorithms.mlp import relu, vectors, widths
from tianji.environments.actions import Actions
from tianji.environments.description import Features
from tianji.seeds import Stream

CRITICS = ("q1", "q2")
"""Prefixes of the critics' blocks."""


@dataclass(frozen=True)
class TwinCritics(FlatNetwork):
    """Three ReLU perceptrons of the same widths and, of SAC, the logarithm of the temperature.

    SAC's policy gives a mean and a log-scale for each number of an action, which depend on the state. A critic takes features
    and an action scaled to -1..1, and gives one value. In the flat vector the policy is first, since actors need it alone.
    """

    features: Features
    hidden: tuple[int, ...]
    actions: Actions
    name = "mlp-twin"
    returns = "a policy and two critics"
    soft: ClassVar[bool] = True
    """Whether the policy is a distribution whose entropy counts."""

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        inputs, numbers = widths(self, self.hidden)[0], self.actions.parts
        shapes = _perceptron("policy", inputs, self.hidden, (1 + self.soft) * numbers)
        for critic in CRITICS:
            shapes |= _perceptron(critic, inputs + numbers, self.hidden, 1)
        return shapes | ({"temperature.log": (1,)} if self.soft else {})

    def pieces(self) -> dict[str, slice]:
        """Slices of the flat vector: `policy`, `q1`, `q2` and, of SAC, `temperature`."""
        found: dict[str, slice] = {}
        end = 0
        for name, shape in self.shapes().items():
            owner, start = name.partition(".")[0], end
            end += math.prod(shape)
            found[owner] = slice(found[owner].start if owner in found else start, end)
        return found

    @property
    def acting(self) -> int:
        return int(self.pieces()["policy"].stop)

    def layers(self, flat: Vector, owner: str) -> list[Vector]:
        """Kernels of one perceptron, each with its bias as last row: [inputs + 1, outputs], views of the flat vector."""
        views, start = [], self.pieces()[owner].start
        for name, shape in self.shapes().items():
            if name.startswith(f"{owner}.") and name.endswith(".kernel"):
                end = start + (shape[0] + 1) * shape[1]
                views.append(flat[start:end].reshape(shape[0] + 1, shape[1]))
                start = end
        return views

    def initialise(self, seed: int) -> Vector:
        """Kernels and biases uniform in +-1 / sqrt(inputs), torch's default for layers; a temperature of 1."""
        rng, flat, inputs = seeds.generator(seed, Stream.WEIGHTS), np.zeros(self.size, np.float32), 1
        for name, block in self.views(flat).items():
            if name.endswith(".kernel"):
                inputs = len(block)
            if not name.startswith("temperature"):
                block[...] = rng.uniform(-1, 1, block.shape) / math.sqrt(inputs)
        return flat

    def scores(self, blocks: Mapping[str, Vector], x: NDArray[Any]) -> Vector:
        """Means, then log-scales, [N, 2 D]; of TD3, the numbers alone, [N, D]; all before tanh."""
        top, depth = vectors(x), len(self.hidden)
        for i in range(depth):
            top = top @ blocks[f"policy.{i}.kernel"]
            top += blocks[f"policy.{i}.bias"]
            relu(top)
        return top @ blocks[f"policy.{depth}.kernel"] + blocks[f"policy.{depth}.bias"]


@dataclass(frozen=True)
class Deterministic(TwinCritics):
    """The same with a policy that gives the numbers of an action, before tanh."""

    name = "mlp-deterministic"
    soft = False


def _perceptron(owner: str, inputs: int, hidden: tuple[int, ...], outputs: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for i, width in enumerate((*hidden, outputs)):
        shapes |= head_shapes(f"{owner}.{i}", inputs, width)
        inputs = width
    return shapes
