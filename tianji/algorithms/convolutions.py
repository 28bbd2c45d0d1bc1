"""Sizes of the convolutions of Mnih et al. (2015), shared by the layout of parameters and by the computation."""

from __future__ import annotations

import math

from tianji.algorithms.flat import head_shapes

CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, side of the kernel and stride of each."""


def trunk_shapes(features: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[dict[str, tuple[int, ...]], int]:
    """Shapes of the convolutions and dense layers, and the width of the heads' input.

    A convolution's kernel is [channels, channels below, side, side], as in torch.
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
