"""Atari games as the vector environment of `ale_py`, with the wrappers that it has itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import AtariConfig


def check(games: AtariConfig, where: str) -> None:
    """Check that these wrappers exist in the vector environment. Raises ConfigError."""
    if games.episodic_life:
        # There a lost life begins a new game, so that policies would never see the later lives.
        raise ConfigError(f"{where}: its vector form cannot go on after a lost life: set atari.episodic_life to false")
    if games.subtract_background:
        raise ConfigError(f"{where}: its vector form has no atari.subtract_background: set environment.vector to never")


def arguments(games: AtariConfig) -> dict[str, Any]:
    """Arguments of the vector environment for these settings.

    Frames are not stacked and rewards not clipped there: chunks hold each frame once, and reports have unclipped returns.
    """
    return {
        "img_height": games.screen,
        "img_width": games.screen,
        "stack_num": 1,
        "frameskip": games.frame_skip,
        "noop_max": games.noop_max,
        "use_fire_reset": games.fire_reset,
        "reward_clipping": False,
        "repeat_action_probability": 0.0,
    }


class Games(VectorWrapper):  # type: ignore[misc]
    """Games of which an observation is one frame, bytes [screen, screen], with clipped rewards if the settings say so.

    `infos` has an entry "episode" for games that ended with the step: unclipped returns "r" and lengths "l" in steps, [B].
    """

    def __init__(self, env: VectorEnv, games: AtariConfig) -> None:
        super().__init__(env)
        self._clips = games.clip_rewards
        self._scores, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        self.single_observation_space = spaces.Box(0, 255, (games.screen, games.screen), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        if isinstance(seed, np.ndarray):
            seed = seed.astype(np.int32)  # It takes no other.
        self._scores[:], self._lengths[:] = 0, 0
        frames, infos = self.env.reset(seed=seed, options=options)
        return frames[:, 0], infos

    def step(self, actions: NDArray[Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        frames, scores, terminated, truncated, infos = self.env.step(actions)
        self._scores += scores
        self._lengths += 1
        if (over := terminated | truncated).any():
            infos = {**infos, "episode": {"r": self._scores.copy(), "l": self._lengths.copy()}}
            if "final_obs" in infos:
                infos["final_obs"] = infos["final_obs"][:, 0]
            self._scores[over], self._lengths[over] = 0, 0
        return frames[:, 0], np.sign(scores) if self._clips else scores, terminated, truncated, infos
