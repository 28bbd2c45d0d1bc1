"""`tianji plan`: its table, what it assumes, and what it refuses."""

import dataclasses

import msgspec
import pytest

from tianji.__main__ import main
from tianji.config import TrainConfig
from tianji.environments.description import EnvDescription
from tianji.simulation import planning as plan
from tianji.simulation.calibration import Calibration, Durations, Fragment, Round, Work
from tianji.simulation.machines import Machine
from tianji.telemetry import bin_of
from tianji.topology import parameters

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
CONFIG = TrainConfig(env="CartPole-v1")


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Where work always takes as long, a few rounds tell as much as many."""
    monkeypatch.setattr(plan, "MOST_ROUNDS", plan.FEWEST_ROUNDS)


def constant(seconds):
    return Durations(1, seconds, {bin_of(round(seconds * 1e9)): 1})


def work(env="CartPole-v1", size=None):
    size = parameters(CONFIG, CARTPOLE) if size is None else size
    fragment, rounds = Fragment(128, 4, constant(0.01)), Round(1024, constant(0.02))
    return Work(env, (fragment,), (rounds,), size, constant(1e-5), constant(1e-5))


@pytest.fixture
def calibration(tmp_path):
    path = tmp_path / "calibration.json"
    Calibration(Machine(cores=2), "a made-up machine", {"known": work()}).save(path)
    return path


def test_every_discipline_is_predicted_in_both_topologies(calibration, capsys):
    command = ["plan", "--env", "CartPole-v1", "--nodes", "2", "--machine", str(calibration), "--gbit", "1"]
    assert main([*command, "--price-per-node-hour", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("predicted, not measured: PPO on CartPole-v1, 2 nodes of 2 actors x 4 environments, 1 Gbit/s\n")
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in plan.DISCIPLINES]
    assert [row[0] for row in rows] == [*plan.DISCIPLINES, *plan.DISCIPLINES]
    # Strict groups: 2 x 1,024 samples a round, of a fragment, updates, mean and adoption.
    strict = float(rows[0][1].replace(",", ""))
    assert strict == pytest.approx(2 * 1024 / 0.03, rel=0.05)
    hours, cost = (float(cell) for cell in rows[0][-2:])
    assert hours == pytest.approx(1e6 / strict / 3600, rel=0.01)
    assert cost == pytest.approx(hours * 2 * 3, rel=0.01)
    assert "calibrated on a made-up machine" in out
    assert "one way between nodes" in out
    assert "links of" not in out


def lone(rule, split, serial, calibration, monkeypatch):
    """Samples a second of one learner whose simulators share cores like this."""
    monkeypatch.setattr(plan, "DISCIPLINES", (rule,))
    monkeypatch.setattr(plan, "splits", lambda cores: [split])
    config = msgspec.structs.replace(CONFIG, actors=2, envs_per_actor=4)
    found = plan.lines(
        config,
        CARTPOLE,
        calibration,
        "known",
        Machine(cores=2),
        2,
        simulator_cores=split.simulators * split.ranks,
        serial=serial,
    )
    return next(line for line in found if line.topology == plan.ONE)


def test_simulators_share_cores_by_amdahls_law(monkeypatch):
    calibration = Calibration(Machine(cores=2), "", {"known": work()})
    # Two nodes with 1,024 samples each. One simulator of one core takes .01 s for 512 samples.
    for split, serial, seconds in (
        (plan.Split(4, 1), 0.5, 0.005),
        (plan.Split(1, 4), 0.0, 0.005),
        (plan.Split(2, 2), 0.5, 0.0075),
    ):
        line = lone("strict", split, serial, calibration, monkeypatch)
        # The round of updates is twice the measured one.
        assert line.found.steps_per_s == pytest.approx(2048 / (seconds + 0.04), rel=0.05), split
        assert line.split == split


def test_the_best_split_is_shown(calibration, capsys):
    command = ["plan", "--env", "CartPole-v1", "--nodes", "2", "--machine", str(calibration), "--simulator-cores", "4"]
    assert main([*command, "--serial", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "2 nodes of 4 simulator cores, rounds of 1,024 samples" in out
    strict = next(line for line in out.splitlines() if line.split()[:1] == ["strict"])
    # Nothing is scattered, and half of a step stays serial: more simulators are better than more cores in each.
    assert "4 x 1" in strict
    assert plan.splits(6) == [plan.Split(6, 1), plan.Split(3, 2), plan.Split(2, 3), plan.Split(1, 6)]


def test_links_that_nobody_states_are_assumed():
    machine, assumed = plan.cluster(Calibration(Machine(), "", {}), None)
    assert machine.link_bytes_per_s == plan.ASSUMED_GBIT * 1e9 / 8
    assert len(assumed) == 2
    stated = Machine(latency_seconds=1e-3, link_bytes_per_s=1e6)
    assert plan.cluster(Calibration(stated, "", {}), None) == (stated, [])
    assert plan.cluster(Calibration(stated, "", {}), 8)[0].link_bytes_per_s == 1e9


def test_only_the_same_environment_and_network_is_known():
    calibration = Calibration(Machine(), "", {"other": work("Acrobot-v1"), "larger": work(size=1), "own": work()})
    assert plan.known(calibration, CONFIG, CARTPOLE) == "own"
    assert plan.known(calibration, CONFIG, dataclasses.replace(CARTPOLE, actions=3)) is None


def test_an_environment_that_was_not_calibrated_is_measured_now(calibration, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(plan, "measured_now", lambda config, describe: asked.append(config.env) or work("Acrobot-v1"))
    assert main(["plan", "--env", "Acrobot-v1", "--nodes", "2", "--machine", str(calibration)]) == 0
    out, err = capsys.readouterr()
    assert asked == ["Acrobot-v1"]
    assert "measuring it here" in err
    assert "measured now" in out


def test_what_work_takes_is_measured_by_a_short_run(monkeypatch):
    monkeypatch.setattr(plan, "MEASURED_S", 1.0)
    found = plan.measured_now(msgspec.structs.replace(CONFIG, actors=1, envs_per_actor=8), CARTPOLE)
    assert (found.fragments[0].steps, found.fragments[0].environments) == (CONFIG.fragment_steps, 8)
    assert found.rounds[0].samples == CONFIG.fragment_steps * 8
    assert found.mean is not None
    assert found.mean.count == plan.MEANS


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "--machine is missing; `python -m suites calibrate"),
        (["--machine", "{}", "--nodes", "1"], "--nodes 1: a plan is for 2 to 512 nodes"),
        (["--machine", "{}", "--gbit", "0"], "--gbit 0: must be a positive number"),
        (["--machine", "{}", "--price-per-node-hour", "-1"], "--price-per-node-hour -1: must be"),
        (["--machine", "{}", "--actors", "0"], "actors"),
        (["--machine", "{}", "--simulator-cores", "0"], "--simulator-cores 0: must be 1 to 64"),
        (["--machine", "{}", "--simulator-cores", "4", "--actors", "2"], "exclude each other"),
        (["--machine", "{}", "--simulator-cores", "4", "--serial", "2"], "--serial 2: a share from 0 to 1"),
        (["--machine", "{}", "--serial", "0.1"], "only with --simulator-cores"),
        (["--machine", "{}.gone"], "gone"),
    ],
)
def test_bad_input_is_one_line(more, says, calibration):
    from programs.cli import ConfigError

    command = ["plan", "--env", "CartPole-v1", "--nodes", "4", *(one.format(calibration) for one in more)]
    with pytest.raises(ConfigError) as error:
        main(command)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
