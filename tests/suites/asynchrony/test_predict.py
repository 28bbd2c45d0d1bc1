"""Predictions of cells, against closed forms; and what the command refuses."""

import past
import pytest
from msgspec.structs import replace

from baselines.system import SYSTEMS, Task
from programs.cli import run
from suites.__main__ import main
from suites.asynchrony import cells, predict, sweep
from suites.asynchrony.sweep import Setting
from suites.disciplines.forecast import predicted
from suites.records import predictions


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(predict, "ROUNDS", {})
    monkeypatch.setattr(predict, "FEW", 40)
    profile = sweep.Profile(cells=(Setting("straggler", 8, 3.0, 1.0),), systems=sweep.SYSTEMS[:3], blocks=1, seconds=1.0)
    monkeypatch.setitem(sweep.PROFILES, "smoke", profile)


def test_both_predictions_are_those_of_round_times(small, tmp_path):
    assert run("tianji-bench", main, ["predict", "asynchrony", "--out", str(tmp_path / "p.json")]) == 0
    found = predictions.read(tmp_path / "p.json")
    assert (found.suite, found.profile, found.calibrating) == ("asynchrony", "smoke", sweep.calibrating())
    of = found.of("cartpole-ppo-straggler-8-m300-rho100")
    assert list(of) == list(sweep.SYSTEMS[:3])
    # A barrier takes M + 1 times L, exactly one round the slowest fragment alone, and any samples the harmonic mean and L.
    assert of["tianji"].closed_ratio == of["tianji"].ratio == 1
    assert of["tianji-exactly-one-round"].closed_ratio == pytest.approx(4 / 3, rel=1e-3)
    assert of["tianji-exactly-one-round"].ratio == pytest.approx(4 / 3, rel=0.03)
    slow, fast = 3.0, 5 / 7
    anybody = 8 / (7 / fast + 1 / slow)
    assert of["tianji-quota-free"].closed_ratio == pytest.approx(4 / (1 + anybody), rel=1e-3)


def test_a_price_predicts_the_time_to_the_return(small, tmp_path):
    assert run("tianji-bench", main, ["predict", "asynchrony", "--price", "0.2", "--out", str(tmp_path / "p.json")]) == 0
    of = predictions.read(tmp_path / "p.json").of("cartpole-ppo-straggler-8-m300-rho100")
    assert of["tianji"].return_ratio == 1
    one = of["tianji-exactly-one-round"]
    # Samples are one round old, but for the first round's.
    assert one.return_ratio == pytest.approx(2.718281828 ** (0.2 * one.age_rounds) / one.ratio, rel=1e-3)
    assert one.age_rounds == pytest.approx(1, abs=0.05)


def test_groups_are_predicted_as_the_sum_of_theirs(monkeypatch):
    cell = Setting("straggler", 8, 3.0, 1.0)
    workload = cells.workload(cell)
    config = SYSTEMS.get("tianji-grouped")().config(Task("tianji-grouped", workload, 0, (0, 1)))
    assert (config.groups, config.actors, config.envs_per_actor) == (2, 4, 1)
    assert config.update_seconds == workload.update_seconds / 2
    # In units of L: neither group of 4 makes a round in less than .5, so all 8 actors sample without a pause.
    slow, fast = 3.0, 5 / 7
    produced = (7 * 32 / fast + 32 / slow) / workload.update_seconds
    assert predict.closed_per_s(config, predict.stated_times(cell, workload)) == pytest.approx(produced, rel=1e-3)
    assert predicted(config, 60).steps_per_s == pytest.approx(produced, rel=0.03)


def test_groups_need_a_stated_number_of_actors_to_share():
    grouped = SYSTEMS.get("tianji-grouped")()
    two = cells.workload(Setting("constant", 2, 1.0, 1.0))
    assert grouped.unable(two) is None
    for workload in (replace(two, actors=1), replace(two, actors="auto")):
        assert grouped.unable(workload) == "2 groups need a workload that states a number of actors which they can share"


def test_stated_times_are_those_of_the_workload():
    cell = sweep.CELLS[3]
    found = predict.stated_times(cell, cells.workload(cell))
    assert found.rho == pytest.approx(cell.rho)
    assert found.spread == pytest.approx(cell.m)
    assert max(found.fragments_s) == pytest.approx(found.fragment_max_s)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["predict", "price", "--out", "p.json"], "suite 'price' has no predictions; asynchrony has"),
        (
            ["predict", "asynchrony", "--profile", "x", "--out", "p.json"],
            "unknown profile 'x'; known: smoke, standard, split, auto, confirm, ladder",
        ),
        (["predict", "asynchrony", "--price", "-1", "--out", "p.json"], "--price -1: must be a number from 0 to 10"),
        (["predict", "asynchrony", "--out", "p.txt"], "--out p.txt: name a new file that ends in .json"),
        (["run", "price", "--out", "o", "--predictions", "p.json"], "--predictions: suite price states none"),
        (["run", "asynchrony", "--out", "o", "--predictions", "p.json"], "--predictions p.json: No such file or directory"),
    ],
)
def test_bad_input_gets_one_line(arguments, line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run("tianji-bench", main, arguments) == 2
    assert capsys.readouterr().err == f"tianji-bench: {line}\n"


def test_kept_predictions_can_be_read():
    found = predictions.read(past.kept("predictions/asynchrony-standard.json", "f01245b"))
    profile = sweep.PROFILES[found.profile]
    assert {(one.workload, one.system) for one in found.forecasts} == {
        (cell.workload, name) for cell in profile.cells for name in profile.systems
    }
