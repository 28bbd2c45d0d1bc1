"""Environments of one actor, stepped together, with stacks of their observations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments.actions import Actions
from tianji.environments.delays import Delays
from tianji.environments.making import ATARI, PLAIN, imported, make_env
from tianji.environments.place import CLOSE, CONSTRUCTOR, DEEDS, RESET, STEP, Place
from tianji.environments.spaces import actions_of
from tianji.environments.state import plain, recall, remember, restored
from tianji.faults import EnvironmentFailed, Misshapen, told

log = logging.getLogger(__name__)


class Stacks:
    """Stacks of the last S observations of each of B environments.

    Parameters
    ----------
    first : [B, ...]
        each environment's first observation.
    """

    def __init__(self, first: NDArray[Any], stack: int) -> None:
        self.stack = stack
        self.age = np.zeros(len(first), np.int64)
        """Number of earlier observations of the same episode, up to S - 1, for each environment."""
        self._latest = first
        if stack > 1:
            self._frames = np.repeat(first[:, None], stack, axis=1)

    @property
    def seen(self) -> NDArray[Any]:
        """Stacks [B, S, ...], oldest first, or [B, ...] if S is 1. An episode's first observation is repeated to fill one."""
        return self._frames if self.stack > 1 else self._latest

    def push(self, latest: NDArray[Any], begun: NDArray[np.bool_] | list[int] | None = None) -> None:
        """Add an observation of each environment, some of which begin episodes. If S is 1 it is not copied."""
        self._latest = latest
        if self.stack == 1:
            return
        self._frames[:, :-1] = self._frames[:, 1:]
        self._frames[:, -1] = latest
        np.minimum(self.age + 1, self.stack - 1, out=self.age)
        if begun is not None:
            self._frames[begun] = latest[begun][:, None]
            self.age[begun] = 0

    def keep(self) -> None:
        """Copy the latest observations, because their memory will be overwritten."""
        self._latest = self._latest.copy()

    def remember(self) -> list[Any]:
        """State for `recall`, as data for JSON."""
        return [plain(self._latest), plain(self.age), plain(self._frames if self.stack > 1 else None)]

    def recall(self, state: list[Any]) -> None:
        """Go on from a state that `remember` returned."""
        self._latest, self.age, frames = map(restored, state)
        if self.stack > 1:
            self._frames = frames


class Ended(NamedTuple):
    """Record of an episode that ended with a step."""

    environment: int
    observation: Any
    """Last observation of the episode."""
    terminated: bool
    """True: it ended by itself. False: it was truncated."""
    episode_return: float
    length: int
    infos: tuple[dict[str, Any], dict[str, Any]]
    """`info` of the step, and of the reset that followed."""


