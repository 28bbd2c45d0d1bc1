"""Ratios and bounds from bundles that are made up event by event."""

import dataclasses
from pathlib import Path

import pytest

from suites.convergence.analysis import overlap_bound, summarise, understand
from suites.records.bundle import SCHEMA, Bundle, Manifest
from suites.records.events import Counter, Episode, Evaluation, FirstStep, Snapshot, Usage

SECOND = 10**9
WORKLOAD = {
    "budget_steps": 400,
    "thresholds": {"training": 90.0, "evaluated": 90.0},
    "evaluation": {"averaged": 1},
}


def make(system, block, reached_at, step_s=1.0, more=(), averaged=1, session="s"):
    """Four snapshots, 100 steps apart; the policy is good from the snapshot number `reached_at` on (None: never)."""
    manifest = Manifest(
        schema=SCHEMA,
        status="completed",
        suite="convergence",
        profile="smoke",
        workload="w-x",
        system=system,
        system_title=system,
        seed=block,
        replica=0,
        block=block,
        position=0,
        session=session,
        cores=2,
        configuration={"workload": WORKLOAD | {"evaluation": {"averaged": averaged}}},
        deviations=[],
        environment={},
        phases_s={},
    )
    at = [int(i * step_s * SECOND) for i in range(5)]
    events = [Usage(0, 1.0, 5), FirstStep(0), Usage(at[4], 9.0, 7), *more]
    for i in range(5):
        good = reached_at is not None and i >= reached_at
        events.append(Snapshot(at[i], i * 100, i, f"{i}"))
        events.append(Evaluation(0, i * 100, i, "curve", [100.0 if good else 10.0] * 3))
        events += [Episode(at[i] + k, 100.0 if good else 10.0, 1, i * 100) for k in range(100)]
    return understand(Bundle(manifest, events, Path(f"{system}{block}")))


def find(rows, **wanted):
    (found,) = [row for row in rows if all(row[k] == v for k, v in wanted.items())]
    return found


def test_crossings_are_intervals_with_steps_and_core_seconds():
    run = make("a", 0, 2)
    crossing = run.crossings["evaluated"]
    assert (crossing.seconds_before, crossing.seconds, crossing.steps) == (1.0, 2.0, 200)
    assert crossing.core_seconds == pytest.approx(4.0)
    # 90 of 100 episodes must be good: the ninetieth after the second snapshot (they come a nanosecond apart, from 10).
    assert run.crossings["training"].steps == 200
    assert run.production_steps_per_s == pytest.approx(100.0)


def test_an_evaluated_return_is_a_mean_of_snapshots_and_crosses_at_the_last_of_them():
    assert make("a", 0, 4, averaged=2).crossings["evaluated"] is None
    crossing = make("a", 0, 2, averaged=2).crossings["evaluated"]
    assert (crossing.seconds_before, crossing.seconds, crossing.steps) == (2.0, 3.0, 300)
    # A workload that does not say takes ten; this run has five snapshots.
    run = make("a", 0, 0)
    del run.bundle.manifest.configuration["workload"]["evaluation"]["averaged"]
    assert understand(run.bundle).crossings["evaluated"] is None


