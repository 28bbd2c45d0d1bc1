"""The price suite: its plan, ages in lockstep, and ratios of steps."""

import collections
import math
from pathlib import Path

import bundles
import priced
import pytest
from commands import refusal
from pyarrow import parquet

from programs.cli import ConfigError, run
from reports import dataset
from reports.__main__ import main
from suites.price import analysis, sweep
from suites.price.run import Price
from suites.session.suite import Request
from tianji.config import NetworkConfig, PPOConfig, TrainConfig
from tianji.environments.making import describe
from tianji.messages import Done, Report
from tianji.worlds import lockstep

KEPT = Path(__file__).parents[3] / "results" / "price"


def request(**more):
    given = {"profile": "standard", "systems": None, "workloads": None, "blocks": None, "first_seed": 700}
    return Request(**given | {"once": True, "testbed": None, "cores": (0, 1)} | more)


def test_every_lag_and_learning_rate_has_the_same_seeds():
    suite = Price()
    plan, skipped = suite.plan(request())
    assert not skipped
    assert len(plan.cells) == 2 * 4 * 4 * 30
    seeds = collections.defaultdict(set)
    for cell in plan.cells:
        assert cell.options["world"] == "lockstep"
        assert not cell.replica
        seeds[cell.workload, cell.system, cell.options["ppo.learning_rate"]].add((cell.block, cell.seed))
    assert len(seeds) == 2 * 4 * 4
    assert set(map(frozenset, seeds.values())) == {frozenset((n, 700 + n) for n in range(30))}
    rates = {rate for workload, _, rate in seeds if workload == "cartpole-ppo-zoo"}
    assert rates == {0.00025, 0.0005, 0.001, 0.002}
    # What a run is told is what its manifest says.
    cell = next(one for one in plan.cells if one.system.endswith("4") and one.options["ppo.learning_rate"] == 0.002)
    configuration = suite.work(plan, cell).manifest["configuration"]
    assert "stop_at_goal" not in configuration
    system = configuration["system"]
    assert (system["world"], system["ppo"]["learning_rate"]) == ("lockstep", 0.002)
    assert system["discipline"] == {"name": "admitted-in-order", "eta": 4}


def test_other_algorithms_are_refused():
    with pytest.raises(ConfigError, match=r"suite price varies ppo.learning_rate, and cartpole-impala trains impala"):
        Price().plan(request(workloads=("cartpole-impala",)))


@pytest.mark.parametrize("lag", [int(system.rpartition("-")[2]) for system in sweep.SYSTEMS])
def test_every_sample_is_exactly_as_old_as_its_lag_in_lockstep(lag):
    config = TrainConfig(
        env="CartPole-v1",
        actors=2,
        envs_per_actor=4,
        chunk_slots=12,
        stop_steps=9 * 256,
        network=NetworkConfig(kind="mlp-separate", hidden=(8,)),
        ppo=PPOConfig(rollout_steps=32, minibatch_size=256, epochs=20),
        discipline={"name": "admitted-in-order", "eta": lag},
    )
    ages = {}

    def on_message(message):
        if isinstance(message, Report) and message.role.startswith("learner"):
            ages.update(message.histograms["age_rounds"])
        return "steps" if isinstance(message, Done) else None

    lockstep.run(config, describe(config.env), on_message)
    # Two chunks a round. The first rounds have no older weights.
    assert ages == {**dict.fromkeys(range(lag), 2), lag: 2 * (9 - lag)}


