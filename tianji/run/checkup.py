"""What can be said of an environment before it is trained: its spaces, its speed, and habits that will hurt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.environments import forms, making, vector_form
from tianji.environments.description import EnvDescription
from tianji.environments.making import make_env
from tianji.faults import EnvironmentFailed, Misshapen
from tianji.messages import SlotRef
from tianji.roles.actor import Rollout
from tianji.topology import chunk_layout
from tianji.worlds.lanes import sampler as sampler_of
from tianji.worlds.workers import chunk_views

SLOW_RESETS, SLOW_RESET_S = 0.1, 1e-4
"""Share of the time in resets, and seconds of each, from which they are slow."""
LONG_EPISODE = 10_000
"""Steps after which an episode that has not ended has no time limit."""


@dataclass
class Played:
    """What was seen while one environment was played at random."""

    step_s: float = 0.0
    reset_s: float = 0.0
    steps: int = 0
    resets: int = 0
    lengths: list[int] = field(default_factory=list)
    habits: dict[str, None] = field(default_factory=dict)
    """Each habit that was seen, once, in order."""

    @property
    def steps_per_s(self) -> float:
        return self.steps / max(self.step_s + self.reset_s, 1e-9)


def play(config: TrainConfig, description: EnvDescription, seconds: float) -> Played:
    """Play one environment at random for some seconds, and note its habits."""
    env = make_env(config.env, config.atari, config.simulator, config.environment)
    rng, seen, actions = np.random.default_rng(0), Played(), description.actions
    try:
        first, again = (np.array(env.reset(seed=7)[0]) for _ in range(2))
        if not np.array_equal(first, again, equal_nan=first.dtype.kind == "f"):
            seen.habits["a reset with the same seed begins differently: runs will not repeat"] = None
        end, length, before = time.monotonic() + seconds, 0, None
        while time.monotonic() < end:
            action = actions.given(actions.random(rng, 1))[0]
            began = time.perf_counter()
            observation, reward, terminated, truncated, _ = env.step(action)
            seen.step_s += time.perf_counter() - began
            seen.steps, length = seen.steps + 1, length + 1
            _note(seen, env.observation_space, observation, before, reward, terminated, truncated)
            before = observation
            if length == LONG_EPISODE:
                seen.habits[f"an episode did not end in {LONG_EPISODE:,} steps: give environment.time_limit"] = None
            if terminated or truncated:
                seen.lengths.append(length)
                began = time.perf_counter()
                env.reset()
                seen.reset_s += time.perf_counter() - began
                seen.resets, length, before = seen.resets + 1, 0, None
    finally:
        env.close()
    share = seen.reset_s / (seen.step_s + seen.reset_s)
    if share > SLOW_RESETS and seen.reset_s > SLOW_RESET_S * seen.resets:
        seen.habits[f"resets take {share:.0%} of the time: an actor waits for each"] = None
    return seen


def _note(seen: Played, space: gym.Space, observation: Any, before: Any, reward: Any, terminated: Any, truncated: Any) -> None:
    """Note what a step returned that costs time, or that training will refuse."""
    habits = seen.habits
    if not isinstance(observation, np.ndarray) and isinstance(space, gym.spaces.Box):
        habits[f"observations are of type {type(observation).__name__}, and no arrays: each is converted"] = None
    elif isinstance(observation, np.ndarray):
        if observation.dtype == np.float64:
            habits["observations are float64: each is converted to float32"] = None
        if observation is before:
            habits["every step returns the same array, written anew: a wrapper that keeps one must copy it"] = None
        if observation.dtype.kind == "f" and not np.isfinite(observation).all():
            habits["an observation is not finite: training ends there, or drops the fragment (not_finite)"] = None
        elif isinstance(space, gym.spaces.Box) and (np.any(observation < space.low) or np.any(observation > space.high)):
            habits["observations exceed the bounds of their space"] = None
    if isinstance(reward, np.ndarray):
        habits["rewards are arrays: return float(reward)"] = None
    elif not np.isfinite(reward):
        habits["a reward is not finite: training ends there, or drops the fragment (not_finite)"] = None
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            habits[f"{name} is of type {type(flag).__name__}, and no bool"] = None


def actor_rate(config: TrainConfig, description: EnvDescription, seconds: float) -> float:
    """Steps a second of one actor: environments, network and chunks, in this process."""
    layout = chunk_layout(config, description)
    memory = bytearray(layout.capacity_bytes)
    body = chunk_views(layout, lambda slot: memoryview(memory))
    sampler = sampler_of(config, description, layout, body, 0, time.monotonic_ns)
    try:
        sampler.weights()[:] = sampler.network.initialise(config.seed)[: sampler.network.acting]
        sampler.run(Rollout(SlotRef(0, 0)))
        began, steps = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            steps += sampler.run(Rollout(SlotRef(0, 0))).count
        return steps / passed
    finally:
        sampler.close()


def forms_line(config: TrainConfig, description: EnvDescription, seconds: float) -> str:
    """The forms that the environment has, and how fast each is with an actor's environments."""
    lanes, settings = config.envs_per_actor, config.environment
    one = config.env, lanes, config.atari, config.simulator, settings
    try:
        with vector_form.described(*one) as vector:
            pass
    except ConfigError as error:
        why = str(error).removeprefix(f"environment {config.env}: ").partition(f": {vector_form.INSTEAD}")[0]
        return f"one form, single environments: {why}"
    form = f"a vector environment ({vector.autoreset})"
    try:
        with making.described(config.env, config.atari, config.simulator, settings) as single:
            pass
        if not forms.alike(replace(single, actions=vector.actions), vector):
            return f"two forms, whose spaces differ: {single.features} features of a single one, {vector.features} of {form}"
        rates = forms.speeds(config.env, lanes, config.atari, settings, vector, seconds)
    except ConfigError as error:
        return f"one form, {form}: {str(error).removeprefix(f'environment {config.env}: ')}"
    except (EnvironmentFailed, Misshapen) as error:
        return f"two forms, of which one fails: {error}"
    used = "the vector" if description.autoreset else "single ones"
    return (
        f"two forms: {lanes} single environments make {rates[0]:,.0f} steps/s at random, {form} {rates[1]:,.0f}; "
        f"environment.vector = {settings.vector} uses {used}"
    )


def lines(config: TrainConfig, description: EnvDescription, seconds: float) -> Iterator[str]:
    """What there is to say, line by line, about a configuration that was checked and settled."""
    try:
        seen = play(config, description, seconds)
    except ConfigError:
        if not description.autoreset:
            raise
        seen = None
    if seen is not None:
        yield _alone(seen)
    rate = actor_rate(config, description, seconds)
    yield f"an actor makes {rate:,.0f} steps/s with {config.envs_per_actor} environments and the network"
    yield forms_line(config, description, seconds)
    habits = [] if seen is None else seen.habits
    for habit in habits:
        yield f"habit: {habit}"
    if seen is not None and not habits:
        yield "no habit was seen that would hurt"


def _alone(seen: Played) -> str:
    """Speed of one environment, and the lengths of its episodes and resets."""
    alone = f"{seen.steps_per_s:,.0f} steps/s alone at random"
    if seen.lengths:
        alone += f"; episodes of {min(seen.lengths):,} to {max(seen.lengths):,} steps"
    if seen.resets:
        alone += f"; a reset takes {1e3 * seen.reset_s / seen.resets:.2g} ms, a step {1e3 * seen.step_s / seen.steps:.2g} ms"
    return alone
