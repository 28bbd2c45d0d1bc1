"""Parameters of convolutional trunks (`tianji.trunks`), and the pictures among a network's features."""

from __future__ import annotations

import math

from tianji.algorithms.flat import head_shapes
from tianji.environments.description import Branches
from tianji.trunks import Picture, layers


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
        found = layers(picture)
        for i, (_, kernel) in enumerate(found):
            shapes[f"{prefix}conv.{i}.kernel"] = kernel
            shapes[f"{prefix}conv.{i}.bias"] = kernel[:1]
        inputs += math.prod(found[-1][0])
    for i, width in enumerate(outputs):
        shapes |= head_shapes(f"dense.{i}", inputs, width)
        inputs = width
    return shapes, inputs
