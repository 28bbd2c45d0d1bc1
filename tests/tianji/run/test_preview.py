"""`tianji train --dry-run`: what it checks, what it says, and that it leaves nothing."""

import pytest
from commands import refusal

from programs.cli import run
from tianji.__main__ import main
from tianji.config import TrainConfig
from tianji.run_folder import RunFolder


def dry(capsys, *arguments):
    assert run("tianji", main, ["train", "--env", "CartPole-v1", "--dry-run", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_it_says_what_differs_and_which_processes_there_would_be(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tianji.launch.local.launch", None)
    out = tmp_path / "run"
    lines = dry(
        capsys,
        "--actors",
        "3",
        "--set",
        "ppo.epochs=4",
        "--set",
        "placement=apart",
        "--set",
        "dqn.updates=7",
        "--out",
        str(out),
    )
    assert "  actors = 3 (default 2)" in lines
    assert "  ppo.epochs = 4 (default 10)" in lines
    # Of an algorithm that is not trained with.
    assert not any("dqn" in line for line in lines)
    at = lines.index("processes: 5 on this host")
    assert lines[at + 1 : at + 6] == [
        "  learner g0: learner g0", "  buffer g0: buffer g0", *(f"  actor g0.a{i}: actor g0.a{i}" for i in range(3))
    ]  # fmt: skip
    assert lines[-2:] == [f"would write to {out}", "dry run: nothing was started or written"]
    assert not out.exists()


def test_parameters_are_those_of_the_network(capsys):
    # Two perceptrons of 4 features, layers of 8, 2 actions and a value: (4*8 + 8) * 2 + (8*2 + 2) + (8 + 1).
    lines = dry(capsys, "--set", "network.hidden=[8]")
    assert "network mlp-separate with 107 parameters" in lines[1]
    assert "  network.hidden = (8,) (default (64, 64))" in lines


def test_settings_that_are_the_default_are_not_listed(capsys):
    lines = dry(capsys, "--actors", "2", "--envs-per-actor", "4", "--world", "real")
    assert "every setting has its default" in lines


def test_bundles_of_a_cluster_are_shown_without_one(capsys):
    pytest.importorskip("ray", reason="Ray is not installed")
    lines = dry(capsys, "--groups", "2", "--actors", "2", "--launcher", "ray", "--ray-address", "10.0.0.1:6379")
    assert any(line.endswith("on the Ray cluster at 10.0.0.1:6379") for line in lines)
    assert any(line.startswith("  actor g1.a1: actor g1.a1 (bundle 1 of 2, PACK") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--env", "Pendulum-v1", "--algo", "dqn"], "chooses among Discrete actions"),
        (["--env", "CartPole-v1", "--set", "network.kind=nature-shared"], "image"),
        (["--env", "CartPole-v1", "--out", "/proc"], "not empty"),
        (["--resume", "/nowhere"], "no such file"),
    ],
)
def test_it_refuses_what_training_would(capsys, arguments, says):
    assert says in refusal(capsys, run, "tianji", main, ["train", "--dry-run", *arguments])


def test_a_run_that_stored_nothing_cannot_be_gone_on_with(capsys, tmp_path):
    RunFolder(tmp_path).create(TrainConfig(env="CartPole-v1"))
    before = sorted(tmp_path.rglob("*"))
    said = refusal(capsys, run, "tianji", main, ["train", "--dry-run", "--resume", str(tmp_path)])
    assert "nothing was stored to go on from" in said
    assert sorted(tmp_path.rglob("*")) == before
