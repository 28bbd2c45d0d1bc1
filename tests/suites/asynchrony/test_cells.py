"""Cells of the asynchrony suite: the delays have the stated rho and M, and the plan has every cell under every discipline."""

import itertools
from collections import Counter

import msgspec
import numpy as np
import pytest

from programs.cli import ConfigError
from suites.asynchrony import cells, sweep
from suites.asynchrony.run import Asynchrony
from suites.asynchrony.sweep import Setting
from suites.records import machine, statement
from suites.records.predictions import Forecast, Predictions, winner
from suites.session import runner
from suites.session.suite import Request
from tianji.environments.delays import scale, times


def request(**more):
    given = {"profile": "standard", "systems": None, "workloads": None, "blocks": None, "first_seed": 1000}
    return Request(**given | {"once": False, "testbed": None, "cores": (0, 1)} | more)


@pytest.mark.parametrize("cell", [sweep.CELLS[4], *sweep.CONFIRMED, sweep.CELLS[-1]], ids=lambda cell: cell.workload)
def test_fragments_have_the_stated_rho_and_m(cell):
    workload = cells.workload(cell)
    simulator, steps = workload.simulator, workload.for_ppo.rollout_steps
    assert workload.environments == workload.actors == cell.actors
    assert workload.round_steps == 256, "the learner's work is the same in every cell"
    fragments = []
    for number in range(cell.actors):
        mean = scale(simulator, number) * simulator.step_seconds
        delays = times(simulator, mean, np.random.default_rng(number))
        own = [list(itertools.islice(delays, steps)) for _ in range(2000)]
        assert all(min(one) == max(one) for one in own), "a draw lasts for a fragment"
        fragments.append([sum(one) / 1e9 for one in own])
    mean = np.mean(fragments)
    assert mean / workload.update_seconds == pytest.approx(cell.rho, rel=0.05)
    assert np.mean(np.max(fragments, axis=0)) / mean == pytest.approx(cell.m, rel=0.07)


@pytest.mark.parametrize("cell", sweep.SPLITS, ids=lambda cell: cell.workload)
def test_simulators_of_a_split_share_its_cores(cell):
    workload, split = cells.workload(cell), cell.split
    simulator, steps = workload.simulator, workload.for_ppo.rollout_steps
    assert cell.actors * split.ranks == sweep.SPLIT_CORES
    assert workload.round_steps == 256
    # With one core each, all of them together need the learner's time for a round.
    assert simulator.step_seconds * 256 == pytest.approx(sweep.SPLIT_CORES * workload.update_seconds)
    own = scale(simulator, 0) * simulator.step_seconds * steps
    assert own == pytest.approx(cell.rho * workload.update_seconds)
    assert cell.rho == pytest.approx(split.serial * split.ranks + 1 - split.serial)
    # All draw from one distribution, in which 16 have an M of 3.
    assert cells.spread_of_tail(sweep.SPLIT_CORES, simulator.truncation) == pytest.approx(3, rel=1e-3)


def test_every_split_runs_in_its_profile():
    plan, _ = Asynchrony().plan(request(profile="split"))
    assert len(plan.workloads) == len({cell.workload for cell in sweep.SPLITS}) == 15
    assert len(plan.cells) == 15 * 2 * 5


def test_cells_of_auto_are_none_of_the_map():
    def axes(cell):
        return cell.delays, cell.actors, cell.m, cell.rho

    assert not {axes(cell) for cell in sweep.FRESH} & {axes(cell) for cell in sweep.CELLS}
    plan, _ = Asynchrony().plan(request(profile="auto"))
    assert len(plan.cells) == len(sweep.FRESH) * 6 * 3
    assert len({cell.workload for cell in sweep.every()}) == len(sweep.every())


def test_a_tail_that_no_truncation_gives_is_refused():
    with pytest.raises(ValueError, match=r"no tail of exponent 1.5 gives M 9 with 2 actors"):
        cells.truncation_for(2, 9.0)


