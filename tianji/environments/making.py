"""One Gymnasium environment: made, checked and described."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from programs.cli import ConfigError
from tianji import held, references
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import atari
from tianji.environments.actions import Actions
from tianji.environments.delays import Picture
from tianji.environments.description import EnvDescription
from tianji.environments.spaces import actions_of, pixels_of
from tianji.environments.wrappers import Packed, prepared, wrapped
from tianji.faults import told

log = logging.getLogger(__name__)

ATARI, PLAIN = AtariConfig(), EnvironmentConfig()
SHIPPED = ("gymnasium", "ale_py")
"""Packages whose environments may share a process with a learner."""

EXTRAS = {"Box2D": "box2d", "MuJoCo": "mujoco", "pygame": "box2d"}
"""Packages that environments of Gymnasium need, and the extra that brings each."""

Tell = Callable[[str], object]
"""Function that is told of a call into an environment before it begins: `constructor`, `reset`, `step` or `close`."""


def make_env(
    env_id: str,
    games: AtariConfig = ATARI,
    simulator: SimulatorConfig | None = None,
    settings: EnvironmentConfig = PLAIN,
) -> gym.Env:
    """Make one environment, without Gymnasium's checks for authors of environments. Its observations are arrays.

    A simulator's delays are not added here; `together` and `tianji.environments.delays.Delayed` add them.

    Parameters
    ----------
    env_id
        an id registered with Gymnasium, or `module:name`. In the second form the module's class or function `name` is called
        with the arguments of `settings`. A module without that name may instead register an environment with that id.
    games
        wrappers, if it is an Atari game.
    simulator
        whether observations are drawn as pictures.
    settings
        arguments and wrappers.

    Raises
    ------
    ConfigError
        if `module:name` gives no environment, a wrapper cannot be used, or observations cannot be drawn.
    """
    env = wrapped(_plain(env_id, games, settings), settings, f"environment {env_id}")
    return prepared(_drawn(env, env_id, simulator), settings.stack, f"environment {env_id}")


def _plain(env_id: str, games: AtariConfig, settings: EnvironmentConfig, *, checked: bool = False) -> gym.Env:
    """The environment as its author made it, with the time limit of the settings."""
    limit, args = settings.time_limit, settings.args
    if atari.is_atari(env_id):
        env = atari.make_game(env_id, games, args)
    elif is_own(env_id):
        env = _own(env_id, args)
    else:
        return gym.make(env_id, max_episode_steps=limit, disable_env_checker=None if checked else True, **args)
    return env if limit is None else TimeLimit(env, limit)


def _drawn(env: gym.Env, env_id: str, simulator: SimulatorConfig | None) -> gym.Env:
    if simulator is None or simulator.picture is None:
        return env
    return Picture(env, simulator.picture, f"environment {env_id}", simulator.grain)


def is_shipped(env_id: str, settings: EnvironmentConfig = PLAIN) -> bool:
    """Whether a package of `SHIPPED` registers this environment, without wrappers of others.

    Everybody runs the code of these. Any other environment may raise, hang, or end its process, which no exception handler
    stops; so it never shares a process with a learner or a launcher.
    """
    if any(name.partition(":")[0].partition(".")[0] not in SHIPPED for name in settings.wrapper_names):
        return False
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
    if is_own(env_id) and not held.is_held(env_id):
        references.module_of(env_id, f"environment {env_id}")


def _own(env_id: str, args: Mapping[str, Any]) -> gym.Env:
    where = f"environment {env_id}"
    if held.is_held(env_id):
        return _an_environment(references.call(held.get(env_id, where), where, **args), where)
    module, name = references.module_of(env_id, where)
    registered = name in gym.registry or any(known.startswith(f"{name}-v") for known in gym.registry)
    if registered and not hasattr(module, name):
        return references.attempt(lambda: gym.make(env_id, disable_env_checker=True, **args), f"{where}: when it is made")
    return _an_environment(references.call(references.attribute_of(module, name, where, gym.registry), where, **args), where)


def _an_environment(env: Any, where: str) -> gym.Env:
    if not isinstance(env, gym.Env):
        raise ConfigError(f"{where}: it returns an object of type {type(env).__name__}, and no gymnasium.Env")
    return env


def describe(
    env_id: str,
    games: AtariConfig = ATARI,
    simulator: SimulatorConfig | None = None,
    settings: EnvironmentConfig = PLAIN,
) -> EnvDescription:
    """Make the environment once and read its spaces. Unless it is shipped (`is_shipped`), it is also tried for one step.

    Parameters
    ----------
    games, simulator, settings
        as `make_env` takes them.

    Raises
    ------
    ConfigError
        for an environment that is unknown or cannot be made, for spaces that are not supported, and for observations that
        cannot be drawn.
    """
    with described(env_id, games, simulator, settings) as description:
        return description


@contextmanager
def described(
    env_id: str,
    games: AtariConfig,
    simulator: SimulatorConfig | None,
    settings: EnvironmentConfig = PLAIN,
    tell: Tell = lambda deed: None,
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
        env = _plain(env_id, games, settings, checked=True)
    except TypeError as error:
        if not settings.args:
            raise ConfigError(f"{where}: its constructor raises {told(error)}") from error
        raise ConfigError(f"{where}: given {', '.join(settings.args)}, its constructor raises {told(error)}") from error
    except (gym.error.Error, ModuleNotFoundError, AttributeError, ValueError) as error:
        raise ConfigError(_unknown(env_id, error)) from None
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:  # Also SystemExit.
        raise ConfigError(f"{where}: its constructor raises {told(error)}") from error
    try:
        _check_spaces(env, where)
        actions = actions_of(env.action_space, where)
        shipped = is_shipped(env_id, settings)
        if not shipped:
            _rehearse(env, where, actions, tell)
        env = wrapped(env, settings, where)
        _check_spaces(env, where)
        stack = games.stack if atari.is_atari(env_id) else settings.stack
        yield _read(prepared(_drawn(env, env_id, simulator), stack, where), env_id, stack, shipped=shipped)
    finally:
        tell("close")
        try:
            env.close()
        except Exception as error:
            log.warning("%s: its close raises %s", where, told(error))


def _check_spaces(env: gym.Env, where: str) -> None:
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gym.Space):
            raise ConfigError(f"{where}: it has no {name}; its constructor must set one of gymnasium.spaces")


def _read(env: gym.Env, env_id: str, stack: int, *, shipped: bool) -> EnvDescription:
    """Description of an environment from its spaces, once it is prepared."""
    space, actions = env.observation_space, actions_of(env.action_space, f"environment {env_id}")
    if isinstance(space, gym.spaces.Discrete):
        return EnvDescription(env_id, (), "<i8", int(space.n), actions, shipped=shipped)
    if isinstance(env, Packed):
        return EnvDescription(env_id, space.shape, space.dtype.str, 0, actions, shipped=shipped, branches=env.branches)
    return EnvDescription(env_id, space.shape, space.dtype.str, 0, actions, stack, shipped, pixels_of(space))


def _rehearse(env: gym.Env, where: str, actions: Actions, tell: Tell) -> None:
    """Try one reset and one step as in training, so that errors are reported before actors start.

    Raises
    ------
    ConfigError
        if the environment raises, or returns something that does not match Gymnasium's interface or its own space.
    """
    action = actions.given(np.zeros((1, *actions.stored_shape), actions.stored_dtype))[0]
    for name, wanted, deed in (
        ("reset", "(observation, info)", lambda: env.reset(seed=0, options=None)),
        ("step", "(observation, reward, terminated, truncated, info)", lambda: env.step(action)),
    ):
        tell(name)
        result = references.attempt(deed, f"{where}: asked to {name}")
        if not isinstance(result, tuple) or len(result) != wanted.count(",") + 1:
            raise ConfigError(f"{where}: its {name} must return {wanted}")
        if misfit := _misfit(result[0], env.observation_space):
            raise ConfigError(f"{where}: its {name} returns an observation {misfit}")


def _misfit(observation: Any, space: gym.Space) -> str | None:
    """Description of what is wrong with an observation. A Box's bounds and its type, which NumPy converts, are not checked."""
    if not isinstance(space, gym.spaces.Box):
        return None if space.contains(observation) else f"that is not in its observation_space, {space}: {observation!r}"
    try:
        shape = np.shape(observation)
    except ValueError:
        return "that is no array"
    return None if shape == space.shape else f"of shape {shape}, and its observation_space has {space.shape}"


def _unknown(env_id: str, error: Exception) -> str:
    for package, extra in EXTRAS.items():
        if isinstance(error, gym.error.DependencyNotInstalled) and package.lower() in str(error).lower():
            # Gymnasium's own hint leads to packages of other versions, or to one that needs a compiler.
            return f"environment {env_id}: {package} is not installed; pip install 'tianji-bench[{extra}]' brings it"
    near = difflib.get_close_matches(env_id, gym.registry.keys(), n=1)
    hint = f"did you mean {near[0]}?" if near and near[0] != env_id else "give the id of a registered Gymnasium environment"
    return f"environment {env_id}: {' '.join(str(error).split())}; {hint}"
