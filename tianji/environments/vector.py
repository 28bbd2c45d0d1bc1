"""Gymnasium environments: made and checked, stepped together, with stacks of their observations."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji import references
from tianji.config import AtariConfig, SimulatorConfig
from tianji.environments import atari
from tianji.environments.delays import Delays, Picture
from tianji.environments.description import EnvDescription
from tianji.faults import Misshapen

ATARI = AtariConfig()


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


def make(env_id: str, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None) -> gym.Env:
    """Make one environment, without Gymnasium's checks for authors of environments.

    A simulator's delays are not added here; `together` and `tianji.environments.delays.Delayed` add them.

    Parameters
    ----------
    env_id
        an id registered with Gymnasium, or `module:name`. In the second form the module's class or function `name` is called
        without arguments. A module without that name may instead register an environment with that id.
    games
        wrappers, if it is an Atari game.
    simulator
        whether observations are drawn as pictures.

    Raises
    ------
    ConfigError
        if `module:name` gives no environment, or observations cannot be drawn.
    """
    return _drawn(_plain(env_id, games), env_id, simulator)


def _plain(env_id: str, games: AtariConfig) -> gym.Env:
    if atari.is_atari(env_id):
        return atari.make(env_id, games)
    return _own(env_id) if is_own(env_id) else gym.make(env_id, disable_env_checker=True)


def _drawn(env: gym.Env, env_id: str, simulator: SimulatorConfig | None) -> gym.Env:
    if simulator is None or simulator.picture is None:
        return env
    return Picture(env, simulator.picture, f"environment {env_id}", simulator.grain)


def is_own(env_id: str) -> bool:
    """Whether this is a user's own environment, `module:name`."""
    return ":" in env_id


def _own(env_id: str) -> gym.Env:
    where = f"environment {env_id}"
    module, name = references.module_of(env_id, where)
    registered = name in gym.registry or any(known.startswith(f"{name}-v") for known in gym.registry)
    if registered and not hasattr(module, name):
        return references.attempt(lambda: gym.make(env_id, disable_env_checker=True), f"{where}: when it is made")
    env = references.call(references.attribute_of(module, name, where, gym.registry), where)
    if not isinstance(env, gym.Env):
        raise ConfigError(f"{where}: it returns an object of type {type(env).__name__}, and no gymnasium.Env")
    return env


def describe(env_id: str, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None) -> EnvDescription:
    """Make the environment once and read its spaces. A user's own environment is also tried for one step.

    Parameters
    ----------
    games, simulator
        as `make` takes them.

    Raises
    ------
    ConfigError
        for an environment that is unknown or cannot be made, for spaces that are not supported, and for observations that
        cannot be drawn. Observations must be Box or Discrete, and actions Discrete.
    """
    own = is_own(env_id)
    try:
        env = _plain(env_id, games) if own or atari.is_atari(env_id) else gym.make(env_id)
    except (gym.error.Error, ModuleNotFoundError, AttributeError, ValueError) as error:
        raise ConfigError(_unknown(env_id, error)) from None
    try:
        description = _read(env, env_id, games)
        if own:
            _rehearse(env, f"environment {env_id}")
        if simulator is not None and simulator.picture is not None:
            description = _read(_drawn(env, env_id, simulator), env_id, games)
    finally:
        env.close()
    return description


def _read(env: gym.Env, env_id: str, games: AtariConfig) -> EnvDescription:
    """Description of an environment from its spaces."""
    where = f"environment {env_id}"
    observation, action = (getattr(env, name, None) for name in ("observation_space", "action_space"))
    for name, space in (("observation_space", observation), ("action_space", action)):
        if not isinstance(space, gym.Space):
            raise ConfigError(f"{where}: it has no {name}; its constructor must set one of gymnasium.spaces")
    if not isinstance(action, gym.spaces.Discrete):
        raise ConfigError(f"{where}: its actions are {type(action).__name__}; only Discrete actions are supported")
    if action.start != 0:
        raise ConfigError(f"{where}: its actions start at {action.start}; only Discrete actions from 0 are supported")
    stack = games.stack if atari.is_atari(env_id) else 1
    if isinstance(observation, gym.spaces.Box):
        return EnvDescription(env_id, observation.shape, observation.dtype.str, 0, int(action.n), stack)
    if isinstance(observation, gym.spaces.Discrete) and observation.start == 0:
        return EnvDescription(env_id, (), "<i8", int(observation.n), int(action.n))
    raise ConfigError(f"{where}: its observations are {observation}; only Box and Discrete (from 0) are supported")


