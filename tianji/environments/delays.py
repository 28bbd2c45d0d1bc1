"""Synthetic slow simulators: steps and resets that take time, by default without CPU, and observations drawn as pictures.

Each environment draws its delays from the seed of its reset, in a stream apart from its own randomness. So episodes do not
depend on delays. Environments that are stepped together wait at the same time, like simulators that run in parallel: a step of
all takes as long as the slowest one.
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
"""Number of delays drawn at once."""
STREAM = 0x51
"""Stream of the delays' random numbers, apart from those of the environment with the same seed."""
RANGE = 5.0
"""Largest absolute value of an observation's component in a picture; larger ones are clipped."""
PARTS = 8
"""Levels of brightness of a bar's last pixel, which shows a fraction of a pixel."""


def scale(config: SimulatorConfig, number: int) -> float:
    """Factor of an environment's mean delays: from 2 / (1 + s) to 2 s / (1 + s) for a spread of s. Its mean over environments
    is 1, also with a straggler, and less with more ranks."""
    many, shorter = config.spread_over, config.shorter
    if config.straggler > 1:
        return shorter * (config.straggler if number % many == many - 1 else 1.0) * many / (many - 1 + config.straggler)
    place = number % many / (many - 1)
    return shorter * 2 * (1 + (config.spread - 1) * place) / (1 + config.spread)


def times(config: SimulatorConfig, mean_seconds: float, rng: np.random.Generator) -> Iterator[float]:
    """Endless delays in nanoseconds."""
    while True:
        yield from np.repeat(mean_seconds * 1e9 * _relative(config, rng), config.drawn_every).tolist()


def _relative(config: SimulatorConfig, rng: np.random.Generator) -> NDArray[np.float64]:
    """Delays of mean 1, [BLOCK]."""
    if config.sigma is not None:
        # The mean of a lognormal variable is exp(mu + sigma^2 / 2).
        return rng.lognormal(-(config.sigma**2) / 2, config.sigma, BLOCK)
    if config.alpha is not None and config.truncation is not None:
        # The inverse of Pareto's distribution of minimum 1, cut off at c and normalised.
        left = config.truncation**-config.alpha
        drawn: NDArray[np.float64] = (1 - rng.random(BLOCK) * (1 - left)) ** (-1 / config.alpha)
        return drawn / truncated_mean(config.alpha, config.truncation)
    if config.alpha is not None:
        # NumPy draws Lomax's distribution, which is Pareto's of minimum 1 less one. Pareto's mean is alpha / (alpha - 1).
        return (1 + rng.pareto(config.alpha, BLOCK)) * (config.alpha - 1) / config.alpha
    return np.ones(BLOCK)


def truncated_mean(alpha: float, most: float) -> float:
    """Mean of a Pareto variable of minimum 1 that is cut off at `most`."""
    share: float = (1 - most ** (1 - alpha)) / (1 - most**-alpha)
    return alpha / (alpha - 1) * share


def compute(seconds: float) -> None:
    """Use a core for so many seconds of this thread's processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Delays:
    """Delays of B environments that are stepped together, and the wait for the slowest.

    Parameters
    ----------
    numbers : [B]
        numbers of these environments over all actors, which decide their speeds.
    clock, sleep
        clock in monotonic nanoseconds, and a function that waits for a number of seconds. By default it sleeps, or computes
        if the simulators do.
    """

    def __init__(
        self,
        config: SimulatorConfig,
        numbers: Sequence[int],
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.clock = clock
        self.waited_ns = 0
        """Nanoseconds waited so far."""
        self._config, self._sleep = config, sleep or (compute if config.computes else time.sleep)
        self.numbers = numbers
        self._steps: list[Iterator[float]] = []
        self._resets: list[Iterator[float]] = []
        self.renumber(numbers)

    def renumber(self, numbers: Sequence[int]) -> None:
        """Stand for other environments, of the same number, from now on."""
        self.numbers = numbers
        streams = [self._streams(number, None) for number in numbers]
        self._steps, self._resets = [steps for steps, _ in streams], [resets for _, resets in streams]

    def seed(self, place: int, seed: int) -> None:
        """Restart the delays of one environment, from the seed of its reset."""
        self._steps[place], self._resets[place] = self._streams(self.numbers[place], seed)

    def _streams(self, number: int, seed: int | None) -> tuple[Iterator[float], Iterator[float]]:
        config, slow = self._config, scale(self._config, number)
        stepping, resetting = (
            np.random.default_rng(part) for part in np.random.SeedSequence(seed, spawn_key=(STREAM,)).spawn(2)
        )
        return times(config, slow * config.step_seconds, stepping), times(config, slow * config.reset_seconds, resetting)

    def wait(self, began_ns: int, steps: Iterable[int], resets: Iterable[int]) -> None:
        """Wait until all environments are ready. Time that passed since `began_ns` counts towards their delays.

        Parameters
        ----------
        began_ns
            start of the step, by the clock.
        steps, resets
            indexes of the environments that stepped, and of those that were reset. One that did both takes both delays.
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
            if not self._config.computes:
                self.waited_ns += self.clock() - now


class Delayed(gym.Wrapper):  # type: ignore[misc]
    """Wrapper of one environment that waits by itself.

    Parameters
    ----------
    number
        number of the environment over all in use, which decides its speed.
    """

    def __init__(self, env: gym.Env, config: SimulatorConfig, number: int = 0) -> None:
        super().__init__(env)
        self._waits = Delays(config, [number])

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
    """Wrapper that draws an observation as bars from the middle of a black RGB picture, bytes [side, side, 3].

    Each component has a band of rows, from the top. The bar of a positive component is red and goes to the right; that of a
    negative one is blue and goes to the left. Its length is the square root of the component over `RANGE`, so that small
    values can be told apart. A Discrete observation is one component, scaled between the two ends.

    Parameters
    ----------
    side
        side of the picture in pixels.
    where
        name of the environment in errors.
    grain
        every byte is at least a random number up to this. The noise differs between pictures and follows from the reset's
        seed.

    Raises
    ------
    ConfigError
        for an observation that is a picture already, or that has more components than the picture has rows.
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
    """Generator that selects the part of the noise in each picture."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM + 1,)))


@functools.cache
def _noise(grain: int, size: int) -> NDArray[np.uint8]:
    """Noise from which each picture shows a part: bytes from 0 to `grain`, enough for 64 pictures of `size` bytes."""
    return np.random.default_rng(STREAM).integers(0, grain, 64 * size, np.uint8, endpoint=True)


@functools.cache
def _lines(side: int) -> NDArray[np.uint8]:
    """Rows of a picture for each place where a bar can end, from left to right: bytes [side PARTS + 1, 3 side]."""
    end = np.arange(side * PARTS + 1)[:, None] / PARTS
    middle, column = side / 2, np.arange(side)
    lines = np.zeros((len(end), side, 3))
    for colour, low, high in ((0, middle, end), (2, end, middle)):
        covered = np.minimum(column + 1, high) - np.maximum(column, low)
        lines[:, :, colour] = np.clip(covered, 0, 1)
    return np.rint(255 * lines).astype(np.uint8).reshape(len(end), 3 * side)
