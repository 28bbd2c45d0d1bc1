"""Your own environment: four rooms connected by doors, with an exit in a corner."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

PLAN = """
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ####     #
#     ### ###
#     #     #
#     #     #
#           #
#     #    X#
#############
"""
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left, in rows and columns."""


class Rooms(gym.Env):
    """Walk from anywhere to X, which is worth 10; every step costs .1, and after 100 of them the episode is over.

    An observation is the number of the field one stands on. Any Box is as good.
    """

    def __init__(self) -> None:
        rows = PLAN.strip("\n").split("\n")
        self.fields = [(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != "#"]
        self.exit = next((r, c) for r, c in self.fields if rows[r][c] == "X")
        self.number = {field: i for i, field in enumerate(self.fields)}
        self.observation_space = gym.spaces.Discrete(len(self.fields))
        self.action_space = gym.spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Stand anywhere but at the exit; `self.np_random` repeats with the seed."""
        super().reset(seed=seed)
        starts = [field for field in self.fields if field != self.exit]
        self.at = starts[self.np_random.integers(len(starts))]
        self.steps = 0
        return self.number[self.at], {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Move, unless there is a wall."""
        row, column = self.at
        down, right = MOVES[action]
        if (row + down, column + right) in self.number:
            self.at = row + down, column + right
        self.steps += 1
        out = self.at == self.exit
        return self.number[self.at], 10.0 * out - 0.1, out, self.steps == 100, {}
