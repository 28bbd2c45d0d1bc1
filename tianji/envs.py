"""Gymnasium environments: what is accepted, how many are stepped together, how observations become features."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from tianji.config import ConfigError


@dataclass(frozen=True)
class EnvDescription:
    """What the rest of the system needs to know of an environment."""

    env: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    classes: int
    """Values of a Discrete observation; 0 for a Box."""
    actions: int

    @property
    def features(self) -> int:
        """Length of the vector that a network sees."""
        return self.classes or int(np.prod(self.observation_shape))

    def encode(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """Turn observations [N, ...] into features [N, F], float32.

        A Box is flattened, uint8 scaled to 0..1; a Discrete observation becomes a one-hot row.
        """
        n = observation.shape[0]
        if self.classes:
            one_hot: NDArray[np.float32] = np.eye(self.classes, dtype=np.float32)[observation]
            return one_hot
        flat = observation.reshape(n, -1)
        if flat.dtype == np.uint8:
            scaled: NDArray[np.float32] = flat.astype(np.float32) / np.float32(255)
            return scaled
        return flat.astype(np.float32, copy=False)


def describe(env_id: str) -> EnvDescription:
    """Make the environment once and read its spaces.

    Raises
    ------
    ConfigError
        for an environment that Gymnasium does not know or cannot make, and for spaces that are not supported:
        observations must be Box or Discrete, actions Discrete.
    """
    try:
        env = gym.make(env_id)
    except (gym.error.Error, ModuleNotFoundError, AttributeError, ValueError) as error:
        raise ConfigError(_unknown(env_id, error)) from None
    try:
        observation, action = env.observation_space, env.action_space
    finally:
        env.close()
    if not isinstance(action, gym.spaces.Discrete):
        raise ConfigError(f"environment {env_id}: its actions are {type(action).__name__}; only Discrete actions are supported")
    if action.start != 0:
        raise ConfigError(
            f"environment {env_id}: its actions start at {action.start}; only Discrete actions from 0 are supported"
        )
    if isinstance(observation, gym.spaces.Box):
        return EnvDescription(env_id, observation.shape, observation.dtype.str, 0, int(action.n))
    if isinstance(observation, gym.spaces.Discrete) and observation.start == 0:
        return EnvDescription(env_id, (), "<i8", int(observation.n), int(action.n))
    raise ConfigError(f"environment {env_id}: its observations are {observation}; only Box and Discrete (from 0) are supported")


def _unknown(env_id: str, error: Exception) -> str:
    near = difflib.get_close_matches(env_id, gym.registry.keys(), n=1)
    hint = f"did you mean {near[0]}?" if near and near[0] != env_id else "give the id of a registered Gymnasium environment"
    return f"environment {env_id}: {' '.join(str(error).split())}; {hint}"


def make_vector(env_id: str, environments: int) -> SyncVectorEnv:
    """Environments stepped together in this process.

    An episode that ends is reset in the same call, its last observation in `info["final_obs"]`: every row that `step`
    returns is then a real transition, and T calls give exactly T x B of them. Actions need no wrapper's checks, which
    are for people who write environments.
    """
    return SyncVectorEnv(
        [lambda: gym.make(env_id, disable_env_checker=True)] * environments,
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
    )