def test_a_run_that_had_stopped_at_its_return_is_judged_by_the_rule_of_then():
    """It was played no further than three in a row were confirmed, so a mean of ten is not known of it."""
    more = [Evaluation(0, steps, steps // 100, "confirm", [100.0] * 3) for steps in (200, 300)]
    run = make("a", 0, 2, more=more)
    configuration = run.bundle.manifest.configuration
    configuration["workload"]["evaluation"] = {"in_a_row": 3}
    assert understand(run.bundle).crossings["evaluated"] is None
    configuration["stop_at_goal"] = True
    assert understand(run.bundle).crossings["evaluated"].steps == 200
    configuration["workload"]["evaluation"] = {"in_a_row": 4}
    assert understand(run.bundle).crossings["evaluated"] is None


def test_seconds_at_a_number_of_steps_are_the_runs_own():
    run = make("a", 0, None, step_s=3.0)
    assert (run.measured_steps, run.seconds_at(150), run.seconds_at(900)) == (400, pytest.approx(4.5), pytest.approx(12.0))
    assert run.total.seconds_at(150) == pytest.approx(4.5)


def test_the_horizon_of_a_restricted_mean_is_common_in_steps_and_seconds_are_each_systems_own():
    """A quick system that misses the return takes no time from a slow one to get there."""
    runs = [make("a", 0, 1), make("a", 1, None), make("b", 0, 3, step_s=10.0), make("b", 1, 2, step_s=10.0)]
    rows = summarise(runs, [("a", "b")])
    mean = find(rows, metric="restricted_mean_time_ratio", threshold_kind="evaluated")
    # 400 steps: 1 and 4 s of a; 30 and 20 s of b, of which a horizon of a's 4 s would leave 4 and 4.
    assert mean["value"] == pytest.approx(50 / 5, rel=1e-6)
    horizons = {
        row["system"]: row["value"]
        for row in rows
        if row["metric"] == "restricted_horizon_s" and row["threshold_kind"] == "evaluated"
    }
    assert horizons == {"a": pytest.approx(4, rel=1e-6), "b": pytest.approx(40, rel=1e-6)}
    assert {row["value"] for row in rows if row["metric"] == "restricted_horizon_steps"} == {400}


def test_sessions_are_strata_of_a_ratio():
    runs = [
        make(system, block, 1, step_s=step, session=session)
        for session, step in (("one", 2.0), ("two", 8.0))
        for block in range(5)
        for system, step in (("a", 1.0 + block / 100), ("b", step))
    ]
    row = find(summarise(runs, [("a", "b")]), metric="time_to_threshold_ratio", threshold_kind="evaluated")
    # Ratios near 2 and near 8: with two sessions that differ so, little is known of a third one.
    assert row["value"] == pytest.approx(3.92, rel=0.01)
    assert row["ci_low"] < 0.1
    assert row["ci_high"] > 100


def test_weights_of_two_versions_at_one_number_of_steps_have_their_own_evaluations():
    """A learner that went back to its last state publishes at the same steps again, other weights among them."""
    more = (
        Snapshot(int(2.5 * SECOND), 200, 9, "again"),
        Evaluation(0, 200, 9, "curve", [10.0] * 3),
    )
    run = make("a", 0, 2, more=more)
    assert run.evaluated["steps"].tolist() == [200, 0, 100, 200, 300, 400]
    assert run.evaluated["mean_return"].tolist() == [10.0, 10.0, 10.0, 100.0, 100.0, 100.0]


def test_ratios_are_formed_within_blocks():
    runs = [make("a", 0, 1), make("b", 0, 2), make("a", 1, 1, step_s=10.0), make("b", 1, 2, step_s=10.0)]
    row = find(summarise(runs, [("a", "b")]), metric="time_to_threshold_ratio", threshold_kind="evaluated")
    assert (row["system"], row["baseline"], row["n"], row["censored"]) == ("a", "b", 2, 0)
    assert row["value"] == pytest.approx(2.0)


@pytest.mark.parametrize("rate", [0.0, float("nan")])
def test_a_run_that_stood_still_is_left_out_of_ratios_of_throughput(rate):
    still, moving = make("a", 0, 1), make("a", 1, 1)
    runs = [dataclasses.replace(still, production_steps_per_s=rate), moving]
    runs += [make("b", 0, 1), make("b", 1, 1)]
    row = find(summarise(runs, [("a", "b")]), metric="production_ratio", system="a")
    assert (row["n"], row["censored"]) == (1, 1)
    assert row["value"] == pytest.approx(moving.production_steps_per_s / runs[-1].production_steps_per_s)


def test_where_one_side_never_gets_there_the_ratio_is_a_bound():
    runs = [make("a", 0, 1), make("b", 0, None), make("a", 1, 1), make("b", 1, 2)]
    rows = summarise(runs, [("a", "b"), ("b", "a")])
    bound = find(rows, metric="time_to_threshold_ratio_at_least", threshold_kind="evaluated", system="a")
    assert (bound["n"], bound["ci_low"]) == (2, None)
    assert bound["value"] == pytest.approx((4.0 * 2.0) ** 0.5, rel=1e-6)
    mirrored = find(rows, metric="time_to_threshold_ratio_at_most", threshold_kind="evaluated", system="b")
    assert mirrored["value"] == pytest.approx(1 / bound["value"])
    plain = find(rows, metric="time_to_threshold_ratio", threshold_kind="evaluated", system="a")
    assert (plain["n"], plain["censored"]) == (1, 1)


def test_times_with_compilation_stand_beside_those_without():
    compiled = [Counter(1, "compile_s", 6.0)]
    runs = [make("a", block, 1) for block in range(2)] + [make("b", block, 2, more=compiled) for block in range(2)]
    rows = summarise(runs, [("a", "b")])
    place = {"threshold_kind": "evaluated", "system": "a"}
    without = find(rows, metric="time_to_threshold_ratio", **place)
    assert without["value"] == pytest.approx(2.0), "headlines are without it"
    total = find(rows, metric="total_time_to_threshold_ratio", **place)
    assert (total["value"], total["n"]) == (pytest.approx((2.0 + 6.0) / 1.0), 2)
    times = {row["system"]: row["value"] for row in rows if row["metric"] == "total_time_to_threshold_s"}
    assert times == {"b": pytest.approx(8.0)}, "a does not compile"
    assert find(rows, metric="compile_s", system="b")["value"] == 6.0
    steps = find(rows, metric="steps_to_threshold_ratio", **place)
    assert steps["value"] == pytest.approx(2.0)


def test_where_nobody_compiles_there_are_no_totals():
    rows = summarise([make("a", 0, 1), make("b", 0, 2)], [("a", "b")])
    assert not [row for row in rows if row["metric"].startswith("total_")]


def test_a_bound_counts_compilation_too():
    runs = [make("a", 0, 1), make("b", 0, None, more=[Counter(1, "compile_s", 6.0)])]
    bound = find(
        summarise(runs, [("a", "b")]), metric="total_time_to_threshold_ratio_at_least", threshold_kind="evaluated", system="a"
    )
    assert bound["value"] == pytest.approx(4.0 + 6.0, rel=1e-6)


def test_censored_runs_stay_in_the_count():
    rows = summarise([make("a", 0, 1), make("a", 1, None)], [])
    of = {row["metric"]: row for row in rows if row["threshold_kind"] == "evaluated"}
    assert (of["time_to_threshold_s"]["n"], of["time_to_threshold_s"]["censored"]) == (2, 1)
    assert of["success_rate"]["value"] == 0.5
    assert of["expected_running_time_s"]["value"] == pytest.approx(1.0 + 4.0, rel=1e-3)
    assert of["restricted_mean_time_s"]["value"] == pytest.approx((1.0 + 4.0) / 2, rel=1e-3)


def test_no_overlap_bound_without_the_roles():
    assert overlap_bound(make("a", 0, 1)) is None


def test_mean_times_of_all_systems_are_restricted_to_one_horizon():
    """It is one in steps: the faster one takes 400 in 4 s, the slower one in 40, and got there after 10."""
    rows = summarise([make("fast", 0, 1), make("slow", 0, 1, step_s=10.0)], [])
    for system, mean, horizon in (("fast", 1.0, 4.0), ("slow", 10.0, 40.0)):
        of_it = {row["metric"]: row["value"] for row in rows if (row["system"], row["threshold_kind"]) == (system, "evaluated")}
        assert of_it["restricted_horizon_s"] == pytest.approx(horizon, rel=1e-6)
        assert of_it["restricted_mean_time_s"] == pytest.approx(mean, rel=1e-6)


def test_a_run_that_its_time_ended_before_a_tenth_of_its_budget_has_a_throughput(monkeypatch):
    monkeypatch.setitem(WORKLOAD, "budget_steps", 100_000)
    row = find(summarise([make("a", 0, None)], []), metric="production_steps_per_s")
    assert row["value"] == pytest.approx(100.0)
