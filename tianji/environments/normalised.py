"""Environments of one actor whose observations are normalised, and the statistics of what they gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.environments.description import EnvDescription
from tianji.environments.state import plain, restored
from tianji.environments.vector import Ended, Environments
from tianji.environments.vectorised import NextStep, Vectorised

Normalise = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Normalises features [N, F] under the statistics of the weights that an actor has now."""


class Normalised:
    """Environments whose observations come normalised. Rewards stay as they are, and their discounted returns are counted.

    Counted is each observation on which an action was taken, once.

    Parameters
    ----------
    normalise
        None: observations stay as they are, and are not counted.
    gamma
        discount factor of the returns.
    steps, count
        most steps of a fragment, and number of environments.
    rewards
        whether returns are counted.
    """

    def __init__(
        self,
        envs: Environments | Vectorised,
        describe: EnvDescription,
        normalise: Normalise | None,
        gamma: float,
        steps: int,
        count: int,
        *,
        rewards: bool,
    ) -> None:
        self._envs, self._normalise, self._gamma = envs, normalise, gamma
        self._raw_describe = replace(describe, normalised=False, stack=1)
        self._raw: NDArray[Any] = np.zeros(0)
        width = 0 if normalise is None else describe.frame_features
        self._features = np.zeros((count, width), np.float32)
        self._acted_on = np.zeros((steps, count, width), np.float32)
        self._running = np.zeros(count)
        self._returns = np.zeros((steps, count, int(rewards)))
        self._step = 0

    @property
    def waited_ns(self) -> int:
        """Nanoseconds waited for simulators so far."""
        return self._envs.waited_ns

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """As `Environments.reset`."""
        self._raw = self._envs.reset(seeds)
        self._running[:] = 0
        self._encode()
        renewed = self.begin()
        return self._raw if renewed is None else renewed

    def begin(self) -> NDArray[Any] | None:
        """Count from here, and return the latest observations normalised under the statistics of now; None: they are not."""
        self._step = 0
        return None if self._normalise is None else self._normalise(self._features)

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """As `Environments.step`."""
        t, self._step = self._step, self._step + 1
        if self._normalise is None:
            ended = self._envs.step(actions, observations, rewards)
        else:
            self._acted_on[t] = self._features
            ended = [self._final(one) for one in self._envs.step(actions, self._raw, rewards)]
            self._encode()
            observations[:] = self._normalise(self._features)
        self._running *= self._gamma
        self._running += rewards
        self._returns[t] = self._running[:, None]
        for one in ended:
            self._running[one.environment] = 0
        return ended

    def _encode(self) -> None:
        if self._normalise is not None:
            # A copy, because the next step writes over the observations.
            self._features[:] = self._raw_describe.encode(self._raw)

    def _final(self, one: Ended) -> Ended:
        assert self._normalise is not None
        row = self._raw_describe.encode(np.asarray(one.observation)[None])
        return one._replace(observation=self._normalise(row)[0])

    def write(self, out: NDArray[np.float64], filled: int) -> None:
        """Write the statistics of the first steps since `begin`, [B, ...]: of observations, then of returns."""
        at = 0
        for rows in (self._acted_on, self._returns):
            if rows.shape[2]:
                end = at + 1 + 2 * rows.shape[2]
                out[:, at:end] = tables_of(rows[:filled])
                at = end

    def remember(self) -> dict[str, Any]:
        """As `Environments.remember`."""
        own = {"raw": plain(self._raw), "features": plain(self._features), "running": plain(self._running)}
        return {**own, "inner": self._envs.remember()}

    def recall(self, state: dict[str, Any]) -> None:
        """As `Environments.recall`."""
        self._raw, self._features, self._running = (restored(state[name]) for name in ("raw", "features", "running"))
        self._envs.recall(state["inner"])

    def close(self) -> None:
        """As `Environments.close`."""
        self._envs.close()


class NormalisedLanes(Normalised):
    """Normalised lanes of a vector environment that resets in a step of its own. Counted are the rows that a chunk holds.

    Each lane counts its first T real rows since `begin`; see `tianji.worlds.lanes`.
    """

    _envs: NextStep

    @property
    def pending(self) -> NDArray[np.bool_]:
        """As `NextStep.pending`."""
        return self._envs.pending

    def begin(self) -> NDArray[Any] | None:
        self._rows = np.zeros(len(self._running), np.int64)
        return super().begin()

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        real = ~self._envs.pending
        lanes = np.flatnonzero(real & (self._rows < len(self._returns)))
        rows = self._rows[lanes]
        if self._normalise is None:
            ended = self._envs.step(actions, observations, rewards)
        else:
            self._acted_on[rows, lanes] = self._features[lanes]
            ended = [self._final(one) for one in self._envs.step(actions, self._raw, rewards)]
            self._encode()
            observations[:] = self._normalise(self._features)
        self._running[real] = self._gamma * self._running[real] + rewards[real]
        self._returns[rows, lanes] = self._running[lanes, None]
        self._rows[lanes] += 1
        for one in ended:
            self._running[one.environment] = 0
        return ended


def tables_of(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Statistics [B, 1 + 2 F] of rows [T, B, F]: count, means, and sums of squared differences from them."""
    exact = rows.astype(np.float64)
    mean = exact.mean(axis=0)
    exact -= mean
    squares = np.square(exact, out=exact).sum(axis=0)
    return np.concatenate([np.full((len(mean), 1), float(len(rows))), mean, squares], axis=1)
