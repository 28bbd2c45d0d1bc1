"""One Gymnasium environment: made, checked and described."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from programs.cli import ConfigError
from tianji import references
from tianji.config import AtariConfig, SimulatorConfig
from tianji.environments import atari
from tianji.environments.delays import Picture
from tianji.environments.description import EnvDescription
from tianji.faults import told

log = logging.getLogger(__name__)

ATARI = AtariConfig()
SHIPPED = ("gymnasium", "ale_py")
"""Packages whose environments may share a process with a learner."""

Tell = Callable[[str], object]
"""Function that is told of a call into an environment before it begins: `constructor`, `reset`, `step` or `close`."""


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


def is_shipped(env_id: str) -> bool:
    """Whether a package of `SHIPPED` registers this environment, without wrappers of others.

    Everybody runs the code of these. Any other environment may raise, hang, or end its process, which no exception handler
    stops; so it never shares a process with a learner or a launcher.
    """
    if atari.is_atari(env_id):
        return True
    found = None if is_own(env_id) else gym.registry.get(env_id)
    if found is None or not isinstance(found.entry_point, str) or found.additional_wrappers:
        return False
    return found.entry_point.partition(":")[0].partition(".")[0] in SHIPPED


def is_own(env_id: str) -> bool:
    """Whether this is a user's own environment, `module:name`."""
    return ":" in env_id


def imported(env_id: str) -> None:
    """Import the module of a user's own environment, which takes time and is no call into it. Raises ConfigError."""
    if is_own(env_id):
        references.module_of(env_id, f"environment {env_id}")


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
    """Make the environment once and read its spaces. Unless it is shipped (`is_shipped`), it is also tried for one step.

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
    with described(env_id, games, simulator) as description:
        return description


@contextmanager
def described(
    env_id: str, games: AtariConfig, simulator: SimulatorConfig | None, tell: Tell = lambda deed: None
) -> Iterator[EnvDescription]:
    """Context with the description of an environment, which is open in it. Raises the errors of `describe`.

    Parameters
    ----------
    tell
        is told of each call into the environment before it begins.
    """
    where = f"environment {env_id}"
    imported(env_id)
    tell("constructor")
    try:
        env = _plain(env_id, games) if is_own(env_id) or atari.is_atari(env_id) else gym.make(env_id)
    except (gym.error.Error, ModuleNotFoundError, AttributeError, ValueError) as error:
        raise ConfigError(_unknown(env_id, error)) from None
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:  # Also SystemExit.
        raise ConfigError(f"{where}: its constructor raises {told(error)}") from error
    try:
        description = _read(env, env_id, games)
        if not is_shipped(env_id):
            _rehearse(env, where, tell)
        if simulator is not None and simulator.picture is not None:
            description = _read(_drawn(env, env_id, simulator), env_id, games)
        yield description
    finally:
        tell("close")
        try:
            env.close()
        except Exception as error:
            log.warning("%s: its close raises %s", where, told(error))


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
        shape, dtype = observation.shape, observation.dtype.str
        return EnvDescription(env_id, shape, dtype, 0, int(action.n), stack, is_shipped(env_id))
    if isinstance(observation, gym.spaces.Discrete) and observation.start == 0:
        return EnvDescription(env_id, (), "<i8", int(observation.n), int(action.n), shipped=is_shipped(env_id))
    raise ConfigError(f"{where}: its observations are {observation}; only Box and Discrete (from 0) are supported")


def _rehearse(env: gym.Env, where: str, tell: Tell) -> None:
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
        tell(name)
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
