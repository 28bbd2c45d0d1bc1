"""Environments that Python gives as classes and functions: they reach the run's own processes, and nobody else's."""

import subprocess
import sys
import textwrap
import threading

import gymnasium as gym
import numpy as np
import pytest

from programs.cli import ConfigError
from tianji import PPOConfig, TrainConfig, held, train
from tianji.environments.making import make_env

SCRIPT = """
    import gymnasium as gym
    import numpy as np
    import tianji

    STEP = 0.1

    class Line(gym.Env):
        observation_space = gym.spaces.Box(-5, 5, (1,))
        action_space = gym.spaces.Box(-1, 1, (1,))

        def __init__(self, length=5):
            self.length = length

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at, self.t = self.np_random.uniform(-1, 1), 0
            return np.array([self.at], np.float32), {}

        def step(self, action):
            self.at, self.t = self.at + STEP * float(action[0]), self.t + 1
            return np.array([self.at], np.float32), -abs(self.at), False, self.t == self.length, {}

    if __name__ == "__main__":
        made = tianji.EnvironmentConfig(args={"length": 7})
        config = tianji.TrainConfig(env=HOW, environment=made, actors=2, envs_per_actor=2, stop_steps=1024)
        seen = []
        def listen(message):
            if isinstance(message, tianji.messages.Episodes):
                seen.extend(e.length for e in message.episodes)
        result = tianji.train(config, listen, out=OUT)
        print(result.outcome, result.steps, set(seen))
    """


LONG = pytest.mark.long(why="whole runs of real processes")


@pytest.mark.parametrize("how", ["Line", pytest.param("lambda length: Line(length)", marks=LONG)])
def test_a_scripts_own_environment_is_trained_by_real_processes(tmp_path, how):
    script = tmp_path / "script.py"
    source = textwrap.dedent(SCRIPT).replace("HOW", how).replace("OUT", repr(str(tmp_path / "run")))
    script.write_text(source.replace("import tianji\n", "import tianji\nimport tianji.messages\n", 1))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "steps 1024 {7}"
    again = subprocess.run(
        [sys.executable, "-m", "tianji", "train", "--resume", str(tmp_path / "run"), "--stop-steps", "2048"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert again.returncode == 2
    assert "was given as an object by Python code" in again.stderr
    assert again.stderr.count("\n") == 1


def one():
    return gym.make("CartPole-v1")


def test_names_are_kept_apart():
    def other():
        return gym.make("Pendulum-v1")

    first = TrainConfig(env=one).env
    assert first == TrainConfig(env=one).env == "held:one"
    other.__name__ = "one"
    second = TrainConfig(env=other).env
    assert second == "held:one2"
    assert make_env(first).spec.id == "CartPole-v1"
    assert make_env(second).spec.id == "Pendulum-v1"


def test_they_are_trained_in_lockstep_without_leaving_this_process():
    result = train(
        TrainConfig(env=one, world="lockstep", actors=1, envs_per_actor=2, stop_steps=64, ppo=PPOConfig(rollout_steps=16))
    )
    assert result.steps == 64
    assert np.isfinite(result.weights).all()


def test_what_cannot_travel_is_told_in_one_line():
    lock = threading.Lock()

    def holding():
        return lock

    with pytest.raises(ConfigError, match=r"^environment held:holding: it cannot be sent to other processes: TypeError"):
        held.inherited(TrainConfig(env=holding).env)


def test_other_hosts_do_not_get_them():
    with pytest.raises(ValueError, match="which stays on this host"):
        TrainConfig(env=one, launcher="ray")


def test_an_object_that_is_not_here_is_told():
    with pytest.raises(ConfigError, match=r"^environment held:nothing: it was given as an object"):
        make_env("held:nothing")
