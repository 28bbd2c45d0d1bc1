"""Sizes of convolutional trunks, and the arithmetic of a forward pass through one.

Pictures of at least 36 x 36 pixels get the convolutions of Mnih et al. (2015). Smaller pictures get smaller kernels. The
smallest begin as MinAtar's networks do, with 16 kernels of 3 x 3 (Young & Tian, 2019, arXiv 1903.03176).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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


def layers(picture: Picture) -> list[tuple[Picture, tuple[int, ...]]]:
    """Shape of each convolution's output, and of its kernel [channels, channels below, side, side] as in torch."""
    found: list[tuple[Picture, tuple[int, ...]]] = []
    below, *sides = picture
    for channels, side, stride in convolutions(picture):
        sides = [(length - side) // stride + 1 for length in sides]
        found.append(((channels, *sides), (channels, below, side, side)))
        below = channels
    return found


def forward_flop(pictures: Iterable[Picture], hidden: Sequence[int], vector: int = 0) -> int:
    """Floating-point operations of a forward pass for one observation: two for each product, without heads and activations.

    Parameters
    ----------
    pictures
        the pictures of an observation.
    hidden
        widths of the dense layers.
    vector
        length of the vector beside the pictures.
    """
    products, inputs = 0, vector
    for picture in pictures:
        for (_, *sides), kernel in (found := layers(picture)):
            products += math.prod(sides) * math.prod(kernel)
        inputs += math.prod(found[-1][0])
    for width in hidden:
        products += inputs * width
        inputs = width
    return 2 * products
