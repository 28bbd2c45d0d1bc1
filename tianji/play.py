"""Plays a policy greedily: seeded episodes, one in each of N environments stepped together.

Atari games are played whole, however many lives that takes, and their returns are the score. Nobody waits for a simulator
here: of one, only its pictures matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tianji import atari
from tianji.config import AtariConfig, SimulatorConfig
from tianji.envs import ATARI, Stacks, describe, make
from tianji.policy import Policy


def games_of(policy: Policy) -> AtariConfig:
    """How Atari games are played for this policy: with the frames that its network sees."""
    match policy.network.features:
        case (frames, (84 | 42) as side, _):
            return msgspec.structs.replace(ATARI, stack=frames, screen=side)
    return ATARI


class Player:
    """Environments for repeated evaluations of policies on the same episodes.

    Parameters
    ----------
    games
        how Atari games are played (but for lives and clipping of rewards; see the module's text).
    simulator
        its pictures are what the policy sees.
    """

    def __init__(
        self, env_id: str, episodes: int, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None
    ) -> None:
        games = atari.whole_games(games)
        self.describe = describe(env_id, games, simulator)
        self.episodes = episodes
        self._envs = SyncVectorEnv(
            [lambda: make(env_id, games, simulator)] * episodes,
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
        stacks = Stacks(observation, self.describe.stack)
        # Only running episodes are stepped, each environment on its own: a vector step would go on past their ends.
        while len(live):
            actions = policy.greedy(self.describe.encode(stacks.seen[live]))
            running = []
            for i, action in zip(live, actions, strict=True):
                observation[i], reward, terminated, truncated, _ = self._envs.envs[i].step(action)
                returns[i] += float(reward)
                if not (terminated or truncated):
                    running.append(i)
            live = np.array(running, np.int64)
            stacks.push(observation)
        return returns

    def close(self) -> None:
        self._envs.close()
