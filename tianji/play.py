"""Plays a policy greedily: seeded episodes, one in each of N environments stepped together."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tianji.checkpoint import Policy
from tianji.envs import describe


class Player:
    """Environments for repeated evaluations of policies on the same episodes."""

    def __init__(self, env_id: str, episodes: int) -> None:
        self.describe = describe(env_id)
        self.episodes = episodes
        self._envs = SyncVectorEnv(
            [lambda: gym.make(env_id, disable_env_checker=True)] * episodes,
            autoreset_mode=AutoresetMode.DISABLED,
            copy=False,
        )

    def play(self, policy: Policy, seeds: Sequence[int]) -> np.ndarray:
        """Returns of one episode from each seed, [N]; the action is the most probable one."""
        if len(seeds) != self.episodes:
            raise ValueError(f"{len(seeds)} seeds for {self.episodes} environments")
        observation = self._envs.reset(seed=list(seeds))[0]
        returns = np.zeros(self.episodes)
        live = np.arange(self.episodes)
        # Only running episodes are stepped, each environment on its own: a vector step would go on past their ends.
        while len(live):
            actions = policy.greedy(self.describe.encode(observation[live]))
            running = []
            for i, action in zip(live, actions, strict=True):
                observation[i], reward, terminated, truncated, _ = self._envs.envs[i].step(action)
                returns[i] += float(reward)
                if not (terminated or truncated):
                    running.append(i)
            live = np.array(running, np.int64)
        return returns

    def close(self) -> None:
        self._envs.close()