def _rehearse(env: gym.Env, where: str) -> None:
    """Try one reset and one step as in training, so that errors are reported before actors start.

    Raises
    ------
    ConfigError
        if the environment raises, or returns something that does not match Gymnasium's interface or its own space.
    """
    for name, wanted, deed in (
        ("reset", "(observation, info)", lambda: env.reset(seed=0, options=None)),
        ("step", "(observation, reward, terminated, truncated, info)", lambda: env.step(np.int64(0))),
    ):
        result = references.attempt(deed, f"{where}: asked to {name}")
        if not isinstance(result, tuple) or len(result) != wanted.count(",") + 1:
            raise ConfigError(f"{where}: its {name} must return {wanted}")
        if misfit := _misfit(result[0], env.observation_space):
            raise ConfigError(f"{where}: its {name} returns an observation {misfit}")


def _misfit(observation: Any, space: gym.spaces.Box | gym.spaces.Discrete) -> str | None:
    """Description of what is wrong with an observation. A Box's bounds and its type, which NumPy converts, are not checked."""
    if isinstance(space, gym.spaces.Discrete):
        return None if space.contains(observation) else f"that is not in its observation_space, {space}: {observation!r}"
    try:
        shape = np.shape(observation)
    except ValueError:
        return "that is no array"
    return None if shape == space.shape else f"of shape {shape}, and its observation_space has {space.shape}"


def _unknown(env_id: str, error: Exception) -> str:
    if isinstance(error, gym.error.DependencyNotInstalled) and "Box2D" in str(error):
        # Gymnasium's own hint leads to a package that needs a compiler.
        return f"environment {env_id}: Box2D is not installed; pip install 'tianji-bench[box2d]' brings it"
    near = difflib.get_close_matches(env_id, gym.registry.keys(), n=1)
    hint = f"did you mean {near[0]}?" if near and near[0] != env_id else "give the id of a registered Gymnasium environment"
    return f"environment {env_id}: {' '.join(str(error).split())}; {hint}"


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
    exactly T x B of them. Gymnasium's `SyncVectorEnv` does the same steps and takes longer (docs/performance.md). Here results
    are written directly to the caller's arrays, and actions are plain Python integers.
    """

    waited_ns = 0
    """Nanoseconds waited for simulators so far."""

    def __init__(self, env_id: str, count: int, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None) -> None:
        self._envs = [make(env_id, games, simulator) for _ in range(count)]
        self._steps = [env.step for env in self._envs]
        self._shape = self._envs[0].observation_space.shape
        self._id = env_id
        self._returns = [0.0] * count
        self._begun = [0] * count
        """Number of steps taken before the current episode, for each environment."""
        self._taken = 0

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Reset each environment with its own seed, and return the first observations, [B, ...]."""
        space = self._envs[0].observation_space
        first: NDArray[Any] = np.empty((len(self._envs), *space.shape), space.dtype)
        for i, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            first[i] = self._fitting(env.reset(seed=seed)[0])
            self._returns[i], self._begun[i] = 0.0, self._taken
        return first

    def step(self, actions: NDArray[np.int64], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """Step each environment once.

        Parameters
        ----------
        actions : [B]
        observations, rewards : [B, ...], [B]
            output arrays. If an episode ended, the observation is the first one of the next episode.

        Returns
        -------
        list of Ended
            in order of environment.
        """
        self._taken += 1
        ended, returns, shape = [], self._returns, self._shape
        for i, (step, action) in enumerate(zip(self._steps, actions.tolist(), strict=True)):
            observation, reward, terminated, truncated, info = step(action)
            rewards[i] = reward
            returns[i] += float(reward)
            if terminated or truncated:
                # A copy, because an environment may write all observations into the same memory.
                last = np.array(self._fitting(observation))
                first, after = self._envs[i].reset()
                length = self._taken - self._begun[i]
                ended.append(Ended(i, last, bool(terminated), returns[i], length, (info, after)))
                returns[i], self._begun[i] = 0.0, self._taken
                observation = first
            try:
                if observation.shape != shape:  # NumPy would broadcast a shorter one.
                    self._fitting(observation)
            except AttributeError:
                self._fitting(observation)
            observations[i] = observation
        return ended

    def _fitting(self, observation: Any) -> Any:
        """The observation as an array. `Misshapen` if its shape differs from that of the environment's space."""
        if (shape := np.shape(observation)) != self._shape:
            raise Misshapen(f"environment {self._id} returned an observation of shape {shape}; its space has {self._shape}")
        return observation

    def close(self) -> None:
        """Close all environments."""
        for env in self._envs:
            env.close()


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
    ) -> None:
        super().__init__(env_id, len(numbers), games, simulator)
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

    def step(self, actions: NDArray[np.int64], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        began = self._waits.clock()
        ended = super().step(actions, observations, rewards)
        self._waits.wait(began, self._all, [episode.environment for episode in ended])
        self.waited_ns = self._waits.waited_ns
        return ended


def together(
    env_id: str, numbers: Sequence[int], games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None
) -> Environments:
    """Make the environments of these numbers, to be stepped together, with the simulator's delays if it has any."""
    if simulator is None or not simulator.waits:
        return Environments(env_id, len(numbers), games, simulator)
    return Simulated(env_id, numbers, games, simulator)
