"""Gymnasium environments: what is accepted, how many are stepped together, how observations become features."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji import atari, references
from tianji.config import AtariConfig, SimulatorConfig
from tianji.simulators import Picture, Waits

SMALLEST_IMAGE = 36
"""Side in pixels of the smallest image that the networks' three convolutions leave something of."""
ATARI = AtariConfig()


@dataclass(frozen=True)
class EnvDescription:
    """What the rest of the system needs to know of an environment."""

    env: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    classes: int
    """Values of a Discrete observation; 0 for a Box."""
    actions: int
    stack: int = 1
    """Successive observations (frames) that a network sees at a time."""

    @property
    def image(self) -> bool:
        """Whether an observation is a grey image, in bytes, that is large enough for convolutions."""
        shape = self.observation_shape
        return self.observation_dtype == "|u1" and len(shape) == 2 and min(shape) >= SMALLEST_IMAGE

    @property
    def features(self) -> int | tuple[int, ...]:
        """What a network sees: the length of a vector, or the shape (frames, height, width) of an image."""
        if self.image:
            return (self.stack, *self.observation_shape)
        return self.classes or self.stack * math.prod(self.observation_shape)

    def encode(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Turn observations [N, ...], or stacks of them [N, S, ...], into what networks take.

        Images stay what they are, bytes [N, S, height, width]: a network scales them itself. Everything else becomes
        features [N, F], float32: another Box is flattened, uint8 scaled to 0..1; a Discrete observation becomes a
        one-hot row.
        """
        if observation.ndim == 2 and observation.dtype == np.float32:
            return observation  # They are features already: this is called for every step.
        n = observation.shape[0]
        if self.image:
            return observation.reshape(n, self.stack, *self.observation_shape)
        if self.classes:
            one_hot: NDArray[np.float32] = np.eye(self.classes, dtype=np.float32)[observation]
            return one_hot
        flat = observation.reshape(n, math.prod(observation.shape[1:]))
        if flat.dtype == np.uint8:
            scaled: NDArray[np.float32] = flat.astype(np.float32) / np.float32(255)
            return scaled
        return flat.astype(np.float32, copy=False)


class Stacks:
    """The last S observations of each of B environments, as a policy that sees S at a time sees them.

    Parameters
    ----------
    first : [B, ...]
        each environment's first observation.
    """

    def __init__(self, first: NDArray[Any], stack: int) -> None:
        self.stack = stack
        self.age = np.zeros(len(first), np.int64)
        """Observations before the latest that belong to its episode, up to S - 1."""
        self._latest = first
        if stack > 1:
            self._frames = np.repeat(first[:, None], stack, axis=1)

    @property
    def seen(self) -> NDArray[Any]:
        """[B, S, ...], oldest first; [B, ...] where S is 1. Until an episode has S, its first stands for those before."""
        return self._frames if self.stack > 1 else self._latest

    def push(self, latest: NDArray[Any], begun: NDArray[np.bool_] | list[int] | None = None) -> None:
        """Take in an observation of each, some of which begin episodes; where S is 1 it is looked at where it lies."""
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
        """Have a copy of the latest: where it lies will be written again."""
        self._latest = self._latest.copy()


def make(env_id: str, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None) -> gym.Env:
    """One environment, without the checks that are for people who write environments.

    It takes no time beyond its own, whatever the simulator's may be: for that there is `together`, or
    `tianji.simulators.Waiting`.

    Parameters
    ----------
    env_id
        an id that is registered with Gymnasium, or `module:name`: what the module has by that name is called without
        arguments; where it has nothing, it may have registered an environment with that id.
    games
        how it is played, if it is an Atari game.
    simulator
        whether its observations are drawn as pictures.

    Raises
    ------
    ConfigError
        for `module:name` that leads to no environment, and for observations that cannot be drawn.
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
    """Whether this names a module, and what in it makes the environment."""
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
    """Make the environment once and read its spaces; one that is named by its module is also tried for a step.

    Parameters
    ----------
    games, simulator
        as `make` takes them.

    Raises
    ------
    ConfigError
        for an environment that Gymnasium does not know or that cannot be made, and for spaces that are not supported:
        observations must be Box or Discrete, actions Discrete; and for observations that cannot be drawn.
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
    """What an environment's spaces say."""
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
    """One reset and one step, asked for as training does: what would fail in an actor is said before there is one.

    Raises
    ------
    ConfigError
        when the environment raises, or returns something of another form than Gymnasium's or its own space.
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
    """What is wrong with an observation. A Box's bounds, and its type, from which NumPy converts, do no harm."""
    if isinstance(space, gym.spaces.Discrete):
        return None if space.contains(observation) else f"that is not in its observation_space, {space}: {observation!r}"
    try:
        shape = np.shape(observation)
    except ValueError:
        return "that is no array"
    return None if shape == space.shape else f"of shape {shape}, and its observation_space has {space.shape}"


def _unknown(env_id: str, error: Exception) -> str:
    if isinstance(error, gym.error.DependencyNotInstalled) and "Box2D" in str(error):
        # Gymnasium's own advice needs a compiler.
        return f"environment {env_id}: Box2D is not installed; pip install 'tianji-bench[box2d]' brings it"
    near = difflib.get_close_matches(env_id, gym.registry.keys(), n=1)
    hint = f"did you mean {near[0]}?" if near and near[0] != env_id else "give the id of a registered Gymnasium environment"
    return f"environment {env_id}: {' '.join(str(error).split())}; {hint}"


class Ended(NamedTuple):
    """An episode that ended with a step."""

    environment: int
    observation: Any
    """Its last one."""
    terminated: bool
    """False: it was cut short."""
    episode_return: float
    length: int
    infos: tuple[dict[str, Any], dict[str, Any]]
    """Of the step, and of the reset that followed."""


class Environments:
    """Environments stepped together in this process, one after the other.

    An episode that ends is reset in the same call: every row that `step` writes is then a real transition, and T calls give
    exactly T x B of them. Gymnasium's `SyncVectorEnv` does the same steps and takes longer (docs/performance.md): here what a
    step leads to is written where the caller wants it, and actions are Python's own integers.
    """

    waited_ns = 0
    """For simulators, so far."""

    def __init__(self, env_id: str, count: int, games: AtariConfig = ATARI, simulator: SimulatorConfig | None = None) -> None:
        self._envs = [make(env_id, games, simulator) for _ in range(count)]
        self._steps = [env.step for env in self._envs]
        self._returns = [0.0] * count
        self._begun = [0] * count
        """Steps that had been taken when the episode began."""
        self._taken = 0

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Begin anew, each with a seed of its own; returns the first observations, [B, ...]."""
        space = self._envs[0].observation_space
        first: NDArray[Any] = np.empty((len(self._envs), *space.shape), space.dtype)
        for i, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            first[i] = env.reset(seed=seed)[0]
            self._returns[i], self._begun[i] = 0.0, self._taken
        return first

    def step(self, actions: NDArray[np.int64], observations: NDArray[Any], rewards: NDArray[Any]) -> list[Ended]:
        """One step of each.

        Parameters
        ----------
        actions : [B]
        observations, rewards : [B, ...], [B]
            are written: where an episode ended, the observation is the next one's first.

        Returns
        -------
        list of Ended
            in order of environment.
        """
        self._taken += 1
        ended, returns = [], self._returns
        for i, (step, action) in enumerate(zip(self._steps, actions.tolist(), strict=True)):
            observation, reward, terminated, truncated, info = step(action)
            rewards[i] = reward
            returns[i] += float(reward)
            if terminated or truncated:
                # Its own: an environment may write every observation into the same memory.
                last = np.array(observation)
                first, after = self._envs[i].reset()
                length = self._taken - self._begun[i]
                ended.append(Ended(i, last, bool(terminated), returns[i], length, (info, after)))
                returns[i], self._begun[i] = 0.0, self._taken
                observation = first
            observations[i] = observation
        return ended

    def close(self) -> None:
        """Free them."""
        for env in self._envs:
            env.close()


class Simulated(Environments):
    """Environments whose steps and resets take a simulator's time, all at once: a step waits for the slowest.

    A step in which an episode ends takes the time of a reset as well, and no other does.

    Parameters
    ----------
    numbers
        of these environments over all actors: what a simulator's time depends on, beside its seed.
    waits
        None: those of the simulator, by the clock of this host.
    """

    def __init__(
        self,
        env_id: str,
        numbers: Sequence[int],
        games: AtariConfig,
        simulator: SimulatorConfig,
        waits: Waits | None = None,
    ) -> None:
        super().__init__(env_id, len(numbers), games, simulator)
        self._all = range(len(numbers))
        self._waits = waits or Waits(simulator, numbers)

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
    """The environments of these numbers, to be stepped together; they take a simulator's time if it has any."""
    if simulator is None or not simulator.waits:
        return Environments(env_id, len(numbers), games, simulator)
    return Simulated(env_id, numbers, games, simulator)
