"""Environments that return garbage, raise or hang: the run ends with one line and keeps its earlier results."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.launch.events import RoleFailed
from tianji.run.training import train
from tianji.run_folder import RunFolder, read_state, state_path

MODULE = """
import os
import sys
import time

import gymnasium as gym
import numpy as np

class Spoilt(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        observation, reward = np.full(4, self.steps % 7 / 7, np.float32), 1.0
        if self.steps == 303:
            observation, reward = self.spoil(observation, reward)
        return observation, reward, self.steps % 20 == 0, False, {}

class NanObservation(Spoilt):
    def spoil(self, observation, reward):
        observation[2] = np.nan
        return observation, reward

class NanReward(Spoilt):
    def spoil(self, observation, reward):
        return observation, float("nan")

class HugeReward(Spoilt):
    def spoil(self, observation, reward):
        return observation, 1e300

class Short(Spoilt):
    def spoil(self, observation, reward):
        return observation[:1], reward

class Raises(Spoilt):
    def spoil(self, observation, reward):
        raise ValueError("the simulator\\nfell over")

class Overflowing(Spoilt):
    def spoil(self, observation, reward):
        return observation, 3e38

class Hangs(Spoilt):
    def spoil(self, observation, reward):
        time.sleep(3600)

class ExitsOnce(Spoilt):
    def spoil(self, observation, reward):
        once = os.environ["SPOILT_ONCE"]
        if open("/proc/self/comm").read().strip() == os.environ["SPOILT"] and not os.path.exists(once):
            open(once, "w").close()
            sys.exit(0)
        return observation, reward
"""

FAULTS = {
    "NanObservation": "its observation is nan",
    "NanReward": "its reward is nan",
    "HugeReward": "its reward is inf",
    "Short": "an observation of shape (1,); its space has (4,)",
    "Overflowing": "a gradient or the weights are not finite after the round that ended at",
}


@pytest.fixture
def spoilt(own, small):
    own(MODULE, "spoilt")

    def make(name, **more):
        return small(**{"env": f"spoilt:{name}", "stop_steps": 100_000, "checkpoint_seconds": 0.01, **more})

    return make


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("world", ["real", "lockstep"])
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_number_ends_the_run_and_is_not_stored(spoilt, tmp_path, name, world):
    config, folder = spoilt(name, world=world), RunFolder(tmp_path / "run")
    with pytest.raises(RoleFailed) as failure:
        train(config, out=folder.path)
    said = str(failure.value)
    assert FAULTS[name] in said
    assert "\n" not in said
    if name != "Overflowing":
        assert f"environment spoilt:{name}" in said
    if "after" in said and name.startswith(("Nan", "Huge")):
        assert ": after 303 steps" in said
    assert folder.traceback.read_text().startswith("Traceback")
    assert str(folder.traceback) in said
    assert not folder.result.exists()
    stored = state_path(folder.state, 0)
    if stored.exists():
        assert np.isfinite(read_state(stored).arrays["weights"]).all()


def test_fragments_with_garbage_are_dropped_where_that_is_asked_for(spoilt):
    config = spoilt("NanReward", not_finite="drop")
    result = train(
        config.__class__(**{name: getattr(config, name) for name in config.__struct_fields__} | {"stop_steps": 4096})
    )
    dropped = sum(report.counters.get("fragments_dropped", 0) for report in result.reports)
    assert dropped == config.actors, "each environment fails once, all of an actor's in one step"
    assert result.steps == 4096
    assert np.isfinite(result.weights).all()


def test_an_exception_is_one_line_with_its_place_and_its_traceback_lies_in_the_folder(spoilt, tmp_path, capfd):
    folder = tmp_path / "run"
    given = ["train", "--env", "spoilt:Raises", "--out", str(folder), "--quiet", "--set", "restarts=0", "--actors", "2"]
    assert run("tianji", main, given) == 1
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if line]
    assert len(lines) == 1, err
    assert "ValueError: the simulator fell over (spoilt.py, line" in lines[0]
    assert "Traceback" not in out + err
    assert "ValueError: the simulator" in (folder / "traceback.txt").read_text()


@pytest.mark.long(why="whole runs of real processes")
def test_an_environment_that_hangs_is_named_and_its_actor_started_again_and_holds_nobody_up_at_the_end(spoilt, capfd):
    given = ["train", "--env", "spoilt:Hangs", "--quiet", "--actors", "2", "--stop-seconds", "5", "--set", "silence_seconds=2"]
    begun = time.monotonic()
    assert run("tianji", main, given) == 0
    assert time.monotonic() - begun < 40
    out, err = capfd.readouterr()
    for actor, numbers in ((0, "0|1|2|3"), (1, "4|5|6|7")):
        where = rf"environment spoilt:Hangs, number ({numbers}): its step; it is ended and started again"
        assert re.search(rf"actor g0\.a{actor} has not answered for 2 s; {where}", err)
    assert "steps," in out


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("actor", [0, 1])
def test_the_first_actor_is_no_other_than_the_rest(spoilt, monkeypatch, tmp_path, actor):
    """It shared its learner's process, which ended with it. An exit is no end in good order either."""
    monkeypatch.setenv("SPOILT", f"tj-actor g0.a{actor}")
    monkeypatch.setenv("SPOILT_ONCE", str(tmp_path / "once"))
    result = train(spoilt("ExitsOnce", stop_steps=20_000), out=tmp_path / "run")
    assert result.outcome == "steps"
    ((role, cause),) = [(restart.role, restart.cause) for restart in result.restarts]
    assert role == f"actor g0.a{actor}"
    number = 4 * actor
    assert f"failed: environment spoilt:ExitsOnce, number {number}: its step raised SystemExit: 0 (spoilt.py, line" in cause


def test_an_environment_of_ones_own_is_never_beside_a_learner(spoilt):
    with pytest.raises(ConfigError, match="placement actor: environment spoilt:Raises would share a process with the learner"):
        train(spoilt("Raises", placement="actor"))


@pytest.mark.parametrize("world", ["real", "lockstep"])
def test_a_folder_that_is_gone_is_one_line(spoilt, tmp_path, world):
    code = (
        "import shutil, sys\n"
        "from tianji import __main__\n"
        "from tianji.messages import Episodes\n"
        "from tianji.run import training\n"
        "heard = training.Watch._heard\n"
        "def remove(self, message):\n"
        "    if isinstance(message, Episodes): shutil.rmtree(sys.argv[-1], ignore_errors=True)\n"
        "    return heard(self, message)\n"
        "training.Watch._heard = remove\n"
        "sys.exit(__main__.run('tianji', __main__.main, sys.argv[1:-1]))\n"
    )
    folder = str(tmp_path / "run")
    given = ["train", "--env", "CartPole-v1", "--quiet", "--out", folder, "--stop-steps", "100000", "--world", world, folder]
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "o such file or directory" in done.stderr


def test_results_are_json(spoilt, tmp_path):
    folder = RunFolder(tmp_path / "run")
    train(spoilt("NanReward", not_finite="drop", stop_steps=2048), out=folder.path)

    def refuse(name):
        raise AssertionError(name)

    for path in (folder.result, folder.progress):
        json.loads(path.read_text(), parse_constant=refuse)


@pytest.mark.parametrize("apart_s", [0.01, 0.3])
def test_ctrl_c_may_be_pressed_three_times(tmp_path, apart_s):
    folder = tmp_path / "run"
    given = ["train", "--env", "CartPole-v1", "--quiet", "--out", str(folder), "--stop-steps", "100000000"]
    with subprocess.Popen(
        [sys.executable, "-m", "tianji", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 30
        while not (folder / "policy.safetensors").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(apart_s)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 1, err
