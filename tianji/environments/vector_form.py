"""The vector form of an environment: one `gymnasium.vector.VectorEnv` that steps all environments of an actor in one call."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from programs.cli import ConfigError
from tianji import held, references
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import atari, atari_vector
from tianji.environments.description import EnvDescription
from tianji.environments.making import SHIPPED, Tell, imported, is_own, is_shipped
from tianji.environments.spaces import actions_of, pixels_of
from tianji.faults import told

INSTEAD = "set environment.vector to never"
"""What a refusal advises."""


def made(env_id: str, lanes: int, games: AtariConfig, settings: EnvironmentConfig) -> VectorEnv:
    """Make the vector form with a number of lanes, its environments. Where its maker takes a mode, it gets SAME_STEP.

    Parameters
    ----------
    env_id
        an id registered with a `vector_entry_point`, or `module:name`. In the second form `name` is called with `num_envs` and
        the arguments of the settings, and returns a `VectorEnv`.
    games
        wrappers, if it is an Atari game.

    Raises
    ------
    ConfigError
        if there is no vector form, or it raises, has another number of lanes, or does not say when it resets.
    """
    where = f"environment {env_id}"
    if atari.is_atari(env_id):
        atari_vector.check(games, where)
        atari.prepare(env_id)
    maker, spec = _maker(env_id, where)
    arguments = dict(settings.args)
    if atari.is_atari(env_id):
        arguments = {"num_threads": 1, **arguments, **atari_vector.arguments(games)}  # An actor has one core.
    accepted = _named(maker)
    if "**" not in accepted and (unknown := [name for name in arguments if name not in accepted]):
        raise ConfigError(f"{where}: its vector form takes no {', '.join(unknown)}: leave it out, or {INSTEAD}")
    if settings.time_limit is not None:
        if "max_episode_steps" not in accepted:
            raise ConfigError(f"{where}: its vector form takes no max_episode_steps: leave environment.time_limit out")
        arguments["max_episode_steps"] = settings.time_limit
    if "autoreset_mode" in accepted:
        arguments.setdefault("autoreset_mode", AutoresetMode.SAME_STEP)
    if spec is None:
        env = references.call(maker, where, num_envs=lanes, **arguments)
    else:
        env = references.attempt(lambda: _registered(spec, lanes, arguments), f"{where}: when its vector form is made")
    if not isinstance(env, VectorEnv):
        raise _none(where, f"called with num_envs it returns an object of type {type(env).__name__}")
    try:
        if env.num_envs != lanes:
            raise ConfigError(f"{where}: its vector form has {env.num_envs} environments, and was asked for {lanes}")
        mode_of(env, where)
    except ConfigError:
        env.close()
        raise
    return atari_vector.Games(env, games) if atari.is_atari(env_id) else env


def mode_of(env: VectorEnv, where: str) -> AutoresetMode:
    """When a vector environment resets an episode that ended.

    Raises
    ------
    ConfigError
        if its metadata do not say it.
    """
    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ConfigError(
            f"{where}: metadata['autoreset_mode'] of its vector form is {mode!r}: it must be a gymnasium.vector.AutoresetMode"
        ) from None


def shipped(env_id: str, settings: EnvironmentConfig) -> bool:
    """Whether packages of `SHIPPED` register both forms of this environment; see `making.is_shipped`."""
    if not is_shipped(env_id, settings):
        return False
    found = gym.registry.get(env_id)
    if settings.vector == "never" or found is None or found.vector_entry_point is None:
        return True
    entry = found.vector_entry_point
    return isinstance(entry, str) and entry.partition(":")[0].partition(".")[0] in SHIPPED


def refusal(env_id: str, simulator: SimulatorConfig | None, settings: EnvironmentConfig) -> str | None:
    """Why settings cannot be used with a vector form, in words; None: they can."""
    wrapping = [
        f"environment.{name}"
        for name, used in (
            ("wrappers", settings.wrappers),
            ("frame_skip", settings.frame_skip > 1),
            ("grey", settings.grey),
            ("resize", settings.resize),
        )
        if used
    ]
    if simulator is not None and (simulator.waits or simulator.picture is not None):
        wrapping.append("simulator")
    if not wrapping:
        return None
    return f"environment {env_id}: {', '.join(wrapping)}: for single environments, not for its vector form: {INSTEAD}"


@contextmanager
def described(
    env_id: str,
    lanes: int,
    games: AtariConfig,
    simulator: SimulatorConfig | None,
    settings: EnvironmentConfig,
    tell: Tell = lambda deed: None,
) -> Iterator[EnvDescription]:
    """Context with the description of the vector form, which is open in it. Unless it is shipped, it is tried for one step.

    Raises
    ------
    ConfigError
        if there is no vector form, it fails, or its spaces or the settings cannot be used with it.
    """
    where = f"environment {env_id}"
    if (why := refusal(env_id, simulator, settings)) is not None:
        raise ConfigError(why)
    imported(env_id)
    tell("constructor")
    env = made(env_id, lanes, games, settings)
    try:
        found = _read(env, env_id, games, settings, where)
        if not found.shipped:
            _rehearse(env, found, where, tell)
        yield found
    finally:
        tell("close")
        references.attempt(env.close, f"{where}: asked to close")


def _maker(env_id: str, where: str) -> tuple[Callable[..., Any], gym.envs.registration.EnvSpec | None]:
    """What makes the vector form, and the registered environment that it belongs to, if it is one."""
    if is_own(env_id):
        if held.is_held(env_id):
            return _of_ones_own(held.get(env_id, where), where), None
        module, name = references.module_of(env_id, where)
        if hasattr(module, name) or name not in gym.registry:
            return _of_ones_own(references.attribute_of(module, name, where, gym.registry), where), None
        env_id = name
    spec = gym.registry.get(env_id)
    if spec is None:
        raise ConfigError(f"{where}: there is no environment of this id; for a vector form give the whole id, with its version")
    if spec.vector_entry_point is None:
        raise _none(where, "it is registered without a vector_entry_point")
    if spec.additional_wrappers:
        raise _none(where, "it is registered with additional wrappers")
    entry = spec.vector_entry_point
    if callable(entry):
        return entry, spec
    return references.attempt(lambda: load_env_creator(entry), f"{where}: importing its vector form"), spec


def _of_ones_own(maker: Any, where: str) -> Callable[..., Any]:
    if not callable(maker):
        raise ConfigError(f"{where}: is of type {type(maker).__name__} and cannot be called; name a class or a function")
    accepted = _named(maker)
    if "num_envs" not in accepted and "**" not in accepted:
        raise _none(where, "it takes no argument num_envs")
    function: Callable[..., Any] = maker
    return function


def _none(where: str, why: str) -> ConfigError:
    return ConfigError(
        f"{where}: it has no vector form ({why}): {INSTEAD}, or give a vector_entry_point or a function of num_envs that "
        "returns a gymnasium.vector.VectorEnv"
    )


def _named(maker: Callable[..., Any]) -> set[str]:
    """Names of the arguments of a function, and `**` if it takes others too."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # Of some compiled functions there is none.
        return {"**"}
    return {"**" if one.kind is one.VAR_KEYWORD else one.name for one in parameters}


