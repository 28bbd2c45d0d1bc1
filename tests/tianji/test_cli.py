"""The command as a user runs it: its output, its files, and its errors."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from commands import refusal

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.policy import Policy, load_policy, save_policy

FAST = ["--env", "CartPole-v1", "--algo", "ppo", "--stop-steps", "2048", "--set", "ppo.rollout_steps=32"]


def complaint(capsys, arguments):
    return refusal(capsys, run, "tianji", main, arguments)


RELAXED = ["train", "--env", "CartPole-v1", "--set", "discipline.name=relaxed"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required"),
        (["fly"], "invalid choice"),
        (["train"], "--env is missing"),
        (["train", "--env", "CartPole-v1", "--algo", "sarsa"], "invalid choice: 'sarsa' (choose from"),
        (["train", "--env", "CartPole-v1", "--actors", "0"], "actors"),
        (["train", "--env", "CartPole-v1", "--actors", "two"], "invalid int"),
        (["train", "--env", "CartPole-v1", "--stop-steps", "10"], "raise it"),
        (["train", "--env", "CartPole-v1", "--world", "flat"], "lockstep"),
        (["train", "--env", "CartPole-v1", "--set", "ppo.epoch=3"], "did you mean `epochs`"),
        (["train", "--env", "CartPole-v1", "--set", "ppo.clip=-1"], "> 0"),
        (["train", "--env", "CartPole-v1", "--set", "ppo.value_clip=0"], "> 0"),
        (["train", "--env", "CartPole-v1", "--set", "simulator.step_seconds=-.5"], ">= 0"),
        (
            ["train", "--env", "CartPole-v1", "--set", "simulator.picture=84", "--set", "simulator.sigma=1"],
            "is for distribution",
        ),
        (["train", "--env", "CartPole-v1", "--set", "clip"], "key=value"),
        (["train", "--env", "CartPole-v1", "--set", "env.x=1"], "holds a value"),
        (["train", "--env", "CartPole-v1", "--config", "/nowhere.toml"], "no such file"),
        (["train", "--env", "Pendulum-v1", "--algo", "dqn"], "chooses among Discrete actions"),
        (["train", "--env", "CartPole-v1", "--env-arg", "render"], "NAME=VALUE"),
        (["train", "--env", "CartPole-v1", "--env-arg", "colour=red"], "given colour"),
        (["train", "--env", "CartPole-v1", "--set", "loggers=['paper']", "--out", "run"], "logger"),
        (["train", "--env", "CartPole-v1", "--groups", "0"], "groups"),
        (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "discipline=strict"], "not for a replay"),
        ([*RELAXED, "--set", "discipline.lag_rounds=some"], "known: int from 0, auto, none"),
        ([*RELAXED, "--set", "discipline.lag_round=1"], "did you mean `lag_rounds`? (of discipline 'relaxed')"),
        ([*RELAXED, "--algo", "dqn", "--set", "discipline.beyond_bound=correct"], "nothing else corrects"),
        (["train", "--env", "CartPole-v1", "--set", "discipline.lag_rounds=1"], "discipline needs a name"),
        (["train", "--env", "CartPole-v1", "--set", "discipline=strikt"], "did you mean strict?"),
        (["train", "--env", "CartPole-v1", "--set", "learning_rat=1"], "did you mean `ppo.learning_rate`"),
        (["train", "--env", "CartPole-v1", "--set", "simulator.zzz=1"], "known keys: alpha, computes, distribution"),
        (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "send_steps=7"], "multiple of a chunk's 7 steps"),
        (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "dqn.replay_capacity=10"], "raise it to 512"),
        (["train", "--env", "CartPole-v1", "--algo", "dqn", "--set", "network.kind=nature-q"], "choose an mlp kind"),
        (["train", "--env", "CartPole-v1", "--set", "network.activation=gelu"], "has activation 'tanh', not 'gelu'"),
        (["train", "--env", "CartPole-v1", "--set", "updater='numpy'", "--device", "cuda"], "cpu only"),
        (["evaluate", "/nowhere.safetensors", "--env", "CartPole-v1"], "no such run folder or policy file"),
        (["evaluate", "/nowhere"], "/nowhere: no such run folder or policy file"),
        (["keys"], "required: FILE"),
        (["keys", "/nowhere/run.key"], "No such file or directory"),
        (["keys", "/"], "name a new file"),
    ],
)
def test_bad_input_gets_one_line(capsys, arguments, says):
    assert says in complaint(capsys, arguments)


def test_an_unknown_key_is_answered_with_its_own_section_s(capsys):
    said = complaint(capsys, ["train", "--env", "CartPole-v1", "--set", "ppo.zzz=1"])
    assert "known keys: adam_epsilon, clip, clip_gradients, correction, entropy_coefficient" in said
    assert "dqn" not in said
    assert len(said) < 400


def test_two_runs_in_lockstep_leave_the_same_files(tmp_path):
    """In processes of their own: the order of a hash map is drawn anew in each."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        command = [sys.executable, "-m", "tianji", "train", *FAST, "--world", "lockstep", "--quiet", "--out", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    files = {path.relative_to(folders[0]) for path in folders[0].rglob("*.safetensors")}
    assert len(files) == 2
    for file in files:
        first, second = (np.frombuffer((folder / file).read_bytes(), np.uint8) for folder in folders)
        assert np.array_equal(first, second), file


