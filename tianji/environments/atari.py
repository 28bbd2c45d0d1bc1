"""Atari 2600 games with the usual wrappers (Mnih et al., 2015; OpenAI Baselines).

Frames are not stacked here. Chunks and replays hold each frame once, and `tianji.layout.stacked` builds stacks when they are
needed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, RecordEpisodeStatistics, TransformReward
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import AtariConfig

BACKGROUND_STEPS = 1000
"""Steps of random play from which the background is computed."""
GAIN = np.int16(3)
"""Factor of the difference from the background."""


def is_atari(env_id: str) -> bool:
    """Whether this is a game of the Arcade Learning Environment."""
    return env_id.startswith("ALE/")


def whole_games(config: AtariConfig) -> AtariConfig:
    """The same settings for evaluation: games are played to their end, with the score as the reward."""
    return msgspec.structs.replace(config, episodic_life=False, clip_rewards=False)


def make_game(env_id: str, config: AtariConfig, args: Mapping[str, Any] = MappingProxyType({})) -> gym.Env:
    """Make one game. An observation is one frame, bytes [screen, screen].

    When a game ends, the `info` of its last step has an entry "episode" for the whole game: the unclipped return "r" and the
    length "l" in steps. Steps in which the wrapper presses FIRE count.

    Parameters
    ----------
    args
        arguments of the game, such as its mode, beside those that the wrappers need.

    Raises
    ------
    ConfigError
        if the packages of the extra `atari` are not installed.
    """
    prepare(env_id)
    # Frames are read from the emulator. The observation of `step` is not used, and is cheapest in grey.
    own = {"obs_type": "grayscale", "frameskip": 1, "repeat_action_probability": 0.0}
    game = gym.make(env_id, disable_env_checker=True, **{**args, **own})
    env: gym.Env = AtariPreprocessing(game, config.noop_max, config.frame_skip, config.screen)
    env = RecordEpisodeStatistics(env)
    if config.subtract_background:
        env = Foreground(env, background(env_id, config.screen, config.frame_skip, config.noop_max))
    if config.episodic_life:
        env = EpisodicLife(env)
    if config.fire_reset and "FIRE" in game.unwrapped.get_action_meanings():
        env = FireReset(env, game.unwrapped.get_action_meanings().index("FIRE"))
    return TransformReward(env, _sign) if config.clip_rewards else env


def prepare(env_id: str) -> None:
    """Register the games. `ConfigError` if the packages of the extra `atari` are not installed."""
    if missing := [name for name in ("ale_py", "cv2") if importlib.util.find_spec(name) is None]:
        raise ConfigError(
            f"environment {env_id}: {' and '.join(missing)} not installed; pip install 'tianji-bench[atari]' brings what "
            "Atari games need"
        )
    ale_py = importlib.import_module("ale_py")
    # The first game of a process prints a banner otherwise.
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)


def _sign(reward: float) -> float:
    return float(np.sign(reward))


@functools.cache
def background(env_id: str, screen: int, frame_skip: int, noop_max: int) -> NDArray[np.int16]:
    """Each pixel's median over random play, [screen, screen]. It has a fixed seed, so that all processes agree."""
    plain = AtariConfig(screen=cast(Any, screen), frame_skip=frame_skip, noop_max=noop_max, fire_reset=True)
    env = make_game(env_id, whole_games(plain))
    rng = np.random.default_rng(0)
    try:
        frames = [env.reset(seed=0)[0]]
        for _ in range(BACKGROUND_STEPS):
            frame, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            frames.append(frame)
            if terminated or truncated:
                env.reset()
        still: NDArray[np.int16] = np.median(np.stack(frames), axis=0).astype(np.int16)
        return still
    finally:
        env.close()


class Foreground(gym.ObservationWrapper):  # type: ignore[misc]
    """Wrapper that shows each pixel's distance from the background, times `GAIN`, as bytes."""

    def __init__(self, env: gym.Env, still: NDArray[np.int16]) -> None:
        super().__init__(env)
        self._still = still

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        bright: NDArray[np.uint8] = np.minimum(np.abs(observation - self._still) * GAIN, 255).astype(np.uint8)
        return bright


class EpisodicLife(gym.Wrapper):  # type: ignore[misc]
    """Wrapper in which a lost life ends an episode. The next episode continues the game from the last frame.

    The end of a game ends its episode too, and a new game starts.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._lives = 0
        self._between: Any = None
        """The frame between two lives."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        # Some games show no lives for a while before they end. So only a loss that leaves some lives counts.
        lost = 0 < info["lives"] < self._lives and not (terminated or truncated)
        self._lives = info["lives"]
        self._between = observation if lost else None
        return observation, reward, terminated or lost, truncated, info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        frame, self._between = self._between, None
        if frame is not None and seed is None:
            return frame, {}
        observation, info = self.env.reset(seed=seed, options=options)
        self._lives = info["lives"]
        return observation, info


class FireReset(gym.Wrapper):  # type: ignore[misc]
    """Wrapper that presses FIRE at the start of an episode."""

    def __init__(self, env: gym.Env, fire: int) -> None:
        super().__init__(env)
        self._fire = fire

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        observation, _, terminated, truncated, after = self.env.step(self._fire)
        if terminated or truncated:
            observation, info = self.env.reset()
            # A game that ends here does so in no step of the agent. Its result is reported with the reset.
            if "episode" in after:
                info = {**info, "episode": after["episode"]}
        return observation, info