def test_ratios_are_of_pairs_at_one_learning_rate(tmp_path):
    """The seed decides most of the steps, and the ratio is of runs with the same seed and learning rate."""

    def steps(lag, rate, seed):
        # At the higher rate the fifth seed never gets there with a lag of 4.
        return None if (lag, rate, seed) == (4, 0.004, 4) else round(1000 * 1.1**seed * (1 + 100 * lag * rate) / (1000 * rate))

    data = dataset.load([priced.make(tmp_path, steps)])
    assert {row["unit"] for row in data.rows} <= {"steps", "ratio", "share", "rounds"}
    for rate in (0.001, 0.004):
        rows = [row for row in data.rows if (row["options"] or {}).get("ppo.learning_rate") == rate]
        ratios = {
            row["baseline"]: row
            for row in rows
            if row["metric"] == "steps_to_threshold_ratio" and row["threshold_kind"] == "evaluated"
        }
        for lag in (1, 4):
            row = ratios[f"tianji-admitted-in-order-{lag}"]
            assert row["value"] == pytest.approx(1 + 100 * lag * rate, rel=0.01)
            censored = int((lag, rate) == (4, 0.004))
            assert (row["n"], row["censored"]) == (5 - censored, censored)
            assert (row["ci_low"] is None) == bool(censored)
            assert math.isfinite(row["value"])


def test_the_price_is_the_slope_through_zero_and_its_interval_is_by_blocks():
    def pair(block, product, log_ratio):
        return analysis.Pair(("session", block), product, log_ratio)

    exact = [pair(block, lag * rate, 0.3 * lag * rate) for block in range(6) for lag in (1, 2, 4) for rate in (0.5, 2.0)]
    fitted = analysis.price(exact)
    assert (fitted.value, fitted.low, fitted.high) == pytest.approx((0.3, 0.3, 0.3))
    assert fitted.n == 6
    # Blocks differ: more pairs in each of them do not make the interval narrower.
    own = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    few = [pair(block, 1.0, own[block]) for block in range(6)]
    apart = analysis.price(few)
    assert apart.value == pytest.approx(0.35)
    assert apart.low < 0.25 < 0.45 < apart.high
    assert analysis.price(few * 10).low == pytest.approx(apart.low)
    assert analysis.price(few[:4]).low is None
    assert analysis.price([]).value is None


def test_the_command_prints_the_price_of_each_workload(tmp_path, capsys):
    def steps(lag, rate, seed):
        return None if (lag, rate, seed) == (4, 0.004, 4) else round(1000 * 1.1**seed * math.exp(0.02 * lag * rate / 0.001))

    place = priced.make(tmp_path / "runs", steps)
    assert run("tianji-report", main, ["price", str(place)]) == 0
    said = capsys.readouterr().out
    cells = next([cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if "0.02" in line)
    # Two lags at two rates of five seeds, less one that never arrived.
    assert cells[2] == "0.020"
    assert cells[4:] == ["5", "19", "1"]
    assert run("tianji-report", main, ["price", str(place), "--first", "2"]) == 0
    cells = next([c.strip() for c in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines() if "0.02" in line)
    assert cells[4:] == ["2", "8", "0"]
    assert "--first 0: blocks are counted from 1" in refusal(
        capsys, run, "tianji-report", main, ["price", str(place), "--first", "0"]
    )
    bundles.make(tmp_path / "other", suite="convergence")
    assert "no runs of the price suite that can be paired" in refusal(
        capsys, run, "tianji-report", main, ["price", str(tmp_path / "other")]
    )


def test_kept_runs_without_lag_do_not_depend_on_the_correction():
    """As docs/notebook/2026-11-disciplines.md says: nothing is corrected there."""
    rate = "options.ppo.learning_rate"
    told = {}
    for name in ("cartpole-ppo-zoo", "cartpole-ppo-decoupled"):
        table = parquet.read_table(
            KEPT / f"{name}.parquet",
            columns=["block", rate, "event", "steps", "length", "return", "returns"],
            filters=[("system", "==", "tianji-admitted-in-order-0"), ("event", "in", ["episode", "evaluation"])],
        )
        rows = table.to_pylist()
        assert len({(row["block"], row[rate]) for row in rows}) == 120
        told[name] = sorted(map(repr, rows))
    assert told["cartpole-ppo-zoo"] == told["cartpole-ppo-decoupled"]
