"""SBX trains the workload's network with the workload's numbers, in an environment of its own, and tells all of it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from elsewhere import ROOT
from told import changed

from baselines import environments, system
from baselines.__main__ import main
from baselines.sbx import translate, weights
from programs.cli import run
from suites.session import catalogue
from tianji.algorithms.dqn import epsilon
from tianji.algorithms.networks import ActorCritic, QNetwork
from tianji.algorithms.ppo import PPO
from tianji.environments.making import describe

NETWORKS = [ActorCritic(4, (64, 64), 2), QNetwork(4, (256, 256), 2)]
SCRIPT = ROOT / "tests" / "helpers" / "sbx_runs.py"
REASON = environments.missing("sbx")
installed = pytest.mark.skipif(REASON is not None, reason=f"sbx: {REASON}")


def told(workload, *arguments, seed=5):
    """What a run in SBX's interpreter told."""
    task = msgspec.json.encode(system.Task("sbx", workload, seed, (0,)))
    command = [*system.get("sbx").interpreter(), str(SCRIPT), *arguments]
    path = {"PYTHONPATH": f"{ROOT}:{SCRIPT.parent}", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, input=task, capture_output=True, env=path, timeout=110, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout)


@pytest.mark.parametrize("name", ["cartpole-ppo-zoo", "cartpole-dqn-zoo"])
def test_a_workload_is_translated_to_plain_data_without_its_packages(name):
    found, task = system.get("sbx"), system.Task("sbx", catalogue.load(name), 0, (0, 1))
    assert msgspec.json.decode(msgspec.json.encode(found.settings(task))) == found.settings(task)
    assert found.unable(task.workload) is None
    assert any("compile_s" in line for line in found.deviations(task))


