"""Description of an environment for roles that do not step it: its sizes, and the encoding of observations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.environments.actions import Actions

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Branches:
    """Inputs of a network with several branches: one vector, and pictures.

    An observation is one row of bytes: the vector as float32, then each picture.
    """

    vector: int
    """Length of the vector; 0: there is none."""
    images: tuple[tuple[int, int, int], ...]
    """(channels, height, width) of each picture."""

    @property
    def size_bytes(self) -> int:
        """Bytes of one observation."""
        return FLOAT_BYTES * self.vector + sum(map(math.prod, self.images))

    def split(self, x: Any) -> tuple[Any, list[Any]]:
        """Views of rows [N, bytes] (NumPy or torch): bytes of vectors [N, 4 F], and pictures [N, channels, height, width]."""
        at, images = FLOAT_BYTES * self.vector, []
        for shape in self.images:
            end = at + math.prod(shape)
            images.append(x[:, at:end].reshape(len(x), *shape))
            at = end
        return x[:, : FLOAT_BYTES * self.vector], images


Features = int | tuple[int, ...] | Branches
"""Shape of a network's input: the length of a vector, (channels, height, width) of a picture, or several of them."""


@dataclass(frozen=True)
class EnvDescription:
    """Sizes of an environment, as the rest of the system needs them."""

    env: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    classes: int
    """Number of values of a Discrete observation; 0 for a Box."""
    actions: Actions
    """The actions; made from a number, that many Discrete ones."""
    stack: int = 1
    """Number of successive observations (frames) in one input of the network."""
    shipped: bool = False
    """Whether a well-known package ships it, so that an actor may step it in its learner's process."""
    pixels: str = ""
    """How a picture lies in memory, `hw`, `hwc` or `chw`; empty: observations are no pictures."""
    branches: Branches | None = None
    """What an observation consists of, if it is a picture with a vector, or several pictures."""
    normalised: bool = False
    """Whether chunks hold normalised features, not observations as the environment gave them."""
    autoreset: str = ""
    """When its vector form resets an episode that ended (the value of a `gymnasium.vector.AutoresetMode`); empty: actors step
    single environments."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", Actions.of(self.actions))

    @property
    def image(self) -> bool:
        """Whether networks get pictures."""
        return bool(self.pixels) or self.branches is not None

    @property
    def features(self) -> Features:
        """Shape of a network's input. The channels of a picture are those of all frames of a stack."""
        if self.branches is not None:
            return self.branches
        if self.pixels:
            channels, height, width = self._picture
            return (self.stack * channels, height, width)
        return self.classes or self.stack * math.prod(self.observation_shape)

    @property
    def frame_features(self) -> int:
        """Length of the vector of one frame. Not for pictures."""
        return self.classes or math.prod(self.observation_shape)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of an observation (of one frame) in chunks and replays."""
        return (self.frame_features,) if self.normalised else self.observation_shape

    @property
    def stored_dtype(self) -> str:
        """Type of an observation in chunks and replays."""
        return "<f4" if self.normalised else self.observation_dtype

    @property
    def _picture(self) -> tuple[int, int, int]:
        """(channels, height, width) of one frame."""
        match self.pixels, self.observation_shape:
            case "hwc", (height, width, channels):
                return channels, height, width
            case "chw", (channels, height, width):
                return channels, height, width
        height, width = self.observation_shape
        return 1, height, width

    def seen_by(self, kind: str) -> EnvDescription:
        """The same environment for a kind of network: perceptrons see pictures in colour, and of bits, as vectors."""
        plain = self.pixels == "hw" and self.observation_dtype == "|u1"
        return replace(self, pixels="") if kind.startswith("mlp") and not plain else self

    def encode(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Turn observations [N, ...], or stacks of them [N, S, ...], into inputs of networks.

        Pictures stay bytes [N, S x channels, height, width], which networks scale themselves; a set bit becomes 255. So do rows
        of several branches. Everything else becomes float32 features [N, F]. Another Box is flattened, and uint8 is scaled to
        0..1. A Discrete observation becomes a one-hot row.
        """
        if observation.ndim == 2 and observation.dtype == np.float32:
            return observation  # These are features already, and this runs at every step.
        n = observation.shape[0]
        if self.branches is not None:
            return observation
        if self.pixels:
            return self._pictures(observation)
        if self.classes and not self.normalised:
            one_hot: NDArray[np.float32] = np.eye(self.classes, dtype=np.float32)[observation]
            return one_hot
        flat = observation.reshape(n, math.prod(observation.shape[1:]))
        if flat.dtype == np.uint8:
            scaled: NDArray[np.float32] = flat.astype(np.float32) / np.float32(255)
            return scaled
        return flat.astype(np.float32, copy=False)

    def _pictures(self, observation: NDArray[Any]) -> NDArray[Any]:
        n, (channels, height, width) = observation.shape[0], self._picture
        if observation.dtype == np.bool_:
            observation = observation.view(np.uint8) * np.uint8(255)
        if self.pixels == "hwc":
            frames = observation.reshape(n, self.stack, height, width, channels)
            # Of one frame this is a view, in the order in which convolutions are fastest.
            observation = frames.transpose(0, 1, 4, 2, 3)
        return observation.reshape(n, self.stack * channels, height, width)
