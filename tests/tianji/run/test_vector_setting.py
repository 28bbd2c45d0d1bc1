"""`environment.vector` through the command line, a file, Python, and a run's folder."""

import json

import pytest

from programs.cli import run
from tests.helpers.counting import Counting
from tianji.__main__ import main
from tianji.config import EnvironmentConfig, PPOConfig, TrainConfig
from tianji.environments import forms
from tianji.run.training import train
from tianji.worlds.lanes import SURPLUS

SMALL = ["--world", "lockstep", "--actors", "1", "--envs-per-actor", "8", "--stop-steps", "1024"]


def stored(folder):
    return json.loads((folder / "config.json").read_text())["environment"]["vector"]


def test_carts_are_trained_as_one_vector(tmp_path, capsys):
    out = tmp_path / "run"
    given = ["--set", "environment.vector=always", "--set", "ppo.rollout_steps=64"]
    assert main(["train", "--env", "CartPole-v1", *SMALL, *given, "--out", str(out)]) == 0
    assert stored(out) == "always"
    result = json.loads((out / "result.json").read_text())
    assert result["steps"] == 1024
    # As a vector again.
    assert main(["train", "--resume", str(out), "--stop-steps", "2048"]) == 0
    assert json.loads((out / "result.json").read_text())["steps"] == 2048
    assert main(["evaluate", str(out), "--episodes", "2"]) == 0
    capsys.readouterr()


def test_a_file_and_python_say_the_same(tmp_path):
    (tmp_path / "run.toml").write_text(
        'env = "CartPole-v1"\nworld = "lockstep"\nactors = 1\nenvs_per_actor = 8\nstop_steps = 1024\n'
        '[environment]\nvector = "always"\n[ppo]\nrollout_steps = 64\n'
    )
    assert main(["train", "--config", str(tmp_path / "run.toml"), "--out", str(tmp_path / "file")]) == 0
    config = TrainConfig(
        env="CartPole-v1",
        world="lockstep",
        actors=1,
        envs_per_actor=8,
        stop_steps=1024,
        environment=EnvironmentConfig(vector="always"),
        ppo=PPOConfig(rollout_steps=64),
    )
    result = train(config, out=tmp_path / "python")
    assert sum(report.counters.get(SURPLUS, 0) for report in result.reports) > 0
    assert (tmp_path / "file/policy.safetensors").read_bytes() == (tmp_path / "python/policy.safetensors").read_bytes()


def test_what_auto_chose_is_kept_by_a_runs_folder(tmp_path, monkeypatch):
    config = TrainConfig(
        env="CartPole-v1",
        world="lockstep",
        actors=1,
        envs_per_actor=4,
        stop_steps=512,
        environment=EnvironmentConfig(vector="auto"),
        ppo=PPOConfig(rollout_steps=64),
    )
    monkeypatch.setattr(forms, "speeds", lambda *given, **named: (1.0, 2.0))
    train(config, out=tmp_path / "run")
    assert stored(tmp_path / "run") == "always"

    def again(*given, **named):
        raise AssertionError("measured again")

    monkeypatch.setattr(forms, "speeds", again)
    assert main(["train", "--resume", str(tmp_path / "run"), "--stop-steps", "1024"]) == 0
    further = TrainConfig(**{name: getattr(config, name) for name in config.__struct_fields__} | {"stop_steps": 1536})
    assert train(further, out=tmp_path / "run", resume=True).steps == 1536


def test_a_vector_steps_an_object_of_python_code(tmp_path):
    made = []

    def counting(num_envs=None):
        from gymnasium.vector import AutoresetMode

        from tests.helpers.counting import CountingVector

        made.append(num_envs)
        return Counting() if num_envs is None else CountingVector(num_envs, AutoresetMode.DISABLED)

    config = TrainConfig(
        env=counting,
        world="lockstep",
        actors=2,
        envs_per_actor=4,
        stop_steps=512,
        environment=EnvironmentConfig(vector="always"),
        ppo=PPOConfig(rollout_steps=64),
    )
    assert train(config).steps == 512
    assert set(made) == {4}


@pytest.mark.long(why="processes start")
def test_actors_in_processes_of_their_own_step_vectors(tmp_path, own):
    own(
        """
        from gymnasium.vector import AutoresetMode
        from tests.helpers.counting import Counting, CountingVector

        def counting(num_envs=None):
            return Counting() if num_envs is None else CountingVector(num_envs, AutoresetMode.NEXT_STEP)
        """
    )
    config = TrainConfig(
        env="my_module:counting",
        actors=2,
        envs_per_actor=4,
        stop_steps=2048,
        environment=EnvironmentConfig(vector="always"),
        ppo=PPOConfig(rollout_steps=64),
    )
    result = train(config, out=tmp_path / "run")
    assert result.steps >= 2048
    assert sum(report.counters.get(SURPLUS, 0) for report in result.reports) > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--env", "Pendulum-v1"], "environment Pendulum-v1: it has no vector form"),
        (
            ["--env", "CartPole-v1", "--set", "environment.frame_skip=2"],
            "environment.frame_skip: for single environments, not for its vector form: set environment.vector to never",
        ),
    ],
)
def test_what_cannot_be_a_vector_is_refused_with_status_2(arguments, says, capsys):
    assert run("tianji", main, ["train", *arguments, "--set", "environment.vector=always"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_check_says_which_forms_there_are(capsys):
    assert main(["check", "CartPole-v1", "--seconds", "0.02", "--set", "envs_per_actor=3"]) == 0
    assert "two forms: 3 single environments make " in (out := capsys.readouterr().out)
    assert "a vector environment (NextStep) " in out
    assert "environment.vector = never uses single ones" in out
    assert main(["check", "Acrobot-v1", "--seconds", "0.02"]) == 0
    assert "one form, single environments: it has no vector form (it is registered without" in capsys.readouterr().out


def test_a_check_of_a_vector_alone_says_so(own, capsys):
    own("from tests.helpers.counting import CountingVector as Only")
    options = ["--seconds", "0.02", "--set", "environment.vector=always"]
    assert main(["check", "my_module:Only", *options]) == 0
    assert "one form, a vector environment (SameStep): " in capsys.readouterr().out