class Environments:
    """Environments stepped together in this process, one after the other.

    An episode that ends is reset in the same call. So every row that `step` writes is a real transition, and T calls give
    exactly T x B of them. Gymnasium's `SyncVectorEnv` does the same steps and takes longer
    (docs/notebook/2026-11-speed.md). Here results
    are written directly to the caller's arrays, and actions are plain Python integers.

    Parameters
    ----------
    numbers
        numbers of these environments over all actors.
    place
        is told of each call into an environment. None: nobody is.
    settings
        arguments and wrappers.
    actions
        how actions are given to the environments. None: as their space says.

    Raises
    ------
    EnvironmentFailed
        if an environment raises, here and in `reset` and `step`. It names the environment and says in which call.
    Misshapen
        if an environment returns what does not fit its space, or a reward that is no number, in `reset` and `step`.
    """

    waited_ns = 0
    """Nanoseconds waited for simulators so far."""

    def __init__(
        self,
        env_id: str,
        numbers: Sequence[int],
        games: AtariConfig = ATARI,
        simulator: SimulatorConfig | None = None,
        place: Place | None = None,
        settings: EnvironmentConfig = PLAIN,
        actions: Actions | None = None,
    ) -> None:
        self._id, self._numbers, self._place = env_id, list(numbers), place or Place()
        imported(env_id)
        self._envs: list[gym.Env] = []
        for i in range(len(self._numbers)):
            with self._call(i, CONSTRUCTOR):
                self._envs.append(make_env(env_id, games, simulator, settings))
        self._steps = [env.step for env in self._envs]
        self._codes = [Place.code(number, STEP) for number in self._numbers]
        self._given = (actions or actions_of(self._envs[0].action_space, f"environment {env_id}")).given
        space = self._envs[0].observation_space
        self._shape, self._dtype = space.shape, space.dtype
        self._fits = space.dtype
        """Type of array that is known to fit the space."""
        self._returns = [0.0] * len(self._numbers)
        self._begun = [0] * len(self._numbers)
        """Number of steps taken before the current episode, for each environment."""
        self._taken = 0

    @contextmanager
    def _call(self, i: int, deed: int) -> Iterator[None]:
        """Context of a call into environment `i`, which is noted. What it raises is `EnvironmentFailed`, whatever it is."""
        word = self._place.word
        word[0] = Place.code(self._numbers[i], deed)
        try:
            yield
        except (KeyboardInterrupt, Misshapen):
            raise
        except BaseException as error:  # Also SystemExit, and panics of extension modules.
            raise self._failed(i, deed, error) from error
        finally:
            word[0] = 0

    def _failed(self, i: int, deed: int, error: BaseException) -> EnvironmentFailed:
        # What makes a user's own environment says as a ConfigError what that raised.
        cause = error.__cause__ if isinstance(error, ConfigError) and error.__cause__ is not None else error
        return EnvironmentFailed(f"{self._name(i)}: its {DEEDS[deed]} raised {told(cause)}")

    def _name(self, i: int) -> str:
        return f"environment {self._id}, number {self._numbers[i]}"

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Reset each environment with its own seed, and return the first observations, [B, ...]."""
        first: NDArray[Any] = np.empty((len(self._envs), *(self._shape or ())), self._dtype)
        for i, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            with self._call(i, RESET):
                first[i] = self._fitting(i, env.reset(seed=seed)[0])
            self._returns[i], self._begun[i] = 0.0, self._taken
        return first

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """Step each environment once.

        Parameters
        ----------
        actions : [B, ...]
            as chunks hold them.
        observations, rewards : [B, ...], [B]
            output arrays. If an episode ended, the observation is the first one of the next episode.

        Returns
        -------
        list of Ended
            in order of environment.
        """
        self._taken += 1
        ended, returns, shape, fits, word, i = [], self._returns, self._shape, self._fits, self._place.word, 0
        try:
            for i, (step, action, code) in enumerate(zip(self._steps, self._given(actions), self._codes, strict=True)):
                word[0] = code
                observation, reward, terminated, truncated, info = step(action)
                try:
                    value = float(reward)
                except (TypeError, ValueError):
                    value = self._number(i, reward)
                rewards[i] = value
                returns[i] += value
                try:
                    # NumPy would broadcast a shorter one, and cut off what another type cannot hold.
                    if observation.dtype is not fits or observation.shape != shape:
                        observation = self._fitting(i, observation)
                except AttributeError:
                    observation = self._fitting(i, observation)
                if terminated or truncated:
                    # A copy, because an environment may write all observations into the same memory.
                    last = np.array(observation)
                    word[0] = Place.code(self._numbers[i], RESET)
                    first, after = self._envs[i].reset()
                    observation = self._fitting(i, first)
                    length = self._taken - self._begun[i]
                    ended.append(Ended(i, last, bool(terminated), returns[i], length, (info, after)))
                    returns[i], self._begun[i] = 0.0, self._taken
                observations[i] = observation
        except (KeyboardInterrupt, Misshapen):
            raise
        except BaseException as error:  # As in `_call`, which would cost time at each step.
            raise self._failed(i, word[0] % len(DEEDS), error) from error
        finally:
            word[0] = 0
        return ended

    def remember(self) -> dict[str, Any]:
        """State for `recall`, as data for JSON. `Unknown` if an environment cannot give it."""
        return {
            "environments": [remember(env) for env in self._envs],
            "returns": plain([float(value) for value in self._returns]),
            "lengths": [self._taken - begun for begun in self._begun],
        }

    def recall(self, state: dict[str, Any]) -> None:
        """Go on from a state that `remember` returned. The environments must have been reset once."""
        for env, kept in zip(self._envs, state["environments"], strict=True):
            recall(env, kept)
        self._returns, self._begun = restored(state["returns"]), [self._taken - length for length in state["lengths"]]

    def _fitting(self, i: int, observation: Any) -> NDArray[Any]:
        """The observation as an array whose values the environment's space can hold; `Misshapen` if there is none."""
        if isinstance(observation, np.ndarray) and observation.dtype == self._fits and observation.shape == self._shape:
            return observation
        try:
            array = np.asarray(observation)
        except ValueError:
            raise Misshapen(f"{self._name(i)} returned an observation that is no array") from None
        if array.shape != self._shape:
            raise Misshapen(f"{self._name(i)} returned an observation of shape {array.shape}; its space has {self._shape}")
        if np.can_cast(array.dtype, self._dtype, "same_kind"):
            self._fits = array.dtype
        elif array.dtype.kind not in "fiub" or (array.astype(self._dtype) != array).any():
            raise Misshapen(
                f"{self._name(i)} returned an observation of {array.dtype}; its space has {self._dtype}, which cannot hold its "
                "values"
            )
        return array

    def _number(self, i: int, reward: Any) -> float:
        """The reward in an array of one number; `Misshapen` if it is anything else."""
        try:
            array = np.asarray(reward if isinstance(reward, np.ndarray | list | tuple) else (), np.float64)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.size != 1:
            shape = f" of shape {np.shape(reward)}" if isinstance(reward, np.ndarray | list | tuple) else ""
            raise Misshapen(f"{self._name(i)} returned a reward of type {type(reward).__name__}{shape}; it must be one number")
        return float(array.reshape(()))

    def close(self) -> None:
        """Close all environments. One that raises is reported and changes nothing: the steps were taken."""
        for i, env in enumerate(self._envs):
            try:
                with self._call(i, CLOSE):
                    env.close()
            except EnvironmentFailed as error:
                log.warning("%s; the run is not affected", error)


