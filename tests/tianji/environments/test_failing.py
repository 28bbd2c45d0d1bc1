"""Environments that fail: errors name the environment and the call, and results that do not fit the space are refused."""

import logging

import gymnasium as gym
import numpy as np
import pytest

from programs.cli import ConfigError
from tianji.environments.making import describe, is_shipped
from tianji.environments.place import Place
from tianji.environments.vector import Environments
from tianji.faults import EnvironmentFailed, Misshapen

MODULE = """
import sys

import gymnasium as gym
import numpy as np

class Fine(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (2,), np.uint8)
    action_space = gym.spaces.Discrete(2)
    first, last, given, over = np.array([1, 2], np.uint8), np.array([3, 4], np.uint8), 1.0, False

    def reset(self, *, seed=None, options=None):
        return self.first, {}

    def step(self, action):
        return self.last, self.given, self.over, False, {}

class Exits(Fine):
    def step(self, action):
        sys.exit(0)

class ExitsInReset(Fine):
    def reset(self, **options):
        raise RuntimeError("no port")

class FailsToReset(Fine):
    over, resets = True, 0
    def reset(self, **options):
        self.resets += 1
        if self.resets > 1:
            raise RuntimeError("no port")
        return super().reset()

class FailsToClose(Fine):
    def close(self):
        raise OSError("pipe")

class Panics(Fine):
    def step(self, action):
        class PanicException(BaseException): ...
        raise PanicException("from an extension")

class Breaks(Fine):
    def __init__(self):
        raise RuntimeError("no licence")
"""


@pytest.fixture
def made(own):
    own(MODULE, "failing")

    def make(name, place=None):
        environments = Environments(f"failing:{name}", range(4, 6), place=place)
        environments.reset([1, 2])
        return environments

    return make


def step(environments):
    observations, rewards = np.zeros((2, 2), np.uint8), np.zeros(2, np.float32)
    environments.step(np.array([0, 1]), observations, rewards)
    return observations, rewards


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Exits", "number 4: its step raised SystemExit: 0 (failing.py, line"),
        ("Panics", "number 4: its step raised PanicException: from an extension"),
        ("FailsToReset", "number 4: its reset raised RuntimeError: no port"),
    ],
)
def test_what_a_step_raises_names_the_environment_and_the_call(made, name, says):
    with pytest.raises(EnvironmentFailed) as failure:
        step(made(name))
    assert str(failure.value).startswith(f"environment failing:{name}, number 4: ")
    assert says in str(failure.value)


def test_a_constructor_and_a_first_reset_are_named_too(made):
    with pytest.raises(EnvironmentFailed, match="number 4: its reset raised RuntimeError: no port"):
        made("ExitsInReset")
    with pytest.raises(EnvironmentFailed, match=r"4: its constructor raised RuntimeError: no licence \(failing\.py, line"):
        made("Breaks")


def test_a_close_that_raises_is_a_warning_and_the_others_are_closed(made, caplog):
    with caplog.at_level(logging.WARNING):
        made("FailsToClose").close()
    assert [record.message.partition(" (")[0] for record in caplog.records] == [
        f"environment failing:FailsToClose, number {number}: its close raised OSError: pipe" for number in (4, 5)
    ]


def test_the_call_that_is_under_way_can_be_read_by_another_process(made, tmp_path):
    written = Place.made(tmp_path / "place")
    seen = Place(tmp_path / "place")
    environments, calls = made("Fine", written), []

    def look(*arguments):
        calls.append(seen.doing())
        return np.zeros(2, np.uint8), 0.0, True, False, {}

    environments._steps[1] = look
    environments._envs[1].reset = lambda: (calls.append(seen.doing()) or np.zeros(2, np.uint8), {})
    step(environments)
    assert [tuple(call) for call in calls] == [(5, "step"), (5, "reset")]
    assert seen.doing() is None


@pytest.mark.parametrize("reward", [2, np.float64(2), np.array(2.0), np.array([2.0]), [2.0], np.array([[2]])])
def test_a_reward_may_be_an_array_of_one_number(made, reward):
    environments = made("Fine")
    for env in environments._envs:
        env.given = reward
    assert step(environments)[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        (np.array([1.0, 2.0]), r"a reward of type ndarray of shape \(2,\); it must be one number"),
        (None, "a reward of type NoneType; it must be one number"),
        ([], r"a reward of type list of shape \(0,\)"),
    ],
)
def test_other_rewards_are_refused(made, reward, says):
    environments = made("Fine")
    environments._envs[1].given = reward
    with pytest.raises(Misshapen, match=f"environment failing:Fine, number 5 returned {says}"):
        step(environments)


@pytest.mark.parametrize("observation", [[7, 8], np.array([7, 8]), np.array([7.0, 8.0]), np.array([7, 8], np.int16)])
def test_values_that_the_space_can_hold_are_taken_from_any_type(made, observation):
    environments = made("Fine")
    for env in environments._envs:
        env.last = observation
    assert step(environments)[0].tolist() == [[7, 8]] * 2
    assert step(environments)[0].tolist() == [[7, 8]] * 2


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (np.array([0.5, 1.0]), "an observation of float64; its space has uint8, which cannot hold its values"),
        (np.array([-1, 300]), "an observation of int64; its space has uint8"),
        (np.array([1, 2], complex), "an observation of complex128"),
        (np.array(["a", "b"]), "an observation of <U1"),
        ([[1], [2, 3]], "an observation that is no array"),
        (np.array([1], np.uint8), r"an observation of shape \(1,\); its space has \(2,\)"),
    ],
)
def test_values_that_would_be_lost_are_refused(made, observation, says):
    environments = made("Fine")
    step(environments)
    environments._envs[0].last = observation
    with pytest.raises(Misshapen, match=f"environment failing:Fine, number 4 returned {says}"):
        step(environments)


def test_a_constructor_that_raises_is_one_line(own):
    own(MODULE, "failing")
    with pytest.raises(ConfigError, match=r"environment failing:Breaks: .*RuntimeError: no licence"):
        describe("failing:Breaks")
    gym.register("Breaks-v0", entry_point="failing:Breaks")
    try:
        with pytest.raises(ConfigError, match="environment Breaks-v0: its constructor raises RuntimeError: no licence"):
            describe("Breaks-v0")
    finally:
        del gym.registry["Breaks-v0"]


def test_only_what_packages_ship_may_share_a_process(own):
    own(MODULE, "failing")
    limit = gym.wrappers.TimeLimit.wrapper_spec(max_episode_steps=3)
    gym.register("Own-v0", entry_point="failing:Fine")
    gym.register("Wrapped-v0", "gymnasium.envs.classic_control:CartPoleEnv", additional_wrappers=(limit,))
    try:
        assert [is_shipped(one) for one in ("CartPole-v1", "FrozenLake-v1", "ALE/Pong-v5")] == [True] * 3
        assert [is_shipped(one) for one in ("failing:Fine", "Own-v0", "Wrapped-v0", "Nothing-v0")] == [False] * 4
        assert describe("CartPole-v1").shipped
        assert not describe("failing:Fine").shipped
    finally:
        del gym.registry["Wrapped-v0"], gym.registry["Own-v0"]
