"""Environments of one actor as one vector environment, stepped in one call."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from tianji.config import AtariConfig, EnvironmentConfig
from tianji.environments import vector_form
from tianji.environments.actions import Actions
from tianji.environments.making import ATARI, PLAIN, imported
from tianji.environments.place import CLOSE, CONSTRUCTOR, DEEDS, RESET, STEP, Place
from tianji.environments.spaces import actions_of
from tianji.environments.vector import Ended
from tianji.faults import EnvironmentFailed, Misshapen, Unknown

log = logging.getLogger(__name__)


class Vectorised:
    """Vector environment whose every row is a real transition: its modes are SAME_STEP and DISABLED.

    It is used as `tianji.environments.vector.Environments` is. What it returns is copied, because vector environments may
    write each result into the same memory.

    Parameters
    ----------
    numbers
        numbers of its lanes (environments) over all actors.
    place
        is told of each call into it, as one of the first lane. None: nobody is.
    settings
        arguments.
    actions
        how actions are given. None: as its space says.

    Raises
    ------
    ConfigError
        if there is no such vector environment.
    EnvironmentFailed
        if it raises, here and in `reset` and `step`. It names the lanes and says in which call.
    Misshapen
        if it returns what does not fit its spaces, or an episode's end without the last observation, in `reset` and `step`.
    """

    waited_ns = 0
    """Nanoseconds waited for simulators: none."""

    def __init__(
        self,
        env_id: str,
        numbers: Sequence[int],
        games: AtariConfig = ATARI,
        place: Place | None = None,
        settings: EnvironmentConfig = PLAIN,
        actions: Actions | None = None,
    ) -> None:
        self._id, self._numbers, self._place = env_id, list(numbers), place or Place()
        imported(env_id)
        with self._call(CONSTRUCTOR):
            self._env = vector_form.made(env_id, len(self._numbers), games, settings)
        self._mode = vector_form.mode_of(self._env, self._name)
        self._batched = (actions or actions_of(self._env.single_action_space, f"environment {env_id}")).batched
        space = self._env.single_observation_space
        self._shape, self._dtype = (len(self._numbers), *(space.shape or ())), space.dtype
        self._fits = space.dtype
        """Type of array that is known to fit the space."""
        self._got = np.zeros(len(self._numbers))
        """Rewards of the latest step."""
        self._returns = np.zeros(len(self._numbers))
        self._begun = np.zeros(len(self._numbers), np.int64)
        """Number of calls of `step` before the current episode of each lane."""
        self._taken = 0

    @property
    def _name(self) -> str:
        first, last = self._numbers[0], self._numbers[-1]
        return f"environment {self._id}, {f'number {first}' if first == last else f'numbers {first} to {last}'}"

    @contextmanager
    def _call(self, deed: int) -> Iterator[None]:
        """Context of a call, which is noted. What it raises is `EnvironmentFailed`, whatever it is."""
        word = self._place.word
        word[0] = Place.code(self._numbers[0], deed)
        try:
            yield
        except (KeyboardInterrupt, Misshapen):
            raise
        except BaseException as error:  # Also SystemExit, and panics of extension modules.
            raise EnvironmentFailed(vector_form.failure(self._name, DEEDS[deed], error)) from error
        finally:
            word[0] = 0

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Reset all lanes, and return the first observations, [B, ...].

        Parameters
        ----------
        seeds
            one for each lane. A vector environment that takes only one seed gets the first.
        """
        with self._call(RESET):
            first = np.array(self._fitting(self._seeded([int(seed) for seed in seeds])), self._dtype)
        self._returns[:], self._begun[:] = 0.0, self._taken
        return first

    def _seeded(self, seeds: list[int]) -> Any:
        # Gymnasium's interface has one seed for all. Its own SyncVectorEnv takes a list, and ale_py an array.
        for form in (seeds, np.array(seeds, np.int64) % 2**31):
            try:
                return self._env.reset(seed=form)[0]
            except Exception as error:
                log.debug("%s: its reset takes no %s of seeds: %s", self._name, type(form).__name__, error)
        return self._env.reset(seed=seeds[0])[0]

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """Step each lane once; see `Environments.step`."""
        terminated, truncated, infos = self._stepped(actions, observations)
        rewards[:] = self._got
        self._returns += self._got
        over = terminated | truncated
        if not over.any():
            return []
        lanes = np.flatnonzero(over).tolist()
        finals = self._finals(lanes, observations, infos)
        ended = self._ended(lanes, finals, terminated, infos)
        self._returns[over], self._begun[over] = 0.0, self._taken
        if self._mode is AutoresetMode.DISABLED:
            with self._call(RESET):
                first = self._fitting(self._env.reset(options={"reset_mask": over.copy()})[0])
                observations[over] = first[over]
        return ended

    def _stepped(
        self, actions: NDArray[Any], observations: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step, copy observations and rewards, and return which lanes were terminated and truncated, [B], and infos."""
        self._taken += 1
        with self._call(STEP):
            seen, reward, *ends, infos = self._env.step(self._batched(actions))
            observations[:] = self._fitting(seen)
            self._got[:] = self._by_lane(reward, "rewards")
            terminated, truncated = (
                self._by_lane(flags, name).astype(np.bool_)  # A copy.
                for flags, name in zip(ends, ("terminations", "truncations"), strict=True)
            )
        return terminated, truncated, infos

    def _finals(self, lanes: list[int], observations: NDArray[Any], infos: dict[str, Any]) -> list[NDArray[Any]]:
        """Copies of the last observations of the episodes that ended in these lanes."""
        if self._mode is not AutoresetMode.SAME_STEP:
            return [observations[lane].copy() for lane in lanes]
        given: Any = infos.get("final_obs", [None] * len(self._numbers))
        there = infos.get("_final_obs")  # ale_py gives no mask.
        for lane in lanes:
            if given[lane] is None or (there is not None and not there[lane]):
                raise Misshapen(f"{self._name}: an episode ended in its step without infos['final_obs'], its last observation")
        finals = [np.array(given[lane], self._dtype) for lane in lanes]
        if wrong := [one.shape for one in finals if one.shape != self._shape[1:]]:
            raise Misshapen(f"{self._name} returned a last observation of shape {wrong[0]}; its space has {self._shape[1:]}")
        return finals

    def _ended(
        self, lanes: list[int], finals: list[NDArray[Any]], terminated: NDArray[np.bool_], infos: dict[str, Any]
    ) -> list[Ended]:
        whole = infos.get("episode")  # Of whole Atari games.
        return [
            Ended(
                lane,
                final,
                bool(terminated[lane]),
                float(self._returns[lane]),
                int(self._taken - self._begun[lane]),
                ({} if whole is None else {"episode": {name: whole[name][lane] for name in ("r", "l")}}, {}),
            )
            for lane, final in zip(lanes, finals, strict=True)
        ]

    def remember(self) -> dict[str, Any]:
        """Raise `Unknown`, because a vector environment cannot give its state."""
        raise Unknown(f"{self._name} is a vector, which cannot give its state")

    def recall(self, state: dict[str, Any]) -> None:
        """As `remember`."""
        self.remember()

    def _fitting(self, observations: Any) -> NDArray[Any]:
        """The observations as an array whose values the space can hold; `Misshapen` if there is none."""
        array = np.asarray(observations)
        if array.shape != self._shape:
            raise Misshapen(f"{self._name} returned observations of shape {array.shape}; its space has {self._shape}")
        if array.dtype == self._fits:
            return array
        if np.can_cast(array.dtype, self._dtype, "same_kind"):
            self._fits = array.dtype
        elif array.dtype.kind not in "fiub" or (array.astype(self._dtype) != array).any():
            raise Misshapen(
                f"{self._name} returned observations of {array.dtype}; its space has {self._dtype}, which cannot hold their "
                "values"
            )
        return array

    def _by_lane(self, values: Any, name: str) -> NDArray[Any]:
        """An array of one number for each lane; `Misshapen` if it is anything else."""
        array = np.asarray(values)
        if array.shape != self._shape[:1] or array.dtype.kind not in "fiub":
            raise Misshapen(
                f"{self._name} returned {name} of shape {array.shape} and type {array.dtype}; they must be one number for each "
                "lane"
            )
        return array

    def close(self) -> None:
        """Close the vector environment. If it raises, that is reported and changes nothing: the steps were taken."""
        try:
            with self._call(CLOSE):
                self._env.close()
        except EnvironmentFailed as error:
            log.warning("%s; the run is not affected", error)


class NextStep(Vectorised):
    """Vector environment in mode NEXT_STEP: in the step after an episode's end that lane is only reset.

    Not every row of its `step` is a real transition: see `pending`.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.pending = np.zeros(len(self._numbers), np.bool_)
        """Lanes, [B], whose next action is ignored. In the next row their reward means nothing, and their observation is the
        first one of an episode. The array is replaced by each step, never changed."""

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        self.pending = np.zeros(len(self._numbers), np.bool_)
        return super().reset(seeds)

    def step(self, actions: NDArray[Any], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """Step each lane once, or reset it. Where an episode ended, the observation is its last one."""
        ignored = self.pending
        terminated, truncated, infos = self._stepped(actions, observations)
        self._got[ignored] = 0.0
        rewards[:] = self._got
        self._returns += self._got
        self._begun[ignored] = self._taken
        # What a lane says in a reset row counts for its next reset alone.
        self.pending = terminated | truncated
        lanes = np.flatnonzero(self.pending & ~ignored).tolist()
        if not lanes:
            return []
        ended = self._ended(lanes, self._finals(lanes, observations, infos), terminated, infos)
        self._returns[lanes] = 0.0
        return ended


def vectorised(
    env_id: str,
    numbers: Sequence[int],
    games: AtariConfig,
    place: Place | None,
    settings: EnvironmentConfig,
    actions: Actions | None,
    mode: str,
) -> Vectorised:
    """Make the vector environment of these lanes, whose autoreset mode is known."""
    kind = NextStep if mode == AutoresetMode.NEXT_STEP.value else Vectorised
    return kind(env_id, numbers, games, place, settings, actions)
