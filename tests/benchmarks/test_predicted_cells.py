"""Predictions of scaling cells from a calibration, against closed forms; and how misses are named."""

import past
import pytest
from elsewhere import ROOT
from msgspec.structs import replace

from benchmarks.predicted_cells import Figures, main, misses, node_of, predicted, share, speed_of, table
from programs.cli import ConfigError
from suites.calibration.recorded import calibrated
from suites.records import archive
from suites.scaling.sweep import EXPERIMENTS
from tianji.simulation.calibration import Calibration, Durations, Fragment, Round, Work, load
from tianji.simulation.machines import Machine
from tianji.telemetry import Account, bin_of

FRAGMENT, ROUND = 0.004, 0.008
PPO = EXPERIMENTS["ppo-cpu-weak"]
FAN_IN = "scaling/fan-in.parquet"
"""Nodes changed their speed in all of its blocks."""


def always(seconds):
    return Durations(1, seconds, {bin_of(round(seconds * 1e9)): 1})


def calibration(loops_per_s=None, **more):
    took = (Fragment(32, 8, always(FRAGMENT)),), (Round(256, always(ROUND)),)
    work = Work("CartPole-v1", *took, 9155, always(1e-5), always(1e-4), loops_per_s)
    return Calibration(Machine(cores=2, **more), "made up", {PPO.workload: work})


def test_a_cell_takes_what_was_calibrated_on_its_share_of_a_core():
    found = predicted(calibration(), PPO, "tianji", 1, 10.0)
    # On the node's fifth of a core the actor samples, and then the learner trains on it.
    assert found.samples_per_s == pytest.approx(256 * 0.2 / (FRAGMENT + ROUND), rel=0.05)
    assert found.lag_rounds == 0
    # Both are in one process, which never waits.
    assert (found.waits["actor"], found.waits["learner"]) == (pytest.approx(0, abs=0.02), pytest.approx(0, abs=0.02))


def test_copies_are_as_many_as_nodes_and_groups_lose_to_them_by_exchanges():
    slow = calibration(latency_seconds=0.5)
    copies, groups = (predicted(slow, PPO, name, 2, 10.0).samples_per_s for name in ("tianji-copies", "tianji"))
    assert copies == 2 * predicted(slow, PPO, "tianji", 1, 10.0).samples_per_s
    # Groups wait for two hops of half a second after every 16 rounds of .06 s.
    assert 0.4 * copies < groups < 0.65 * copies


def test_copies_share_the_machine_if_nodes_have_no_budget():
    shared = replace(PPO, cores=None)
    one, eight = (predicted(calibration(), shared, name, n, 10.0) for name, n in (("tianji", 1), ("tianji-copies", 8)))
    # Two cores are enough for the two actors of one, and eight have as much in all.
    assert one.samples_per_s == pytest.approx(256 / (FRAGMENT / 2 + ROUND), rel=0.05)
    assert eight.samples_per_s == pytest.approx(8 * 256 * 0.25 / (FRAGMENT + ROUND), rel=0.05)


def test_one_learner_stands_for_the_xingtian_style_system():
    slow = calibration(latency_seconds=0.01)
    assert predicted(slow, PPO, "xingtian", 2, 10.0) == predicted(slow, PPO, "tianji-one-learner", 2, 10.0)


def test_nodes_have_their_budget_and_link_or_share_the_machine():
    machine = Machine(cores=2, link_bytes_per_s=3e9)
    assert node_of(machine, PPO, 8) == Machine(cores=0.2, period_seconds=0.01, link_bytes_per_s=1.25e8)
    assert node_of(machine, EXPERIMENTS["dqn-link-weak"], 8).cores == 0.25


def test_every_limit_has_its_miss():
    was = Figures(1000.0, 1.0, {"actor": 0.5, "learner": None})
    assert misses(Figures(1090.0, 2.0, {"actor": 0.54, "learner": 0.9}), was) == []
    assert misses(Figures(890.0, 2.5, {"actor": 0.44, "learner": 0.9}), was) == ["throughput", "lag", "actors' waiting"]
    assert misses(Figures(1000.0, None, {"actor": None, "learner": None}), was) == []


def test_a_share_of_waiting_leaves_out_the_end():
    account = Account()
    account.busy_ns["update"] = 60
    account.wait_ns.update(samples=30, barrier=10, stop=900)
    assert share([(account, [])], ["samples", "barrier"]) == 0.4
    assert share([], ["samples"]) is None


