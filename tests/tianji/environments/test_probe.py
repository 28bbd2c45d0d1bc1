"""An environment is described in a process of its own, so that nothing it does there hurts the launcher."""

import os

import pytest

from programs.cli import ConfigError
from tianji.config import EnvironmentConfig
from tianji.environments import probe
from tianji.environments.description import EnvDescription
from tianji.environments.making import ATARI
from tianji.environments.probe import describe_apart

MODULE = """
import os
import sys
import time

from gymnasium.envs.classic_control import CartPoleEnv

class Fine(CartPoleEnv):
    def __init__(self):
        super().__init__()
        print("{", flush=True)
        os.chdir("/")

    def close(self):
        time.sleep(600)

class Exits(Fine):
    def __init__(self):
        os._exit(7)

class Crashes(Fine):
    def step(self, action):
        os.abort()

class Hangs(Fine):
    def reset(self, **options):
        time.sleep(600)
"""


@pytest.fixture
def told(own):
    own(MODULE, "probed")
    lines = []

    def ask(name, limit_s=20.0):
        return describe_apart(f"probed:{name}", ATARI, None, limit_s, lines.append), lines

    return ask


def test_a_vector_form_is_described_in_the_other_process_too(own):
    own(
        """
        from tests.helpers.counting import Counting, CountingVector

        def counting(num_envs=None):
            return Counting() if num_envs is None else CountingVector(num_envs)

        class Alone(Counting):
            pass
        """,
        "probed",
    )
    always, auto = (EnvironmentConfig(vector=vector) for vector in ("always", "auto"))
    found = describe_apart("probed:counting", ATARI, None, 20.0, settings=always, lanes=3)
    assert found == EnvDescription("probed:counting", (3,), "<f4", 0, 3, autoreset="SameStep")
    assert not describe_apart("probed:Alone", ATARI, None, 20.0, settings=auto, lanes=3).autoreset
    with pytest.raises(ConfigError, match="probed:Alone: it has no vector form"):
        describe_apart("probed:Alone", ATARI, None, 20.0, settings=always, lanes=3)


def test_it_says_what_a_description_in_this_process_says(told, capfd):
    here = os.getcwd()
    described, lines = told("Fine")
    assert (described.observation_shape, described.actions.outputs, described.shipped) == ((4,), 2, False)
    assert described == EnvDescription("probed:Fine", (4,), "<f4", 0, 2)
    assert lines == []
    assert os.getcwd() == here
    out, err = capfd.readouterr()
    assert (out, err) == ("", "{\n"), "what it prints goes to standard error"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Exits", "its constructor ended the process, with status 7"),
        ("Crashes", "its step ended the process, with status -6"),
        ("Nothing", "module probed has no Nothing"),
    ],
)
def test_a_process_that_ends_is_one_line(told, name, says):
    with pytest.raises(ConfigError, match=f"environment probed:{name}: {says}"):
        told(name)


def test_a_call_that_does_not_return_is_reported_and_ended(own, monkeypatch):
    monkeypatch.setattr(probe, "PATIENCE_S", 0.1)
    own(MODULE, "probed")
    lines = []
    with pytest.raises(ConfigError, match=r"its reset did not return within 0\.4 s; raise silence_seconds"):
        describe_apart("probed:Hangs", ATARI, None, 0.4, lines.append)
    assert lines[-1] == "environment probed:Hangs: its reset has not returned for 0 s"
