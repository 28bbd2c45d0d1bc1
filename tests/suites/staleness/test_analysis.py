"""The staleness suite, from real training to a report."""

import collections
import json

import numpy as np
import pytest
import report_pages
from hypothesis import given
from hypothesis import strategies as st

from reports.__main__ import main as report
from suites.__main__ import main as bench
from suites.__main__ import parser as cli
from suites.records import bundle
from suites.records.events import Counter, Histogram
from suites.session.command import request
from suites.staleness.analysis import quantile
from suites.staleness.run import Staleness

# What its fixtures make is made once.
pytestmark = [pytest.mark.xdist_group("staleness"), pytest.mark.long(why="whole runs of real processes")]


@pytest.fixture(scope="module")
def session(tiny_module, tmp_path_factory):
    out = tmp_path_factory.mktemp("staleness") / "session"
    systems = "tianji,tianji-relaxed,tianji-one-sided,tianji-unbalanced,tianji-as-published"
    arguments = ["run", "staleness", "--workloads", str(tiny_module), "--systems", systems, "--seeds", "1", "--out", str(out)]
    assert bench(arguments) == 0
    return out


@pytest.mark.timeout(240)
def test_every_variant_trains_and_says_how_stale_it_was(session):
    cells = {b.path.name.rpartition(".")[2]: b for b in map(bundle.read, bundle.find([session]))}
    assert set(cells) == {
        "tianji",
        "tianji-again",
        "tianji-relaxed",
        "tianji-one-sided",
        "tianji-unbalanced",
        "tianji-as-published",
    }
    for name, cell in cells.items():
        assert cell.manifest.suite == "staleness"
        counters = {e.name: e.value for e in cell.events if isinstance(e, Counter)}
        found = {e.name: e.counts for e in cell.events if isinstance(e, Histogram)}
        assert sum(found["learner_insertion_lag_versions"].values()) == counters["learner_chunks_arrived"], name
        assert counters["learner_consumption_ratio"] <= counters["learner_consumption_ratio_target"] == 2
        strict = name in ("tianji", "tianji-again", "tianji-as-published")
        assert (set(found["learner_age_versions"]) == {0}) == strict, name
        if name == "tianji-as-published":
            assert counters["learner_means_adopted"] == counters["root_means_published"] > 0
            assert cell.manifest.deviations
        if not strict:
            assert any("asynchronous PPO" in line for line in cell.manifest.deviations), name
        # 1,024 steps of 128 a round, 2 epochs of 2 minibatches: a round is 4 versions.
        assert counters["learner_staleness_max_versions"] == 4 * counters["learner_staleness_max_rounds"]
        assert sum(found["learner_insertion_lag_rounds"].values()) == counters["learner_chunks_arrived"], name
        if name == "tianji-relaxed":
            assert max(found["learner_age_rounds"]) <= 16


def test_the_report_draws_them_beside_each_other(session, tmp_path):
    out = tmp_path / "report"
    assert report(["build", str(session), "--out", str(out)]) == 0
    rows = [r for r in json.loads((out / "summary.json").read_text())["rows"] if r["suite"] == "staleness"]
    lags = {r["system"]: r["value"] for r in rows if r["metric"] == "insertion_lag_p99_rounds"}
    assert lags["tianji"] == 0 < lags["tianji-unbalanced"]
    assert {r["metric"] for r in rows} >= {"age_p50_versions", "consumption_ratio", "steps_to_threshold", "chunks_evicted"}
    (drawn,) = (out / "charts").glob("staleness-*.js")
    for words in ("one-sided", "TianJi as published", "no balance"):
        assert words in drawn.read_text()
    assert "Actors wait" in report_pages.read(out)
    shares = {(r["system"], r["metric"]): r["value"] for r in rows if r["metric"].endswith("_share")}
    # In every strict round, actors wait for weights. Only a Root has a barrier.
    assert shares["tianji", "actor_waits_for_weights_share"] > 0
    assert shares["tianji-relaxed", "learner_waits_for_barrier_share"] == 0
    assert all(0 <= share <= 1 for share in shares.values())
    series = (out / "series" / "staleness.csv").read_text().splitlines()
    assert series[0] == "workload,system,session,block,kind,unit,value,chunks,machine,options"
    assert len(series) > 10


def test_what_a_workload_has_no_use_for_is_left_out_and_said(tmp_path, capsys):
    options = cli().parse_args(["run", "staleness", "--profile", "standard", "--out", str(tmp_path / "out")])
    plan, skipped = Staleness().plan(request(options, Staleness()))
    of = {name: {cell.system for cell in plan.cells if cell.workload == name} for name in plan.workloads}
    assert "tianji-relaxed" in of["cartpole-ppo-zoo"]
    assert of["cartpole-impala"] == {"tianji", "tianji-one-sided", "tianji-unbalanced"}
    assert any("tianji-relaxed cannot train on cartpole-dqn-zoo" in line for line in skipped)


def test_seeds_count_up_from_the_first(tmp_path):
    options = cli().parse_args(["run", "staleness", "--seeds", "3", "--first-seed", "100", "--out", str(tmp_path / "out")])
    plan, _ = Staleness().plan(request(options, Staleness()))
    assert {cell.block: cell.seed for cell in plan.cells} == {0: 100, 1: 101, 2: 102}


@given(st.lists(st.integers(0, 50), min_size=1), st.sampled_from([0.5, 0.99]))
def test_quantiles_are_those_of_the_list(values, share):
    counts = collections.Counter(values)
    assert quantile(counts, share) == np.quantile(values, share, method="inverted_cdf")


def test_of_nothing_there_is_no_quantile():
    assert quantile(collections.Counter(), 0.5) is None
