"""`tianji check`: what it says of environments whose habits are known."""

import sys
import textwrap

import pytest

from tianji.__main__ import main
from tianji.config import TrainConfig
from tianji.run import checkup
from tianji.run.checkup import play
from tianji.run.training import check

SOURCE = """
    import time
    import gymnasium as gym
    import numpy as np

    class Base(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return self.seen(), {}

        def seen(self):
            return np.zeros(2, np.float32)

        def step(self, action):
            self.t += 1
            return self.seen(), 1.0, self.t == 5, False, {}

    class Fine(Base):
        pass

    class Double(Base):
        def seen(self):
            return np.zeros(2)

    class Same(Base):
        kept = np.zeros(2, np.float32)

        def seen(self):
            return self.kept

    class Beyond(Base):
        def seen(self):
            return np.full(2, 3, np.float32)

    class Listed(Base):
        def seen(self):
            return [0.0, 0.0]

    class Unseeded(Base):
        count = 0

        def seen(self):
            Unseeded.count += 1
            return np.full(2, Unseeded.count % 7 / 7, np.float32)

    class Arrays(Base):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, np.array([reward]), *rest

    class Flags(Base):
        def step(self, action):
            observation, reward, over, _, info = super().step(action)
            return observation, reward, int(over), 0, info

    class Resetting(Base):
        def reset(self, *, seed=None, options=None):
            time.sleep(0.002)
            return super().reset(seed=seed)

    class Endless(Base):
        def step(self, action):
            return self.seen(), 1.0, False, False, {}

    class Broken(Base):
        def seen(self):
            return np.full(2, np.nan, np.float32) if getattr(self, "t", 0) == 3 else np.zeros(2, np.float32)
    """

HABITS = {
    "Fine": [],
    "Double": ["float64"],
    "Same": ["the same array"],
    "Beyond": ["exceed the bounds"],
    "Listed": ["of type list"],
    "Unseeded": ["begins differently"],
    "Arrays": ["rewards are arrays"],
    "Flags": ["terminated is of type int", "truncated is of type int"],
    "Resetting": ["resets take"],
    "Endless": ["did not end in 50 steps"],
    "Broken": ["not finite"],
}


@pytest.fixture
def habits(tmp_path, monkeypatch):
    (tmp_path / "habits.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(str(tmp_path))
    # Slow machines, too, take so many steps while they are watched.
    monkeypatch.setattr(checkup, "LONG_EPISODE", 50)
    yield
    sys.modules.pop("habits", None)


@pytest.mark.parametrize("name", HABITS)
def test_habits_are_seen_and_no_others(habits, name):
    config = TrainConfig(env=f"habits:{name}", world="lockstep")
    seen = list(play(config, check(config), 0.3).habits)
    assert len(seen) == len(HABITS[name]), seen
    for said, habit in zip(seen, HABITS[name], strict=True):
        assert habit in said


def test_the_command_says_spaces_network_and_speed(capsys):
    assert main(["check", "Pendulum-v1", "--seconds", "0.05", "--env-arg", "g=9.0"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("environment Pendulum-v1: features 3, actions 1 number; network mlp-separate with ")
    assert "steps/s alone at random" in out[1]
    assert out[2].startswith("an actor makes ")
    assert out[2].endswith(" steps/s with 4 environments and the network")
    assert out[3].startswith("one form, single environments: it has no vector form")
    assert out[4] == "no habit was seen that would hurt"
