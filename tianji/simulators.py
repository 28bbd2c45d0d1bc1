"""Stand-ins for slow simulators: steps and resets that take time but no CPU, and observations drawn as pictures.

Times have the stated means; each environment draws its own from the seed that it is reset with, apart from its own
randomness, so that what happens in it does not depend on how long it takes. Environments that are stepped together wait at
the same time, as so many simulators beside each other would: a step of all takes as long as the slowest's.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import SimulatorConfig

BLOCK = 256
"""Times drawn at once."""
STREAM = 0x51
"""Keeps the times' randomness apart from what an environment makes of the same seed."""
RANGE = 5.0
"""Components of an observation are clipped to this, either way, before they are drawn."""
PARTS = 8
"""Into which a pixel is divided: a bar ends at one of them, and its last pixel is as bright as it is full."""


def scale(config: SimulatorConfig, number: int) -> float:
    """An environment's mean times over the stated ones: from 2 / (1 + s) to 2 s / (1 + s), the spread being s."""
    place = number % config.spread_over / (config.spread_over - 1)
    return 2 * (1 + (config.spread - 1) * place) / (1 + config.spread)


def times(config: SimulatorConfig, mean_seconds: float, rng: np.random.Generator) -> Iterator[float]:
    """Times without end, in nanoseconds."""
    while True:
        yield from (mean_seconds * 1e9 * _relative(config, rng)).tolist()


def _relative(config: SimulatorConfig, rng: np.random.Generator) -> NDArray[np.float64]:
    """Times of mean 1, [BLOCK]."""
    if config.sigma is not None:
        # The mean of a lognormal variable is exp(mu + sigma^2 / 2).
        return rng.lognormal(-(config.sigma**2) / 2, config.sigma, BLOCK)
    if config.alpha is not None:
        # NumPy's is Lomax's, one less than Pareto's of minimum 1, whose mean is alpha / (alpha - 1).
        return (1 + rng.pareto(config.alpha, BLOCK)) * (config.alpha - 1) / config.alpha
    return np.ones(BLOCK)