def _registered(spec: gym.envs.registration.EnvSpec, lanes: int, arguments: dict[str, Any]) -> VectorEnv:
    with warnings.catch_warnings():
        # A missing mode is refused in a line of our own.
        warnings.filterwarnings("ignore", message=".*[Aa]utoreset.*")
        return gym.make_vec(spec, lanes, "vector_entry_point", **arguments)


def _read(env: VectorEnv, env_id: str, games: AtariConfig, settings: EnvironmentConfig, where: str) -> EnvDescription:
    space, actions = env.single_observation_space, actions_of(env.single_action_space, where)
    fits, autoreset = shipped(env_id, settings), mode_of(env, where).value
    stack = games.stack if atari.is_atari(env_id) else settings.stack
    if isinstance(space, gym.spaces.Discrete) and space.start == 0 and stack == 1:
        return EnvDescription(env_id, (), "<i8", int(space.n), actions, shipped=fits, autoreset=autoreset)
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError(
            f"{where}: observations of its vector form are {space}; Box, and Discrete from 0 without a stack, are supported: "
            f"{INSTEAD}"
        )
    return EnvDescription(env_id, space.shape, space.dtype.str, 0, actions, stack, fits, pixels_of(space), autoreset=autoreset)


def _rehearse(env: VectorEnv, found: EnvDescription, where: str, tell: Tell) -> None:
    """Try one reset and one step, so that errors are reported before actors start. Raises ConfigError."""
    drawn = np.zeros((env.num_envs, *found.actions.stored_shape), found.actions.stored_dtype)
    for name, wanted, deed in (
        ("reset", "(observations, infos)", lambda: env.reset(seed=0)),
        (
            "step",
            "(observations, rewards, terminations, truncations, infos)",
            lambda: env.step(found.actions.batched(drawn)),
        ),
    ):
        tell(name)
        result = references.attempt(deed, f"{where}: its vector form, asked to {name}")
        if not isinstance(result, tuple) or len(result) != wanted.count(",") + 1:
            raise ConfigError(f"{where}: the {name} of its vector form must return {wanted}")
        expected = (env.num_envs, *found.observation_shape)
        if np.shape(result[0]) != expected:
            raise ConfigError(
                f"{where}: the {name} of its vector form returns observations of shape {np.shape(result[0])}, not {expected}"
            )


def failure(where: str, deed: str, error: BaseException) -> str:
    """What a call into a vector environment raised, in one line."""
    cause = error.__cause__ if isinstance(error, ConfigError) and error.__cause__ is not None else error
    return f"{where}: its {deed} raised {told(cause)}"
