"""Bare loops: sampling and learning without a system around them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.efficiency.cases import Window
from tianji import seeds
from tianji.algorithms import algorithm, networks
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.environments.vector import Environments
from tianji.seeds import Stream


class Sampling:
    """Environments and inference in a loop. Nothing is kept, counted or sent.

    Seeds, noise and the policy are those of a run's first actor: it takes the same steps to the last bit.
    """

    def __init__(self, config: TrainConfig, describe: EnvDescription) -> None:
        self._config, self._describe, self._steps = config, describe, 0
        self._network = networks.of(config, describe)
        self._explore = algorithm.explorer(config, self._network)
        self._blocks = self._network.views(self._network.initialise(config.seed))
        numbers = range(config.envs_per_actor)
        drawn = [seeds.sequence(config.seed, Stream.ENVIRONMENT, number).generate_state(2) for number in numbers]
        self._noise = [np.random.default_rng(action_seed) for _, action_seed in drawn]
        self._envs = Environments(config.env, range(config.envs_per_actor), config.atari)
        self.observation = self._envs.reset([int(env_seed) for env_seed, _ in drawn])
        self._reward = np.zeros(config.envs_per_actor, np.float32)

    def fragment(self) -> int:
        """Sample the steps of one chunk, and return their number over all environments."""
        config, describe, observation, reward = self._config, self._describe, self.observation, self._reward
        blocks = self._blocks
        noise = np.stack([describe.actions.noise(rng, config.fragment_steps) for rng in self._noise], axis=1)
        views = {"log_probability": np.zeros((config.fragment_steps, config.envs_per_actor), np.float32)}
        for t, drawn in enumerate(noise):
            action = self._explore(blocks, describe.encode(observation), drawn, self._steps, views, t)
            self._envs.step(action, observation, reward)
            self._steps += config.envs_per_actor
        return config.chunk_samples

    def close(self) -> None:
        self._envs.close()


def repeat(work: Callable[[], int], window: Window) -> None:
    """Work for the length of a window, in which is counted how much was done."""
    clock, done = time.monotonic_ns, 0
    while not window.see(clock(), done):
        done += work()