def test_an_environment_that_is_not_made_is_named_with_the_command(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    found = system.get("sbx")
    assert found.interpreter() == [str(tmp_path / "environment-sbx" / "bin" / "python")]
    assert "nox -s environment -- sbx" in found.available()
    assert run("baselines", main, ["list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sbx:")]
    assert line.startswith("sbx: SBX (cannot run here: ")
    # A half-made one is none; what makes it touches this file last.
    (tmp_path / "environment-sbx" / "bin").mkdir(parents=True)
    (tmp_path / "environment-sbx" / "bin" / "python").touch()
    assert found.available() is not None
    (tmp_path / "environment-sbx" / "made").touch()
    assert found.available() is None


def test_the_environment_has_exact_versions_and_agrees_with_ours():
    def versions(path: Path):
        lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
        return {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}

    theirs, ours = versions(environments.HERE / "sbx.txt"), versions(ROOT / "constraints.txt")
    assert all(theirs.values())
    assert {"sbx-rl", "jax", "jaxlib", "flax", "optax"} <= set(theirs)
    shared = {"torch", "numpy", "gymnasium", "stable-baselines3", "msgspec"}
    assert {name: theirs[name] for name in shared} == {name: ours[name] for name in shared}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
def test_weights_survive_the_way_there_and_back(network):
    flat = network.initialise(3)
    towers = ("q",) if network.name == "mlp-q" else ("policy", "value")
    there = {tower: weights.to_flax(network, flat, tower) for tower in towers}
    assert there[towers[0]]["params"]["Dense_0"]["kernel"].shape == (4, network.hidden[0])
    assert np.array_equal(weights.from_flax(network, there), flat)


def test_networks_that_it_cannot_have_are_refused():
    narrow = changed("cartpole-dqn-zoo", network={"hidden": [256, 128]})
    assert "two hidden layers of one width" in system.get("sbx").unable(narrow)
    assert system.get("sbx").unable(changed("cartpole-ppo-zoo", network={"hidden": [32, 16]})) is None
    assert "simulator" in system.get("sbx").unable(catalogue.load("cartpole-dqn-latency"))


def test_what_clips_dqns_gradients_is_its_optimizer():
    told = translate.settings(catalogue.load("cartpole-dqn-zoo"), 0)
    assert "max_grad_norm" not in told["arguments"]
    assert told["optimizer_kwargs"] == {"eps": 1e-8, "max_grad_norm": 10.0}
    assert translate.settings(catalogue.load("cartpole-ppo-zoo"), 0)["arguments"]["max_grad_norm"] == 0.5


@installed
def test_a_ppo_run_does_and_tells_exactly_what_the_workload_says():
    w = changed("cartpole-ppo-zoo", budget_steps=3000, snapshot_every_steps=700, ppo={"minibatch_size": 128, "epochs": 3})
    found = told(w)
    # As Stable-Baselines3: 11 whole rounds of 256 steps, six optimizer steps each.
    assert [steps for _, steps, _, _ in found["snapshots"]] == [0, 768, 1536, 2304, 2816]
    assert [version for _, _, version, _ in found["snapshots"]] == [0, 18, 36, 54, 66]
    assert (found["counters"]["learner_steps"], found["counters"]["learner_optimizer_steps"]) == (2816.0, 66.0)
    assert found["difference_at_first"] < 1e-5
    assert np.array_equal(np.float32(found["snapshots"][0][3]), NETWORKS[0].initialise(5))
    assert found["snapshots"][1][3] != found["snapshots"][2][3]
    rate = PPO(None, describe(w.env), w.for_ppo, w.horizon_steps, seed=0).learning_rate(2816 - 256)
    assert found["learning_rates"] == pytest.approx([rate, rate])
    assert all(value == length for _, value, length, _ in found["episodes"])
    ended = sum(length for _, _, length, _ in found["episodes"])
    assert found["episodes"][-1][3] - 8 * 500 < ended <= found["episodes"][-1][3] <= 2816
    # All that is compiled is compiled before the first step, and its seconds are told.
    assert found["counters"]["compile_s"] > 0.1
    assert found["counters"]["compile_while_training_s"] == 0.0


@installed
def test_a_dqn_run_does_and_tells_exactly_what_the_workload_says():
    w = changed("cartpole-dqn-zoo", budget_steps=2000, dqn={"updates": 16, "learning_starts": 512, "epsilon_steps": 1500})
    found = told(w)
    assert [steps for _, steps, _, _ in found["snapshots"]] == [256 * i for i in range(8)]
    assert [version for _, _, version, _ in found["snapshots"]] == [0, 0, 16, 32, 48, 64, 80, 96]
    assert found["difference_at_first"] < 1e-5
    assert np.array_equal(np.float32(found["snapshots"][1][3]), NETWORKS[1].initialise(5))
    assert found["exploration_rate"] == pytest.approx(epsilon(w.for_dqn, 1792)) == 0.04
    # The last copy was made while sampling, before the last round of updates.
    assert np.array_equal(np.float32(found["target"]), np.float32(found["snapshots"][-2][3]))
    assert found["counters"]["compile_while_training_s"] == 0.0


@installed
@pytest.mark.parametrize(("name", "budget"), [("cartpole-ppo-zoo", 1024), ("cartpole-dqn-zoo", 1536)])
def test_compiling_ahead_changes_nothing_of_what_is_computed(name, budget):
    w = changed(name, budget_steps=budget)
    ahead, late = told(w), told(w, "not-ahead")
    assert late["counters"]["compile_while_training_s"] > 0.1
    assert [one[1:] for one in ahead["episodes"]] == [one[1:] for one in late["episodes"]]
    assert [one[1:] for one in ahead["snapshots"]] == [one[1:] for one in late["snapshots"]]


@installed
def test_the_certificate_comes_from_its_interpreter(capfd):
    """Whatever interpreter asks. Its gradients are clipped apart, which stands among the deviations."""
    assert system.get("sbx").interpreter() != [sys.executable]
    asked = ["check", "sbx", "--json", "--workload", str(ROOT / "suites" / "workloads" / "cartpole-ppo-zoo.toml")]
    assert run("baselines", main, asked) == 1
    rows = {row["quantity"]: row["equal"] for row in msgspec.json.decode(capfd.readouterr().out)}
    assert rows == {"targets": True, "advantages": True, "loss": True, "gradient": False, "weights": False}