class Waits:
    """How long each of B environments that are stepped together takes, and the wait for the slowest.

    Parameters
    ----------
    numbers : [B]
        which environments these are, over all actors: how fast each is follows from that.
    clock, sleep
        monotonic nanoseconds, and a wait of so many seconds.
    """

    def __init__(
        self,
        config: SimulatorConfig,
        numbers: Sequence[int],
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.clock = clock
        self.waited_ns = 0
        """So far."""
        self._config, self._sleep = config, sleep
        self.numbers = numbers
        self._steps: list[Iterator[float]] = []
        self._resets: list[Iterator[float]] = []
        self.renumber(numbers)

    def renumber(self, numbers: Sequence[int]) -> None:
        """Be other environments from now on, as many, with times from any seeds."""
        self.numbers = numbers
        streams = [self._streams(number, None) for number in numbers]
        self._steps, self._resets = [steps for steps, _ in streams], [resets for _, resets in streams]

    def seed(self, place: int, seed: int) -> None:
        """Begin the times of one of them anew, from the seed that it is reset with."""
        self._steps[place], self._resets[place] = self._streams(self.numbers[place], seed)

    def _streams(self, number: int, seed: int | None) -> tuple[Iterator[float], Iterator[float]]:
        config, slow = self._config, scale(self._config, number)
        stepping, resetting = (
            np.random.default_rng(part) for part in np.random.SeedSequence(seed, spawn_key=(STREAM,)).spawn(2)
        )
        return times(config, slow * config.step_seconds, stepping), times(config, slow * config.reset_seconds, resetting)

    def wait(self, began_ns: int, steps: Iterable[int], resets: Iterable[int]) -> None:
        """Wait until all are ready that began then; what was computed since is a part of their times.

        Parameters
        ----------
        began_ns
            by the clock.
        steps, resets
            places of those that stepped, and of those that were reset; one that did both takes both times.
        """
        took = [0.0] * len(self.numbers)
        for i in steps:
            took[i] = next(self._steps[i])
        for i in resets:
            took[i] += next(self._resets[i])
        now = self.clock()
        left = max(took) - (now - began_ns)
        if left > 0:
            self._sleep(left / 1e9)
            self.waited_ns += self.clock() - now


class Waiting(gym.Wrapper):  # type: ignore[misc]
    """One environment that waits by itself.

    Parameters
    ----------
    number
        which one it is, over all that are used: how fast it is follows from that.
    """

    def __init__(self, env: gym.Env, config: SimulatorConfig, number: int = 0) -> None:
        super().__init__(env)
        self._waits = Waits(config, [number])

    def step(self, action: Any) -> Any:
        began = self._waits.clock()
        result = self.env.step(action)
        self._waits.wait(began, [0], [])
        return result

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._waits.seed(0, seed)
        began = self._waits.clock()
        result = self.env.reset(seed=seed, options=options)
        self._waits.wait(began, [], [0])
        return result


class Picture(gym.ObservationWrapper):  # type: ignore[misc]
    """Draws an observation as bars from the middle of a black RGB picture, bytes [side, side, 3].

    There is a band of rows for each component, from the top. A positive component's bar goes to the right and is red, a
    negative one's to the left, blue. A bar is as long as the root of the component over `RANGE`, to which it is clipped: so
    small values are told apart too. A Discrete observation is one component, between the two ends.

    Parameters
    ----------
    side
        in pixels.
    where
        the environment, as errors name it.
    grain
        every byte is at least a random number up to this; others in each picture, which the seed of the reset decides.

    Raises
    ------
    ConfigError
        for an observation that is a picture already, or has more components than there are rows.
    """

    def __init__(self, env: gym.Env, side: int, where: str, grain: int = 0) -> None:
        super().__init__(env)
        space = env.observation_space
        self._discrete = int(space.n) if isinstance(space, gym.spaces.Discrete) else 0
        self._components = 1 if self._discrete else math.prod(space.shape)
        if not 0 < self._components <= side:
            raise ConfigError(
                f"{where}: an observation of {self._components} components cannot be drawn on {side} rows of simulator.picture"
            )
        self.observation_space = gym.spaces.Box(0, 255, (side, side, 3), np.uint8)
        self._side, self._lines = side, _lines(side)
        self._noise = _noise(grain, 3 * side * side) if grain else None
        self._places = _grain_of(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._places = _grain_of(seed)
        result: tuple[Any, dict[str, Any]] = super().reset(seed=seed, options=options)
        return result

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        side, high = self._side, self._side // self._components
        picture = np.zeros((side, 3 * side), np.uint8)
        if self._discrete:
            lengths = [2 * int(observation) / max(1, self._discrete - 1) - 1]
        else:
            values = np.asarray(observation).ravel().tolist()
            lengths = [math.copysign(math.sqrt(min(abs(v), RANGE) / RANGE), v) for v in values]
        half, top = side * PARTS / 2, 0
        for length in lengths:
            picture[top : top + high] = self._lines[round((1 + length) * half)]
            top += high
        if self._noise is not None:
            place = self._places.integers(len(self._noise) - picture.size)
            np.maximum(picture, self._noise[place : place + picture.size].reshape(picture.shape), out=picture)
        return picture.reshape(side, side, 3)


def _grain_of(seed: int) -> np.random.Generator:
    """What decides which part of the noise a picture shows."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM + 1,)))


@functools.cache
def _noise(grain: int, size: int) -> NDArray[np.uint8]:
    """Noise of which each picture shows a part: bytes from 0 to `grain`, enough for 64 pictures of so many."""
    return np.random.default_rng(STREAM).integers(0, grain, 64 * size, np.uint8, endpoint=True)


@functools.cache
def _lines(side: int) -> NDArray[np.uint8]:
    """A row of a picture for each place at which a bar can end, from left to right: bytes [side PARTS + 1, 3 side]."""
    end = np.arange(side * PARTS + 1)[:, None] / PARTS
    middle, column = side / 2, np.arange(side)
    lines = np.zeros((len(end), side, 3))
    for colour, low, high in ((0, middle, end), (2, end, middle)):
        covered = np.minimum(column + 1, high) - np.maximum(column, low)
        lines[:, :, colour] = np.clip(covered, 0, 1)
    return np.rint(255 * lines).astype(np.uint8).reshape(len(end), 3 * side)
