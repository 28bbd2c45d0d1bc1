"""Environments that count their steps and note their episodes, for programs whose environments live in several processes.

Counts and notes are files in the program's folder. The processes with environments write them, and the driver reads them.
"""

from __future__ import annotations

import json
import mmap
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from baselines.normalisation import normalised_rewards
from baselines.separate.run import SETTINGS

COUNTS, EPISODES = "steps.bin", "episodes.bin"
COUNT = struct.Struct("<QQ")
"""Of each environment: its steps, and the monotonic ns before its first one (0: there was none)."""
EPISODE = struct.Struct("<QdQQ")
"""When an episode ended, its return, its length, and the steps of all environments by then."""


class Counts:
    """Steps of all environments.

    Parameters
    ----------
    environments
        their number, where the file is to be made; 0 where it is there.
    """

    def __init__(self, environments: int = 0) -> None:
        if environments:
            Path(COUNTS).write_bytes(bytes(environments * COUNT.size))
            Path(EPISODES).touch()
        with Path(COUNTS).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._episodes = Path(EPISODES).open("rb")  # noqa: SIM115 (it is read until the process ends)

    def write(self, index: int, steps: int, first_ns: int) -> None:
        """Record the steps of an environment."""
        COUNT.pack_into(self._memory, index * COUNT.size, steps, first_ns)

    def read(self) -> tuple[int, int | None]:
        """Steps of all environments, and when the first one began."""
        records = list(COUNT.iter_unpack(self._memory[:]))
        return sum(steps for steps, _ in records), min((ns for _, ns in records if ns), default=None)

    def episodes(self) -> Iterator[tuple[int, float, int, int]]:
        """Episodes that have ended since the last call."""
        yield from EPISODE.iter_unpack(self._episodes.read())


class Counted(gymnasium.Wrapper):
    """One environment, which counts its steps and notes the end of its episodes where it happens.

    Parameters
    ----------
    index
        its number among all environments.
    seed
        of its first episode.
    """

    def __init__(self, env: Any, index: int, seed: int) -> None:
        super().__init__(env)
        self._index = index
        self._seed: int | None = seed
        self._counts = Counts()
        # What is appended at once stays together, whichever process writes.
        self._episodes = Path(EPISODES).open("ab", buffering=0)  # noqa: SIM115 (open as long as the environment)
        self._steps = self._first_ns = self._length = 0
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode. The first one has the seed of the run and the environment, whatever seed it is given."""
        self._return, self._length = 0.0, 0
        own, self._seed = self._seed, None
        return self.env.reset(seed=own, options=options)

    def step(self, action: Any) -> Any:
        """Step, and count it."""
        self._first_ns = self._first_ns or time.monotonic_ns()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._length += 1
        self._return += float(reward)
        self._counts.write(self._index, self._steps, self._first_ns)
        if terminated or truncated:
            all_steps, _ = self._counts.read()
            self._episodes.write(EPISODE.pack(time.monotonic_ns(), self._return, self._length, all_steps))
        return observation, reward, terminated, truncated, info


def make(name: str, index: int, environments: int, seed: int) -> Any:
    """Environment `index` of `environments`, of a run with this seed.

    Steps and returns are counted below what its settings ask for: bounds of actions, and normalised rewards.
    """
    env = gymnasium.make(name, render_mode=None, disable_env_checker=True)
    made: Any = Counted(env, index, seed * environments + index)
    asked = json.loads(Path(SETTINGS).read_text(encoding="utf-8")).get("environment", {})
    if asked.get("clip_actions"):
        made = gymnasium.wrappers.ClipAction(made)
    return normalised_rewards(made, **asked["rewards"]) if asked.get("rewards") else made
