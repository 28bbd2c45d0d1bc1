"""The grid of distances, the table of losses, and where each number comes from."""

import shutil
from pathlib import Path

import pytest
from bundles import unpacked

from reports import dataset, page
from reports.convergence.view import Trained
from reports.grid import Cell, Choice, _distances, grids
from reports.losses import losses
from reports.sessions import sources
from suites import __main__ as suites
from suites.session.command import request
from suites.session.suite import SUITES

WORKLOAD = "lunarlander-dqn"
FILE = f"results/reference/convergence/{WORKLOAD}.parquet"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data():
    return dataset.load([ROOT / FILE])


def seconds(value, reached=5, watched=None):
    return Cell(value, None, reached, 5, "s", watched)


def test_distances_are_ratios_to_the_soonest_of_those_that_most_runs_reached_the_target_with():
    cells = {"a": seconds(10.0), "b": seconds(25.0), "easy": seconds(2.0, reached=1), "never": seconds(None, 0, 300.0)}
    found = _distances(cells)
    assert [found[name].distance for name in cells] == [1.0, 2.5, None, 30.0]
    assert [found[name].words for name in cells] == ["1.00x", "2.50x", "1 of 5 runs", "> 30.0x"]
    assert found["easy"].detail == "2.00 s if reached"
    assert found["never"].detail == "not reached in 300 s"
    assert [found[name].step for name in cells] == [0, 2, None, 4]


def test_the_best_rate_is_the_largest():
    found = _distances({name: Cell(value, None, 5, 5, "samples/s") for name, value in (("a", 100.0), ("b", 400.0))})
    assert [found[name].distance for name in "ab"] == [4.0, 1.0]


def test_a_grid_has_every_system_with_either_return_and_either_cost(data):
    (grid,) = grids(data)
    (column,) = grid.columns
    assert (grid.suite, grid.machine, column.algorithm) == ("convergence", "2 cores of AMD EPYC", "dqn")
    (view,) = Trained.all(data)
    training = {label: grid.at(label, column)[Choice("training", "seconds")] for label in view.shown}
    times = {label: view.row(label, "time_to_threshold_s", threshold_kind="training")["value"] for label in view.shown}
    assert training["sync-one"].distance == pytest.approx(times["sync-one"] / times["tianji"])
    assert training["rllib"].words.startswith("> 3.")
    assert (training["sb3"].words, training["sb3"].detail) == ("1 of 5 runs", "267 s if reached")


def test_losses_and_ties_are_the_ratios_whose_intervals_say_so(data):
    found = losses(data)
    (view,) = Trained.all(data)
    rows = [
        row
        for row in view.table.where(system="tianji").rows
        if row["metric"] in ("time_to_threshold_ratio", "restricted_mean_time_ratio", "core_seconds_to_threshold_ratio")
        and row["ci_low"] is not None
        and not row["baseline"].endswith("-again")
    ]
    missed = {(row["baseline"], row["threshold_kind"]) for row in rows if row["metric"].startswith("restricted")}
    assert missed, "some runs missed the return: every run counts there"
    exact = [r for r in rows if not (r["metric"].startswith("time") and (r["baseline"], r["threshold_kind"]) in missed)]
    assert found.contests == len(exact)
    assert len(found.lost) == sum(row["ci_high"] < 1 for row in exact)
    assert len(found.tied) == sum(row["ci_low"] <= 1 <= row["ci_high"] for row in exact)
    above = [row for row in exact if row["ci_low"] > 1]
    assert found.won == len(above)
    tables = page.tables(data)
    assert len(tables["losses"]) == len(found.lost)
    assert len(tables["ties"]) == len(found.tied)


def test_returns_that_another_system_reached_more_often_are_listed_whatever_the_ratios_say():
    data = dataset.load([ROOT / "results/reference/convergence/lunarlander-ppo-sbx.parquet"])
    found = losses(data)
    told = [(one.kind, one.ours.words, [(other.title, other.words) for other in one.ahead]) for one in found.missed]
    assert told == [("training", "1 of 5", [("SBX", "5 of 5")])]
    assert not found.lost, "no interval says so: TianJi's runs end soon"
    assert page.tables(data)["missed"].iloc[0].tolist()[2:] == ["training", "SBX", "1 of 5", "5 of 5"]


def test_the_command_of_a_session_plans_the_cells_that_the_session_has():
    data = dataset.load([ROOT / "results/reference/convergence/cartpole-ppo-zoo.parquet"])
    (view,) = Trained.all(data)
    (source,) = sources(view)
    assert source.runs == 30
    assert source.file.endswith("cartpole-ppo-zoo.parquet")
    assert source.purpose == "Headline: PPO on CartPole, standard profile"
    words = source.command.split()
    assert words[:5] == ["python", "-m", "suites", "run", "convergence"]
    assert words[-2:] == ["--out", "DIR"]
    options = suites.parser().parse_args(words[3:])
    suite = SUITES.get("convergence")()
    try:
        plan, _ = suite.plan(request(options, suite))
    except suites.ConfigError as error:
        pytest.skip(str(error))
    planned = {(cell.workload, cell.system, cell.seed, cell.block) for cell in plan.cells}
    assert planned == {(m.workload, m.system, m.seed, m.block) for m in (b.manifest for b in data.bundles)}
    assert len(plan.cells) == len(data.bundles)


def test_a_session_that_is_no_file_has_a_name_and_no_folder_of_its_owner(tmp_path):
    folder = tmp_path / "mine"
    for path in unpacked(FILE).glob(f"{WORKLOAD}.b0.*.tianji"):
        shutil.copytree(path, folder / path.name)
    (view,) = Trained.all(dataset.load([folder]))
    (source,) = sources(view)
    assert (source.file, source.purpose, source.runs) == ("mine", None, 1)
    assert "--seeds 1 --first-seed 0 --once" in source.command
