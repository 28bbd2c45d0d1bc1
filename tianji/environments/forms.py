"""The two forms of an environment, single ones and a vector of them: which one an actor steps, and how fast each is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from programs.cli import ConfigError
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import making, vector_form
from tianji.environments.description import EnvDescription
from tianji.environments.making import Tell
from tianji.environments.vector import Environments, together
from tianji.environments.vectorised import NextStep, Vectorised, vectorised
from tianji.faults import EnvironmentFailed, Misshapen

ROUNDS, ROUND_S = 5, 0.05
"""Turns of each form while both are measured, and the seconds of one."""


@contextmanager
def described(
    env_id: str,
    lanes: int,
    games: AtariConfig,
    simulator: SimulatorConfig | None,
    settings: EnvironmentConfig,
    tell: Tell = lambda deed: None,
) -> Iterator[EnvDescription]:
    """Context with the description of the form that `environment.vector` asks for. Where it is `auto`, both are measured.

    Parameters
    ----------
    lanes
        environments of an actor.
    tell
        is told of calls into the environment before they begin.

    Raises
    ------
    ConfigError
        as `making.described` and `vector_form.described`. Where the setting is `auto`, a vector form that cannot be used raises
        nothing.
    """
    one = env_id, games, simulator, settings
    if settings.vector == "always":
        with vector_form.described(env_id, lanes, games, simulator, settings, tell) as found:
            yield found
        return
    with making.described(*one, tell) as single:
        if settings.vector == "never":
            yield single
            return
        try:
            with vector_form.described(env_id, lanes, games, simulator, settings, tell) as vector:
                pass
            if not alike(single, vector):
                raise ConfigError(f"environment {env_id}: the spaces of its two forms differ")
            rates = speeds(env_id, lanes, games, settings, vector, tell=tell)
        except (ConfigError, EnvironmentFailed, Misshapen):
            yield single
            return
        yield vector if rates[1] > rates[0] else single


def describe(
    env_id: str, lanes: int, games: AtariConfig, simulator: SimulatorConfig | None, settings: EnvironmentConfig
) -> EnvDescription:
    """The description of the form that `environment.vector` asks for; see `described`."""
    with described(env_id, lanes, games, simulator, settings) as found:
        return found


def alike(single: EnvDescription, vector: EnvDescription) -> bool:
    """Whether a policy for one form fits the other."""
    return single == replace(vector, autoreset="", shipped=single.shipped)


def speeds(
    env_id: str,
    lanes: int,
    games: AtariConfig,
    settings: EnvironmentConfig,
    vector: EnvDescription,
    seconds: float = 2 * ROUNDS * ROUND_S,
    tell: Tell = lambda deed: None,
) -> tuple[float, float]:
    """Steps a second of single environments and of the vector form at random, measured in turns so that both see one machine.

    Parameters
    ----------
    vector
        description of the vector form.
    seconds
        for both together.

    Raises
    ------
    ConfigError, EnvironmentFailed, Misshapen
        as `Environments` and `Vectorised`.
    """
    numbers = range(lanes)
    tell("constructor")
    forms: list[Environments | Vectorised] = [together(env_id, numbers, games, settings=settings, actions=vector.actions)]
    steps, spent = [0, 0], [0.0, 0.0]
    try:
        forms.append(vectorised(env_id, numbers, games, None, settings, vector.actions, vector.autoreset))
        tell("reset")
        for form in forms:
            form.reset(list(numbers))
        for _ in range(ROUNDS):
            for at, form in enumerate(forms):
                tell("step")
                taken, took = _played(form, vector, lanes, seconds / (2 * ROUNDS))
                steps[at], spent[at] = steps[at] + taken, spent[at] + took
    finally:
        tell("close")
        for form in forms:
            form.close()
    return steps[0] / spent[0], steps[1] / spent[1]


def _played(form: Environments | Vectorised, describe: EnvDescription, lanes: int, seconds: float) -> tuple[int, float]:
    """Steps in a turn, and its seconds. Where lanes have resets of their own, the slowest lane counts for all."""
    rng, real = np.random.default_rng(0), np.zeros(lanes, np.int64)
    observations = np.empty((lanes, *describe.observation_shape), describe.observation_dtype)
    rewards = np.zeros(lanes, np.float32)
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < seconds or not real.all():
        ignored = form.pending if isinstance(form, NextStep) else None
        form.step(describe.actions.random(rng, lanes), observations, rewards)
        real += 1 if ignored is None else ~ignored
    return lanes * int(real.min()), took
