"""Sizes of convolutional trunks, shared by the layout of parameters and by the computation.

Pictures of at least 36 x 36 pixels get the convolutions of Mnih et al. (2015). Smaller pictures get smaller kernels. The
smallest begin as MinAtar's networks do, with 16 kernels of 3 x 3 (Young & Tian, 2019, arXiv 1903.03176).
"""

from __future__ import annotations

import math

from tianji.algorithms.flat import head_shapes
from tianji.environments.description import Branches

CONVOLUTIONS = (
    (36, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    (16, ((32, 4, 2), (64, 3, 2), (64, 3, 1))),
    (5, ((16, 3, 1), (32, 3, 1))),
)
"""Smallest side in pixels, then channels, side of the kernel and stride of each convolution."""
SMALLEST_IMAGE = CONVOLUTIONS[-1][0]
"""Side in pixels of the smallest picture that has convolutions."""

Picture = tuple[int, ...]
"""(channels, height, width) of a picture."""


def convolutions(picture: Picture) -> tuple[tuple[int, int, int], ...]:
    """Channels, side of the kernel and stride of each convolution for a picture."""
    return next(found for side, found in CONVOLUTIONS if min(picture[1:]) >= side)


def pictures(features: Picture | Branches) -> dict[str, Picture]:
    """Each picture among the features, by the prefix of its parameters' names."""
    if not isinstance(features, Branches):
        return {"": features}
    return {f"picture.{i}.": picture for i, picture in enumerate(features.images)}


def trunk_shapes(features: Picture | Branches, outputs: tuple[int, ...]) -> tuple[dict[str, tuple[int, ...]], int]:
    """Shapes of the convolutions and dense layers, and the width of the heads' input.

    A convolution's kernel is [channels, channels below, side, side], as in torch. What comes of all pictures, and a vector if
    there is one, lie side by side before the first dense layer.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    inputs = features.vector if isinstance(features, Branches) else 0
    for prefix, picture in pictures(features).items():
        below, *sides = picture
        for i, (channels, side, stride) in enumerate(convolutions(picture)):
            shapes[f"{prefix}conv.{i}.kernel"] = (channels, below, side, side)
            shapes[f"{prefix}conv.{i}.bias"] = (channels,)
            below = channels
            sides = [(length - side) // stride + 1 for length in sides]
        inputs += below * math.prod(sides)
    for i, width in enumerate(outputs):
        shapes |= head_shapes(f"dense.{i}", inputs, width)
        inputs = width
    return shapes, inputs
