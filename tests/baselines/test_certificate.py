"""The equivalence certificate: what every system computes from identical weights and a frozen batch."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from elsewhere import ROOT

from baselines import certificate, system
from baselines.__main__ import WORKLOADS as WORKLOAD_FILES
from baselines.__main__ import findings, main
from baselines.certificate import Equivalence
from baselines.workload import Workload
from programs.cli import ConfigError, run
from suites.session import catalogue

pytestmark = pytest.mark.filterwarnings("ignore")

WORKLOADS = [catalogue.load(name) for name in ("cartpole-ppo-zoo", "cartpole-dqn-zoo", "pendulum-ppo", "halfcheetah-ppo")]
EXPLAINED = {
    ("rllib", "ppo", "advantages"),
    ("rllib-unprobed", "ppo", "advantages"),
    ("rllib-multi-learner", "ppo", "advantages"),
    ("sb3", "ppo", "advantages"),
    ("sbx", "ppo", "gradient"),
    ("sbx", "ppo", "weights"),
}
"""Differences that stand among a system's deviations."""
TOO_SMALL = {("sbx", "halfcheetah-ppo", "weights")}
"""Of them those that are below the tolerance: a hundredth of the gradient is little beside statistics."""
FORMS = {"sb3-threads", "sb3-subproc", "sb3-subproc-threads", "sbx-threads"}
"""Forms of a system, which differ in where environments live and in the number of threads."""
SHOW_NOTHING = {"rllib-appo", "rllib-impala", "rllib-old", "sample-factory", "torchrl"}
"""Systems that compute other quantities than the certificate compares, or that are programs of their own."""


@pytest.fixture
def once(monkeypatch):
    """The reference is slow, and the same for every system: it is computed once for each workload."""
    compute = certificate.reference

    def known(frozen):
        if frozen.workload.id not in KNOWN:
            KNOWN[frozen.workload.id] = compute(frozen)
        return KNOWN[frozen.workload.id]

    monkeypatch.setattr(certificate, "reference", known)


KNOWN = {}


def findings_of(name, workload, tmp_path):
    """Findings on a system, from its own interpreter if that is another one."""
    if system.get(name).interpreter() == [sys.executable]:
        return findings(name, workload)
    file = tmp_path / f"{workload.id}.json"
    file.write_bytes(msgspec.json.encode(workload))
    asked = [*system.get(name).interpreter(), "-m", "baselines", "check", name, "--json", "--workload", str(file)]
    done = subprocess.run(asked, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    return msgspec.json.decode(done.stdout, type=list[Equivalence])


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.id)
@pytest.mark.parametrize("name", [name for name in system.names() if name not in FORMS])
def test_every_system_computes_the_same(name, workload, tmp_path, once):
    under_test = system.get(name)
    if reason := under_test.available() or under_test.unable(workload):
        pytest.skip(f"{name}: {reason}")
    found = findings_of(name, workload, tmp_path)
    if name in SHOW_NOTHING:
        assert {finding.equal for finding in found} == {None}
        return
    shown = {finding.quantity for finding in found if finding.equal is not None}
    assert {"loss", "gradient", "weights"} <= shown
    for finding in found:
        explained = (name, workload.algo, finding.quantity) in EXPLAINED
        if explained and (name, workload.id, finding.quantity) not in TOO_SMALL:
            assert finding.equal is False, "an explained difference is gone: take it out of the deviations"
            assert under_test.deviations(system.Task(name, workload, 0, (0,)))
        else:
            assert finding.equal is not False, finding


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.id)
def test_the_frozen_data_exercise_what_they_are_for(workload):
    frozen = certificate.freeze(workload)
    again = certificate.freeze(workload)
    assert all(np.array_equal(frozen.chunk[name], again.chunk[name]) for name in frozen.chunk)
    assert frozen.chunk["terminated"].any()
    assert frozen.chunk["truncated"].any()
    expected = certificate.reference(frozen)
    limit = workload.for_ppo.max_grad_norm if workload.algo == "ppo" else workload.for_dqn.max_grad_norm
    if workload.algo == "ppo":
        norm, clipped = np.linalg.norm(expected["gradient"]), workload.id.startswith("cartpole")
        assert norm == pytest.approx(limit, rel=1e-4) if clipped else 0.1 * limit < norm < limit
    else:
        assert np.linalg.norm(expected["gradient"]) > 0
        assert not np.array_equal(frozen.weights, frozen.target_weights)


@pytest.mark.parametrize("quantity", ["targets", "loss", "gradient", "weights"])
def test_a_wrong_quantity_is_found(quantity):
    workload = catalogue.load("cartpole-ppo-zoo")
    frozen = certificate.freeze(workload)
    expected = certificate.reference(frozen)
    evidence = {name: values.copy() for name, values in expected.items()}
    evidence[quantity][np.abs(expected["gradient"]).argmax() if quantity in ("gradient", "weights") else 0] += 1e-4
    wrong = [f.quantity for f in certificate.compare("w", "s", evidence, expected) if f.equal is False]
    assert wrong == [quantity]


@pytest.mark.long(why="whole runs of real processes")
def test_an_environment_that_is_not_installed_is_named_and_left_out(monkeypatch, capsys):
    """As in the environment that the README's main job makes, which has no Box2D."""
    describe = Workload.describe

    def without_box2d(workload):
        if workload.env.startswith("LunarLander"):
            raise ConfigError(f"{workload.env}: Box2D is not installed")
        return describe(workload)

    monkeypatch.setattr(Workload, "describe", without_box2d)
    assert run("baselines", main, ["check", "tianji", "--only", "certificate"]) == 0
    said = capsys.readouterr()
    assert "cartpole-ppo-zoo  weights     equal" in said.out
    assert "lunarlander" not in said.out
    assert "lunarlander-ppo  left out: LunarLander-v3: Box2D is not installed" in said.err
    asked = ["check", "tianji", "--workload", str(WORKLOAD_FILES / "lunarlander-ppo.toml")]
    assert run("baselines", main, asked) == 2


def test_a_form_has_the_evidence_of_the_system():
    found = {name: findings(name, WORKLOADS[0]) for name in ("sb3", "sb3-subproc-threads")}
    assert [msgspec.structs.replace(one, system="sb3") for one in found["sb3-subproc-threads"]] == found["sb3"]
