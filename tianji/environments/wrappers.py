"""What is put around an environment, so that each observation is one array and each step is one of the agent."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, GrayscaleObservation, ResizeObservation
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji import references
from tianji.config import EnvironmentConfig
from tianji.environments.description import FLOAT_BYTES, Branches
from tianji.environments.spaces import pixels_of, unsupported


class FrameSkip(gym.Wrapper):  # type: ignore[misc]
    """Wrapper that repeats each action, and sums the rewards. An episode that ends ends the repetition."""

    def __init__(self, env: gym.Env, skip: int) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class Packed(gym.ObservationWrapper):  # type: ignore[misc]
    """Wrapper that packs pictures, and everything else as one float32 vector, into a row of bytes; see `Branches`."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        leaves = list(_leaves(env.observation_space))
        self._pictures = [(path, space, pixels_of(space)) for path, space in leaves if pixels_of(space)]
        self._others = [(path, space) for path, space in leaves if not pixels_of(space)]
        vector = sum(spaces.flatdim(space) for _, space in self._others)
        self.branches = Branches(vector, tuple(_channels_first(space.shape, order) for _, space, order in self._pictures))
        self.observation_space = spaces.Box(0, 255, (self.branches.size_bytes,), np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        row = np.empty(self.branches.size_bytes, np.uint8)
        parts = [spaces.flatten(space, _at(observation, path)) for path, space in self._others]
        at = FLOAT_BYTES * self.branches.vector
        if parts:
            row[:at].view(np.float32)[:] = np.concatenate(parts)
        for path, _, order in self._pictures:
            picture = np.asarray(_at(observation, path))
            if picture.dtype == np.bool_:
                picture = picture * np.uint8(255)
            if order == "hwc":
                picture = picture.transpose(2, 0, 1)
            end = at + picture.size
            row[at:end] = picture.reshape(-1)
            at = end
        return row


def _leaves(space: gym.Space, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], gym.Space]]:
    """The spaces inside Dict and Tuple spaces, with the keys that lead to them."""
    parts: Any = {spaces.Dict: lambda: space.spaces.items(), spaces.Tuple: lambda: enumerate(space.spaces)}.get(type(space))
    if parts is None:
        yield path, space
        return
    for key, part in parts():
        yield from _leaves(part, (*path, key))


def _at(observation: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _channels_first(shape: tuple[int, ...], order: str) -> tuple[int, int, int]:
    if order == "hw":
        return 1, shape[0], shape[1]
    return (shape[2], shape[0], shape[1]) if order == "hwc" else (shape[0], shape[1], shape[2])


def wrapped(env: gym.Env, config: EnvironmentConfig, where: str) -> gym.Env:
    """The environment with the wrappers that settings name, frame skipping, and pictures in grey or another size.

    Raises
    ------
    ConfigError
        if a wrapper is missing or raises, or there are no such pictures.
    """
    for one in config.wrappers:
        name, arguments = (one, {}) if isinstance(one, str) else (str(one["wrapper"]), {**one})
        arguments.pop("wrapper", None)
        about = f"{where}: wrapper {name}"
        made = references.attribute_of(*references.module_of(name, about), about)
        inner = env
        env = references.attempt(lambda: made(inner, **arguments), about)  # noqa: B023 (called at once)
        if not isinstance(env, gym.Env):
            raise ConfigError(f"{about}: it returns an object of type {type(env).__name__}, and no gymnasium.Env")
    if config.frame_skip > 1:
        env = FrameSkip(env, config.frame_skip)
    if config.grey or config.resize is not None:
        env = _smaller(env, config, where)
    return env


def _smaller(env: gym.Env, config: EnvironmentConfig, where: str) -> gym.Env:
    order = pixels_of(env.observation_space)
    setting = "grey" if config.grey else "resize"
    if order not in ("hw", "hwc") or (config.grey and env.observation_space.shape[2:] != (3,)):
        wanted = "[height, width, 3]" if config.grey else "[height, width] or [height, width, channels]"
        raise ConfigError(
            f"{where}: environment.{setting} is for pictures of bytes {wanted}, and its observations are "
            f"{env.observation_space}"
        )
    if config.grey:
        env = GrayscaleObservation(env)
    if config.resize is not None:
        if importlib.util.find_spec("cv2") is None:
            raise ConfigError(f"{where}: environment.resize needs OpenCV; pip install 'tianji-bench[atari]' brings it")
        env = ResizeObservation(env, (config.resize, config.resize))
    return env


def prepared(env: gym.Env, stack: int, where: str) -> gym.Env:
    """The environment with observations that are Box, or Discrete from 0: others are flattened, or packed with pictures.

    Raises
    ------
    ConfigError
        for an observation space that is not supported.
    """
    space = env.observation_space
    if (part := unsupported(space)) is not None:
        raise ConfigError(
            f"{where}: its observations have {part}; arrays of a fixed size are supported (Box, Discrete, MultiDiscrete, "
            "MultiBinary, and Dict and Tuple of these): leave it out in a wrapper (environment.wrappers)"
        )
    if isinstance(space, spaces.Box) or (isinstance(space, spaces.Discrete) and space.start == 0 and stack == 1):
        return env
    if isinstance(space, spaces.Dict | spaces.Tuple) and any(pixels_of(part) for _, part in _leaves(space)):
        if stack > 1:
            raise ConfigError(
                f"{where}: environment.stack is for one picture or vector, and its observations have several parts"
            )
        return Packed(env)
    return FlattenObservation(env)
