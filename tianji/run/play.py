"""Evaluation of a policy: seeded episodes, one in each of N environments, by its best actions or by those that it samples.

Atari games are played to their end, over all lives, and their returns are the score. A simulator's delays are left out; its
pictures are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from programs.cli import ConfigError
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import atari
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription
from tianji.environments.making import ATARI, PLAIN, describe, make_env
from tianji.environments.vector import Stacks
from tianji.policy import Policy


def games_of(policy: Policy) -> AtariConfig:
    """Atari settings that match the input of this policy's network."""
    match policy.network.features:
        case (frames, (84 | 42) as side, _):
            return msgspec.structs.replace(ATARI, stack=frames, screen=side)
    return ATARI


class Player:
    """Environments for repeated evaluations of policies on the same episodes.

    Parameters
    ----------
    games
        Atari settings. Lives and clipping of rewards are overridden (see the module).
    simulator
        its pictures are the policy's input.
    settings
        arguments and wrappers.
    """

    def __init__(
        self,
        env_id: str,
        episodes: int,
        games: AtariConfig = ATARI,
        simulator: SimulatorConfig | None = None,
        settings: EnvironmentConfig = PLAIN,
    ) -> None:
        games = atari.whole_games(games)
        self.describe = describe(env_id, games, simulator, settings)
        self.episodes = episodes
        self._envs = SyncVectorEnv(
            [lambda: make_env(env_id, games, simulator, settings)] * episodes,
            autoreset_mode=AutoresetMode.DISABLED,
            copy=False,
        )

    def fits(self, policy: Policy) -> EnvDescription:
        """The environment as the policy's network sees it.

        Raises
        ------
        ConfigError
            if the policy is of another environment.
        """
        seen, network = self.describe.seen_by(policy.network.name), policy.network
        if seen.features != network.features or not seen.actions.like(network.actions):
            raise ConfigError(
                f"the policy takes {network.features} features and {network.actions} actions; {seen.env} has {seen.features} "
                f"and {seen.actions}"
            )
        return seen

    def play(self, policy: Policy, seeds: Sequence[int], *, sampled: bool = False) -> np.ndarray:
        """Returns of one episode from each seed, [N].

        Parameters
        ----------
        sampled
            whether actions are sampled, from generators of the same seeds. If not, they are the best ones.
        """
        describe = self.fits(policy)
        if len(seeds) != self.episodes:
            raise ValueError(f"{len(seeds)} seeds for {self.episodes} environments")
        observation = self._envs.reset(seed=list(seeds))[0]
        returns = np.zeros(self.episodes)
        live = np.arange(self.episodes)
        stacks = Stacks(observation, describe.stack)
        drawn = [np.random.default_rng(seed) for seed in seeds] if sampled else []
        # Each environment is stepped alone, because a vector step would continue past the end of episodes.
        while len(live):
            features = describe.encode(stacks.seen[live])
            if sampled:
                noise = np.stack([_noise(policy.network.actions, drawn[i]) for i in live])
                actions = policy.sampled(features, noise)
            else:
                actions = policy.greedy(features)
            running = []
            for i, action in zip(live, policy.network.actions.given(actions), strict=True):
                observation[i], reward, terminated, truncated, _ = self._envs.envs[i].step(action)
                returns[i] += float(reward)
                if not (terminated or truncated):
                    running.append(i)
            live = np.array(running, np.int64)
            stacks.push(observation)
        return returns

    def close(self) -> None:
        self._envs.close()


def _noise(actions: Actions, rng: np.random.Generator) -> np.ndarray:
    """Noise of one action, [W]. Of numbers it is one for each, wherever their deviations come from."""
    return rng.standard_normal(actions.parts) if actions.kind == "box" else actions.noise(rng, 1)[0]
