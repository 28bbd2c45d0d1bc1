"""CartPole that counts its own steps, whatever the system reports: `counted_cartpole:CountedCartPole-v0`.

It needs Gymnasium alone. Each instance counts in a file of its own, a mapped one, so that the count outlives a process that
is killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
from pathlib import Path
from typing import Any

import gymnasium

COUNTS = "TIANJI_BENCH_COUNTS"
"""Environment variable with the folder of the counts; nothing is counted without it."""
COUNT = struct.Struct("<Q")


class Counted(gymnasium.Wrapper):  # type: ignore[misc]
    """Counts the steps of an environment."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._counted = 0
        self._process: int | None = None
        self._memory: mmap.mmap | None = None

    def step(self, action: Any) -> Any:
        folder = os.environ.get(COUNTS)
        if folder is not None:
            # A copy in a forked process counts for itself.
            if self._process != os.getpid():
                self._process, self._counted = os.getpid(), 0
                self._memory = _mapped(Path(folder) / uuid.uuid4().hex)
            assert self._memory is not None
            self._counted += 1
            COUNT.pack_into(self._memory, 0, self._counted)
        return self.env.step(action)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("w+b") as file:
        file.write(bytes(COUNT.size))
        file.flush()
        return mmap.mmap(file.fileno(), COUNT.size)


def counted(folder: Path) -> int:
    """Steps that all instances have counted."""
    return sum(COUNT.unpack(path.read_bytes())[0] for path in folder.iterdir())


def make(**options: Any) -> gymnasium.Env:
    """CartPole-v1 without its limit, which registration adds."""
    return Counted(gymnasium.make("CartPole-v1", disable_env_checker=True, **options).unwrapped)


gymnasium.register("CountedCartPole-v0", entry_point=make, max_episode_steps=500)