def test_a_role_waits_only_while_its_whole_process_does():
    learner, actor = Account(), Account()
    learner.busy_ns["update"] = 60
    learner.wait_ns.update(samples=40, barrier=10)
    actor.busy_ns["env"] = 20
    actor.wait_ns["simulator"] = 5
    # Of the learner's 50, the actor beside it works for 25.
    assert share([(learner, [actor])], ["samples", "barrier"]) == pytest.approx(25 / 85)
    assert share([(learner, [actor])], ["samples"]) == pytest.approx(15 / 85)
    actor.busy_ns["env"] = 200
    assert share([(learner, [actor])], ["samples"]) == 0


def test_predictions_stand_beside_a_sealed_session():
    sealed = ROOT / "results" / "reference" / "scaling" / "ppo-five-blocks.parquet"
    *rows, _, last = table(calibration(), PPO.id, ["tianji", "tianji-relaxed"], [1, 5], sealed)
    assert "*predicted*" in rows[0]
    # Five nodes were not measured, nor was the other system.
    assert len(rows) == 3
    name, nodes, expected, was, *_, missed = (cell.strip() for cell in rows[2].strip("|").split("|"))
    assert (name, nodes, missed.split(",")[0]) == ("tianji", "1", "throughput")
    assert expected != was
    assert last.startswith("0 of 1 cells are right")


@pytest.mark.long(why="whole runs of a benchmark")
def test_the_documented_table_is_what_the_command_prints():
    base = load(past.file("predictions/calibration-at-speed.json"))
    nodes = calibrated(base, archive.read(past.session("scaling/one-and-two.parquet")))
    session = past.session("scaling/four-and-eight.parquet")
    lines = table(nodes, "dqn-latency-weak", ["tianji", "tianji-one-learner", "xingtian"], [4, 8], session, at_speed=True)
    page = (ROOT / "docs" / "notebook" / "2026-11-scaling.md").read_text().splitlines()
    assert len(cells := [line for line in lines if line.startswith("|")]) == 2 + 6
    assert set(cells) <= set(page)
    # The XingTian-style system does not record what work takes.
    (rounds,) = (line for line in lines if line.startswith("Processor time of a learner's round"))
    assert rounds.count("tianji") == 4
    assert "xingtian" not in rounds


def test_a_slower_node_is_one_with_fewer_cores():
    whole, half = (predicted(calibration(), PPO, "tianji", 1, 10.0, speed=speed).samples_per_s for speed in (1.0, 0.5))
    assert half == pytest.approx(whole / 2, rel=0.05)
    known = calibration(1000.0)
    # A fifth of a core, and an eighth of two.
    assert speed_of(known, PPO, 8, 150.0) == pytest.approx(0.75)
    assert speed_of(known, replace(PPO, cores=None), 8, 500.0) == pytest.approx(2.0)


@pytest.mark.long(why="whole runs of a benchmark")
def test_cells_are_predicted_at_the_speed_that_their_nodes_had():
    plain, at_speed = (
        table(calibration(loops), PPO.id, ["tianji"], [8], past.session(FAN_IN), at_speed=loops is not None)
        for loops in (None, 1e5)
    )
    # All of its blocks are thrown out otherwise.
    assert len([line for line in plain if line.startswith("|")]) == 2
    heads, _, cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in at_speed if line.startswith("|"))
    assert heads[2] == "speed"
    assert 0 < float(cells[2]) < 2
    assert not any("left out" in line for line in at_speed)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ppo-cpu-weak", "--at-speed"], "give the session"),
        (["ppo-cpu-weak", "--at-speed", "--nodes", "8", "--measured", FAN_IN], "no speed of its machine"),
        (["ppo-cpu-weak", "--nodes", "0"], "--nodes 0"),
        (["ppo-cpu-week"], "unknown experiment"),
        (["dqn-cpu-weak"], "was not calibrated"),
        (["ppo-cpu-weak", "--systems", "sb3"], "only tianji"),
    ],
)
def test_wrong_input_is_one_line(arguments, says, tmp_path):
    calibration().save(tmp_path / "calibration.json")
    given = [str(past.session(one)) if one == FAN_IN else one for one in arguments]
    with pytest.raises(ConfigError, match=says):
        main([*given, "--machine", str(tmp_path / "calibration.json")])
