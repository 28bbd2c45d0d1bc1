"""Uniform replay: the most recent transitions, any of which may be drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Replay:
    """A ring of transitions in preallocated arrays, as the environment gave them (uint8 stays uint8).

    Parameters
    ----------
    capacity
        transitions kept; the oldest give way.
    observation_shape, observation_dtype
        of one observation.
    """

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], observation_dtype: str) -> None:
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._arrays: dict[str, NDArray[Any]] = {
            "observation": np.zeros((capacity, *observation_shape), observation_dtype),
            "next_observation": np.zeros((capacity, *observation_shape), observation_dtype),
            "action": np.zeros(capacity, np.int64),
            "reward": np.zeros(capacity, np.float32),
            "terminated": np.zeros(capacity, bool),
        }

    def insert(self, transitions: Mapping[str, NDArray[Any]]) -> None:
        """Add N transitions, oldest first; N may not exceed the capacity."""
        count = len(transitions["action"])
        if count > self.capacity:
            raise ValueError(f"{count} transitions do not fit into a replay of {self.capacity}")
        head = min(count, self.capacity - self._next)
        for name, array in self._arrays.items():
            array[self._next : self._next + head] = transitions[name][:head]
            array[: count - head] = transitions[name][head:]
        self._next = (self._next + count) % self.capacity
        self.size = min(self.capacity, self.size + count)

    def take(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Copies of these rows, by field."""
        return {name: array[rows] for name, array in self._arrays.items()}


def transitions_of(chunk: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The transitions of a chunk, one row each in order of (step, environment).

    The next observation of a truncated step is the episode's last one, not the reset one that follows it. (That of a
    terminated step does not matter: nothing is bootstrapped from it.)
    """
    t, b = chunk["action"].shape
    shape = chunk["observation"].shape[2:]
    following = chunk["observation"][1:]
    truncated = chunk["truncated"]
    cut = int(truncated.sum())
    if cut:
        following = following.copy()
        following[truncated] = chunk["final_observation"][:cut]
    return {
        "observation": chunk["observation"][:-1].reshape(t * b, *shape),
        "next_observation": following.reshape(t * b, *shape),
        "action": chunk["action"].reshape(-1),
        "reward": chunk["reward"].reshape(-1),
        "terminated": chunk["terminated"].reshape(-1),
    }
