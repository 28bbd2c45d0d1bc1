"""Games of Atari as Stable-Baselines3 takes them: frames with an axis of channels, which is last."""

from __future__ import annotations

import gymnasium as gym
from gymnasium.wrappers import ReshapeObservation

from tianji.config import AtariConfig
from tianji.environments.atari import make_game


def make(env: str, games: AtariConfig) -> gym.Env:
    """One game, whose observation is a frame [screen, screen, 1]."""
    return ReshapeObservation(make_game(env, games), (games.screen, games.screen, 1))
