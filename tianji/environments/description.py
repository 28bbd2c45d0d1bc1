"""Description of an environment for roles that do not step it: its sizes, and the encoding of observations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST_IMAGE = 36
"""Side in pixels of the smallest image that the three convolutions of the networks accept."""


@dataclass(frozen=True)
class EnvDescription:
    """Sizes of an environment, as the rest of the system needs them."""

    env: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    classes: int
    """Number of values of a Discrete observation; 0 for a Box."""
    actions: int
    stack: int = 1
    """Number of successive observations (frames) in one input of the network."""
    shipped: bool = False
    """Whether a well-known package ships it, so that an actor may step it in its learner's process."""

    @property
    def image(self) -> bool:
        """Whether an observation is a grey image in bytes that is large enough for convolutions."""
        shape = self.observation_shape
        return self.observation_dtype == "|u1" and len(shape) == 2 and min(shape) >= SMALLEST_IMAGE

    @property
    def features(self) -> int | tuple[int, ...]:
        """Shape of a network's input: the length of a vector, or (frames, height, width) of an image."""
        if self.image:
            return (self.stack, *self.observation_shape)
        return self.classes or self.stack * math.prod(self.observation_shape)

    def encode(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Turn observations [N, ...], or stacks of them [N, S, ...], into inputs of networks.

        Images stay bytes [N, S, height, width], which networks scale themselves. Everything else becomes float32 features
        [N, F]. Another Box is flattened, and uint8 is scaled to 0..1. A Discrete observation becomes a one-hot row.
        """
        if observation.ndim == 2 and observation.dtype == np.float32:
            return observation  # These are features already, and this runs at every step.
        n = observation.shape[0]
        if self.image:
            return observation.reshape(n, self.stack, *self.observation_shape)
        if self.classes:
            one_hot: NDArray[np.float32] = np.eye(self.classes, dtype=np.float32)[observation]
            return one_hot
        flat = observation.reshape(n, math.prod(observation.shape[1:]))
        if flat.dtype == np.uint8:
            scaled: NDArray[np.float32] = flat.astype(np.float32) / np.float32(255)
            return scaled
        return flat.astype(np.float32, copy=False)