def test_train_then_evaluate(tmp_path, capsys):
    out = tmp_path / "run"
    assert run("tianji", main, ["train", *FAST, "--out", str(out), "--stop-return", "9000"]) == 0
    said = capsys.readouterr().out
    assert "2,048 steps" in said
    assert "ended by its limit of steps before a mean of 9000" in said
    result = json.loads((out / "result.json").read_text())
    assert (result["outcome"], result["steps"], result["config"]["env"]) == ("steps", 2048, "CartPole-v1")
    assert run("tianji", main, ["evaluate", str(out / "policy.safetensors"), "--env", "CartPole-v1", "--episodes", "3"]) == 0
    assert "over 3 episodes" in capsys.readouterr().out


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "precious").write_text("kept")
    assert "not empty" in complaint(capsys, ["train", *FAST, "--out", str(tmp_path)])
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_config_file_and_what_overrides_it(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text('env = "CartPole-v1"\nstop_steps = 512\nactors = 1\n[ppo]\nrollout_steps = 16\n')
    assert run("tianji", main, ["train", "--config", str(path), "--stop-steps", "1024"]) == 0
    assert "1,024 steps" in capsys.readouterr().out
    path.write_text("env = [")
    assert "not a TOML file" in complaint(capsys, ["train", "--config", str(path)])


def test_a_policy_of_another_environment_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    assert run("tianji", main, ["train", *FAST, "--out", str(out)]) == 0
    capsys.readouterr()
    assert "features" in complaint(capsys, ["evaluate", str(out / "policy.safetensors"), "--env", "Acrobot-v1"])


def test_damaged_policies_are_refused(tmp_path):
    from tianji.algorithms.networks import ActorCritic

    network = ActorCritic(4, (8,), 2)
    path = tmp_path / "p.safetensors"
    save_policy(path, Policy(network, network.initialise(0)))
    assert np.array_equal(load_policy(path).weights, network.initialise(0))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ConfigError, match="not a safetensors file"):
        load_policy(path)
    path.write_bytes(data.replace(b"mlp-separate", b"mlp-neverwas"))
    with pytest.raises(ConfigError, match="mlp-neverwas"):
        load_policy(path)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_every_child_and_keeps_the_policy(tmp_path, sent):
    process = subprocess.Popen(
        [sys.executable, "-m", "tianji", "train", "--env", "CartPole-v1", "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    import psutil

    own = psutil.Process(process.pid)
    while not any("learner" in c.name() for c in own.children()):
        assert process.poll() is None
    children = own.children()
    os.kill(process.pid, sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert "Traceback" not in err