def test_every_cell_runs_under_every_discipline_in_every_block():
    plan, skipped = Asynchrony().plan(request())
    assert not skipped
    assert len(plan.workloads) == len(sweep.CELLS) <= 40
    runs = Counter((cell.workload, cell.system, cell.block, cell.replica) for cell in plan.cells)
    assert set(runs.values()) == {1}
    assert sum(not cell.replica for cell in plan.cells) == 5 * len(sweep.CELLS) * len(sweep.SYSTEMS)
    assert {cell.workload for cell in plan.cells if cell.replica} == {cell.workload for cell in sweep.CONFIRMED}
    assert {cell.seed for cell in plan.cells} == set(range(1000, 1005))
    assert all(workload["budget_seconds"] == 10.0 for workload in plan.workloads.values())
    # A tenth of the cells calibrates, and none of those that are confirmed.
    assert len(sweep.calibrating()) == 3
    assert not {cell.workload for cell in sweep.CONFIRMED} & set(sweep.calibrating())


def test_cells_that_are_confirmed_have_workloads_of_their_own():
    suite = Asynchrony()
    plan, _ = suite.plan(request(profile="confirm"))
    assert len(plan.cells) == 4 * 2 * 20
    assert all(name.endswith("-to-return") for name in plan.workloads)
    work = suite.work(plan, plan.cells[0])
    assert work.judged is not None
    assert work.stop_at_goal
    assert suite.work(*(lambda p: (p, p.cells[0]))(suite.plan(request(profile="smoke"))[0])).judged is None


def test_the_last_rung_of_the_ladder_has_workloads_of_its_own():
    suite = Asynchrony()
    told = made(sweep.CONFIRMED, sweep.PROFILES["ladder"].systems)
    plan, _ = suite.plan(request(profile="ladder", predictions=told))
    assert set(plan.workloads) == {f"{cell.workload}-ladder" for cell in sweep.CONFIRMED}
    assert len(plan.cells) == 4 * (3 + 1) * 5
    assert suite.work(plan, plan.cells[0]).judged is None


def made(cells_of, systems):
    return Predictions(
        suite="asynchrony",
        profile="standard",
        written="2026-01-01T00:00:00Z",
        commit=None,
        dirty=None,
        seed=0,
        calibrating=(),
        forecasts=tuple(
            Forecast(workload=cell.workload, system=name, steps_per_s=1.0, ratio=1.0, age_rounds=0.0, closed_ratio=1.0)
            for cell in cells_of
            for name in systems
        ),
    )


def test_predictions_are_stated_in_the_plan_and_must_cover_it():
    whole = made(sweep.CELLS, sweep.SYSTEMS)
    plan, _ = Asynchrony().plan(request(predictions=whole))
    assert plan.predictions == whole
    assert msgspec.json.decode(msgspec.json.encode(plan.stated()), type=type(plan.stated())).predictions == whole
    with pytest.raises(ConfigError, match=r"says nothing of tianji-free on cartpole-ppo-constant-8-m100-rho50"):
        Asynchrony().plan(request(predictions=made(sweep.CELLS, sweep.SYSTEMS[:-1])))


def test_other_workloads_are_refused():
    with pytest.raises(ConfigError, match=r"unknown workload 'cartpole-dqn' of suite asynchrony"):
        Asynchrony().plan(request(workloads=("cartpole-dqn",)))


def test_the_winner_is_the_freshest_of_the_fastest():
    assert winner([("a", 100.0, 0.0), ("b", 200.0, 3.0), ("c", 185.0, 1.0), ("d", 179.0, 0.5)]) == "c"


def test_a_control_computes():
    control = [cell for cell in sweep.CELLS if cell.computes]
    assert len(control) == 1
    assert cells.workload(control[0]).simulator.computes
    assert Setting("tail", 8, 3.0, 1.0) in sweep.CELLS


def test_a_session_goes_on_with_the_predictions_that_it_was_begun_with(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "noise_floor", lambda: 0.01)
    suite, whole = Asynchrony(), made(sweep.CELLS, sweep.SYSTEMS)
    plan, _ = suite.plan(request(profile="smoke", predictions=whole))
    begun = runner.open_session(tmp_path / "session", plan, resume=False)
    assert statement.in_folder(tmp_path / "session").predictions == whole
    assert runner.find_session(tmp_path / "session", plan, resume=True) == begun
    other, _ = suite.plan(request(profile="smoke"))
    with pytest.raises(ConfigError, match=r"was begun with other --predictions"):
        runner.find_session(tmp_path / "session", other, resume=True)
