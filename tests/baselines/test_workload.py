"""Workloads: derived sizes and checks."""

import msgspec
import pytest

from baselines import system
from baselines.workload import Workload
from programs.cli import ConfigError, run
from suites.__main__ import main
from suites.session import catalogue


def changed(name, table, **changes):
    """A workload of the catalogue but for some keys of a table."""
    data = msgspec.to_builtins(catalogue.load(name))
    data[table] |= changes
    return msgspec.convert(data, Workload)


@pytest.mark.parametrize("name", ["cartpole-ppo-zoo", "cartpole-dqn-zoo"])
def test_what_every_system_trains_is_certified(name):
    assert catalogue.load(name).certified


@pytest.mark.parametrize(
    ("name", "table", "changes", "says"),
    [
        ("cartpole-dqn-zoo", "network", {"activation": "gelu"}, "networks of kind mlp-q with GELU are not"),
        ("cartpole-dqn-zoo", "network", {"dueling": True}, "networks of kind mlp-q with dueling streams are not"),
        ("cartpole-dqn-zoo", "network", {"dueling": True, "activation": "gelu"}, "mlp-q with dueling streams and GELU are not"),
        ("cartpole-dqn-zoo", "dqn", {"double": True}, "double Q-learning"),
        ("cartpole-dqn-zoo", "dqn", {"recent": 0.5}, "a preference for recent transitions"),
        ("cartpole-ppo-zoo", "ppo", {"value_clip": 0.2}, "clipped value error"),
        ("cartpole-ppo-zoo", "ppo", {"correction": "decoupled"}, "decoupled clipping"),
        ("cartpole-ppo-zoo", "ppo", {"clip_gradients": "each"}, "gradients that are clipped apart are not"),
        ("cartpole-ppo-zoo", "network", {"kind": "mlp-shared"}, "networks of kind mlp-shared are not"),
    ],
)
def test_what_other_programs_are_not_translated_to_is_named(name, table, changes, says):
    workload = changed(name, table, **changes)
    assert not workload.certified
    for other in ("sb3", "rllib"):
        assert says in system.get(other).unable(workload)
    assert system.get("xingtian").unable(workload) is None


def test_a_simulator_is_for_those_whose_environments_can_wait_together():
    slow, drawn = catalogue.load("cartpole-dqn-latency"), catalogue.load("pixels-dqn-link")
    for workload in (slow, drawn):
        assert "simulator is not translated" in system.get("sb3").unable(workload)
        for other in ("xingtian", "tianji", "sync"):
            assert system.get(other).unable(workload) is None
    assert system.get("rllib").unable(slow) is None
    assert "pictures are not translated" in system.get("rllib").unable(drawn)
    assert slow.certified, "time changes nothing of what is computed"
    assert not drawn.certified
    assert drawn.describe().observation_shape == (84, 84, 3)


def test_updates_on_a_gpu_are_for_those_that_can_compute_them_there(monkeypatch):
    import torch

    workload = msgspec.structs.replace(catalogue.load("cartpole-ppo-zoo"), device="cuda")
    for other in ("sb3", "rllib"):
        assert "updates on a GPU are not translated" in system.get(other).unable(workload)
    assert not workload.certified
    for own in ("tianji", "tianji-relaxed", "xingtian", "sync"):
        assert system.get(own).unable(workload) is None
        assert system.get(own).config(system.Task(own, workload, 0, (0, 1))).device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="cartpole-ppo-zoo: its updates are for a GPU, and torch finds no CUDA device here"):
        workload.check_device()
    catalogue.load("cartpole-ppo-zoo").check_device()


def test_a_session_without_the_gpu_that_it_needs_is_refused(capsys, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = ["run", "convergence", "--workloads", "pong84-ppo-brief", "--systems", "tianji", "--out", str(tmp_path / "new")]
    assert run("tianji-bench", main, asked) == 2
    assert "torch finds no CUDA device here" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
