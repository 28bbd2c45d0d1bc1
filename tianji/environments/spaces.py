"""Spaces of Gymnasium, read: actions as plain data, and observations as one array each."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from programs.cli import ConfigError
from tianji.environments.actions import Actions

LARGEST_CHANNELS = 16
"""Most channels of a picture of bits, as the games of MinAtar have."""
SMALLEST_SIDE = 5
"""Side in pixels of the smallest array that is taken for a picture."""


def actions_of(space: gym.Space, where: str) -> Actions:
    """The actions of a space.

    Raises
    ------
    ConfigError
        for a space that is not supported. It begins with `where`.
    """
    match space:
        case spaces.Discrete():
            return Actions("discrete", (int(space.n),), start=(int(space.start),))
        case spaces.MultiDiscrete():
            sizes, start = (tuple(int(n) for n in np.ravel(values)) for values in (space.nvec, space.start))
            return Actions("multi-discrete", sizes, space.shape, space.dtype.str, start)
        case spaces.MultiBinary():
            bits = int(np.prod(space.shape))
            return Actions("multi-binary", (2,) * bits, space.shape, space.dtype.str, (0,) * bits)
        case spaces.Box():
            low, high = (tuple(_bound(end) for end in np.ravel(bounds)) for bounds in (space.low, space.high))
            return Actions("box", (0,) * len(low), space.shape, space.dtype.str, (), low, high)
    raise ConfigError(
        f"{where}: its actions are {type(space).__name__}; Discrete, MultiDiscrete, MultiBinary and Box are supported: turn "
        "them into one of these in a wrapper (environment.wrappers)"
    )


def _bound(value: Any) -> float | None:
    # A bound at the end of float32 is one that its author did not mean.
    return float(value) if np.isfinite(value) and abs(float(value)) < np.finfo(np.float32).max else None


def unsupported(space: gym.Space, path: str = "") -> str | None:
    """The part of an observation space that is no array of a fixed size, in words; None: there is none."""
    match space:
        case spaces.Dict():
            parts = [(f"{path}.{name}" if path else str(name), part) for name, part in space.spaces.items()]
        case spaces.Tuple():
            parts = [(f"{path}.{i}" if path else str(i), part) for i, part in enumerate(space.spaces)]
        case spaces.Box() | spaces.Discrete() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return None
        case _:
            return f"{type(space).__name__} at {path!r}" if path else type(space).__name__
    return next((said for name, part in parts if (said := unsupported(part, name)) is not None), None)


def pixels_of(space: gym.Space) -> str:
    """How a picture lies in memory: `hw`, `hwc` or `chw`; empty for a space that does not look like pictures.

    Pictures are arrays of bytes with bounds 0 and 255, or of bits. They have a height and a width of at least `SMALLEST_SIDE`,
    and 1, 3 or 4 channels, the last ones or the first. Bits may have more channels, if they are fewer than the height and the
    width.
    """
    if not isinstance(space, spaces.Box) or space.dtype not in (np.uint8, np.bool_):
        return ""
    bits = space.dtype == np.bool_
    if not bits and not (np.all(space.low == 0) and np.all(space.high == 255)):
        return ""
    match space.shape:
        case (height, width):
            orders = {"hw": (1, height, width)}
        case (first, middle, last):
            orders = {"hwc": (last, first, middle), "chw": (first, middle, last)}
        case _:
            return ""
    for order, (channels, height, width) in orders.items():
        few = channels in (1, 3, 4) or (bits and channels <= LARGEST_CHANNELS and channels < min(height, width))
        if few and min(height, width) >= SMALLEST_SIDE:
            return order
    return ""