class Simulated(Environments):
    """Environments with a simulator's delays, which run in parallel: a step waits for the slowest.

    A step in which an episode ends also takes the delay of a reset.

    Parameters
    ----------
    numbers
        numbers of these environments over all actors. With the seed, they decide the delays.
    waits
        delays to use; None: those of the simulator, by this host's clock.
    """

    def __init__(
        self,
        env_id: str,
        numbers: Sequence[int],
        games: AtariConfig,
        simulator: SimulatorConfig,
        waits: Delays | None = None,
        place: Place | None = None,
        settings: EnvironmentConfig = PLAIN,
        actions: Actions | None = None,
    ) -> None:
        super().__init__(env_id, numbers, games, simulator, place, settings, actions)
        self._all = range(len(numbers))
        self._waits = waits or Delays(simulator, numbers)

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        for place, seed in enumerate(seeds):
            self._waits.seed(place, seed)
        began = self._waits.clock()
        first = super().reset(seeds)
        self._waits.wait(began, (), self._all)
        self.waited_ns = self._waits.waited_ns
        return first

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        began = self._waits.clock()
        ended = super().step(actions, observations, rewards)
        self._waits.wait(began, self._all, [episode.environment for episode in ended])
        self.waited_ns = self._waits.waited_ns
        return ended


def together(
    env_id: str,
    numbers: Sequence[int],
    games: AtariConfig = ATARI,
    simulator: SimulatorConfig | None = None,
    place: Place | None = None,
    settings: EnvironmentConfig = PLAIN,
    actions: Actions | None = None,
) -> Environments:
    """Make the environments of these numbers, to be stepped together, with the simulator's delays if it has any."""
    if simulator is None or not simulator.waits:
        return Environments(env_id, numbers, games, simulator, place, settings, actions)
    return Simulated(env_id, numbers, games, simulator, None, place, settings, actions)
