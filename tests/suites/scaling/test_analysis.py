"""The scaling suite's arithmetic, against made-up sessions whose numbers are known beforehand."""

import dataclasses
import json
import math
from statistics import fmean

import numpy as np
import pytest
import scaling_bundles as made
from scaling_bundles import LAWS, Setting
from scipy import stats

from suites.records import archive, bundle
from suites.records.events import Counter, Episode, FirstStep, NodeUsage, Progress
from suites.scaling import analysis, ratios
from suites.statistics.intervals import interquartile_mean

COUNTS = (1, 2, 3, 4, 6, 8)
SYSTEMS = ("tianji", "tianji-one-learner", "xingtian", "rllib", "tianji-copies", "xingtian-copies")
PAIRS = (("tianji", "xingtian"), ("tianji", "rllib"), ("tianji", "tianji-again"))
BLOCKS = range(5)


def read(folder):
    return [analysis.understand(bundle.read(path)) for path in bundle.find([folder])]


def summarise(runs, pairs=PAIRS):
    laws = ratios.fit_laws(runs)
    return ratios.summarise(runs, lambda labels: [p for p in pairs if labels.issuperset(p)], laws)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = made.session(tmp_path_factory.mktemp("session"), systems=SYSTEMS, counts=COUNTS)
    for block in BLOCKS:
        made.write(folder, "tianji", 8, block, Setting(), replica=1)
    return read(folder)


@pytest.fixture(scope="module")
def rows(runs):
    return summarise(runs)


def find(rows, system, metric, nodes=8, baseline=None, kind=None):
    key = (system, metric, nodes, baseline, kind)
    (row,) = [
        r for r in rows if (r["system"], r["metric"], r["nodes"], r["baseline"], r["threshold_kind"]) == key
    ]  # There is one and no more.
    return row


def truth(system, nodes):
    return [made.rate(system, nodes, block) for block in BLOCKS]


def test_rates_are_those_of_the_steady_window_alone(runs):
    """The totals grow at half the pace at first: over the whole run they would be 7 % lower."""
    for run in runs:
        m = run.bundle.manifest
        expected = made.rate(m.system, m.nodes, m.block)
        assert run.metrics["unique_consumption_samples_per_s"] == pytest.approx(expected, rel=1e-9)
        assert run.metrics["consumption_samples_per_s"] == pytest.approx(made.EPOCHS * expected, rel=1e-9)
        assert run.metrics["production_steps_per_s"] == pytest.approx(1.03 * expected, rel=1e-9)


def test_the_window_ends_with_the_process_that_fell_silent_first(runs):
    """Recomputed from the raw lines, without the project's own code."""
    run = next(r for r in runs if (r.label, r.nodes) == ("tianji", 6))
    events = [json.loads(line) for line in (run.bundle.path / "events.jsonl").read_text().splitlines()]
    last = {e["role"]: e["ns"] for e in events if e["event"] == "progress"}
    first = next(e["ns"] for e in events if e["event"] == "first_step")
    assert run.window_s == pytest.approx((min(last.values()) - first) / 1e9 - 2.0)
    assert len(set(last.values())) > 1


@pytest.mark.parametrize(("measured_s", "begins_s"), [(8.0, 2.0), (30.0, 6.0)])
def test_the_window_begins_after_two_seconds_or_a_fifth(tmp_path, measured_s, begins_s):
    path = made.write(tmp_path, "tianji", 1, 0, Setting(measured_s=measured_s, trains=False))
    run = analysis.understand(bundle.read(path))
    last = [e.ns for e in run.bundle.events if isinstance(e, Progress) and e.role == "learner g0"][-1]
    assert run.window_s == pytest.approx((last - made.START) / 1e9 - begins_s, abs=made.EVERY_S)
    assert run.window_s <= measured_s - begins_s


def altered(tmp_path, change):
    path = made.write(tmp_path, "tianji", 2, 0, Setting(trains=False))
    whole = bundle.read(path)
    events = [changed for event in whole.events if (changed := change(event)) is not None]
    return bundle.Bundle(whole.manifest, events, whole.path)


def test_who_told_late_had_done_nothing_at_the_first_step(tmp_path):
    """A process that is first heard of in the window is taken to have worked evenly since the first step."""

    def late(event):
        told = isinstance(event, Progress) and event.role == "learner g1"
        return None if told and event.ns < made.START + 4 * made.SECOND else event

    run = analysis.understand(altered(tmp_path, late))
    rate = made.rate("tianji", 2, 0) / 2
    heard_s = min(t for t in (0.13 + made.EVERY_S * i for i in range(30)) if t >= 4)
    done_at_2 = rate * (heard_s - made.KINK_S / 2) * 2 / heard_s
    end_s = run.window_s + 2
    grown = rate * (end_s - made.KINK_S / 2) - done_at_2
    assert run.metrics["unique_consumption_samples_per_s"] == pytest.approx(rate + grown / run.window_s, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda e: None if isinstance(e, Progress) else e, "no process reported progress"),
        (lambda e: None if isinstance(e, FirstStep) else e, "no first environment step"),
        (
            lambda e: None if getattr(e, "role", "") == "actor g1.a0" and e.ns > made.START + 2.2 * made.SECOND else e,
            "reported progress 1x in the steady window.* when actor g1.a0 reported for the last time",
        ),
    ],
)
def test_what_says_too_little_is_refused_by_name(tmp_path, change, text):
    with pytest.raises(ValueError, match=text) as refused:
        analysis.understand(altered(tmp_path, change))
    assert str(refused.value).startswith("cartpole-ppo-nodes.weak.nodes2.b0.tianji: ")
    assert "/" not in str(refused.value)


def test_a_bundle_must_say_how_its_work_grows(tmp_path):
    path = made.write(tmp_path, "tianji", 1, 0, Setting(), scaling=None)
    with pytest.raises(ValueError, match="neither weak nor strong"):
        analysis.understand(bundle.read(path))


def test_what_nodes_used(runs):
    run = next(r for r in runs if (r.label, r.nodes, r.bundle.manifest.block) == ("rllib", 4, 2))
    handed = LAWS["rllib"].overhead * made.PAYLOAD_PER_SAMPLE * made.rate("rllib", 4, 2)
    first, *others = run.rates
    assert [rate["node"] for rate in run.rates] == [0, 1, 2, 3]
    assert first["socket_bytes_per_s"] == pytest.approx(handed * 2 / 5, rel=1e-3)
    assert {round(o["socket_bytes_per_s"] / handed, 3) for o in others} == {0.2}
    values = {
        "cpu_budget_share": 0.9,
        "throttled_share": 0.05,
        "daemons_cores": 4 * 0.04,
        "control_bytes_per_s": 300,
        "socket_bytes_per_s": handed / 4,
        "wire_sent_bytes_per_s": 1.05 * handed / 4,
        "wire_received_bytes_per_s": 1.05 * handed / 8,
        "wire_busiest_bytes_per_s": 1.05 * handed * 2 / 5,
        "learner_busy_share": LAWS["rllib"].busy,
        "testbed_s": 5.0,
        "check_s": 2.0,
        "setup_s": 4.0,
    }
    assert {name: run.metrics[name] for name in values} == pytest.approx(values, rel=1e-3)


def test_socket_bytes_are_held_against_all_payload_of_the_whole_run(runs):
    for run in runs:
        overhead = run.metrics["socket_bytes_per_payload_byte"]
        system = run.bundle.manifest.system
        if run.nodes == 1 or system.endswith("-copies"):
            assert overhead is None
        else:
            assert overhead == pytest.approx(LAWS[system].overhead, rel=1e-4)


def test_what_is_not_known_of_one_node_is_not_known_of_all(tmp_path):
    def blind(event):
        gone = isinstance(event, NodeUsage) and event.node == 1
        return bundle.msgspec.structs.replace(event, socket_bytes=None, cpu_s=None) if gone else event

    run = analysis.understand(altered(tmp_path, blind))
    assert run.metrics["socket_bytes_per_payload_byte"] is None
    assert run.rates[1]["cpu_budget_share"] is None
    uncounted = analysis.understand(altered(tmp_path / "b", lambda e: None if isinstance(e, Counter) else e))
    assert uncounted.metrics["socket_bytes_per_payload_byte"] is None


def test_throughput_is_an_interquartile_mean_over_blocks(rows):
    for system in SYSTEMS:
        for nodes in COUNTS:
            row = find(rows, system, "unique_consumption_samples_per_s", nodes)
            assert row["value"] == pytest.approx(interquartile_mean(truth(system, nodes)))
            assert (row["n"], row["scaling"], row["testbed"], row["unit"]) == (5, "weak", "netns", "samples/s")
            least, most = min(truth(system, nodes)), max(truth(system, nodes))
            # Of five values the interval may end at the outermost, but for the last bit.
            assert least * (1 - 1e-12) <= row["ci_low"] <= row["value"] <= row["ci_high"] <= most * (1 + 1e-12)


def gmean(top, bottom):
    return stats.gmean(np.array(top) / np.array(bottom))


@pytest.mark.parametrize("system", ["tianji", "xingtian"])
def test_speed_up_and_efficiency_are_over_its_own_on_one_node_within_blocks(rows, system):
    for name in ("unique_consumption", "consumption", "production"):
        speedup = find(rows, system, f"{name}_speedup_ratio", baseline=ratios.SELF)
        assert speedup["value"] == pytest.approx(gmean(truth(system, 8), truth(system, 1)))
        efficiency = find(rows, system, f"{name}_efficiency_ratio", baseline=ratios.SELF)
        for part in ("value", "ci_low", "ci_high"):
            assert efficiency[part] == pytest.approx(speedup[part] / 8)
    # The pace of blocks differs by a tenth, which an unpaired interval would hold.
    assert speedup["ci_high"] / speedup["ci_low"] < 1.1
    expected = stats.ttest_1samp(np.log(np.array(truth(system, 8)) / np.array(truth(system, 1))), 0).confidence_interval(0.95)
    found = find(rows, system, "unique_consumption_speedup_ratio", baseline=ratios.SELF)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert not [r for r in rows if r["baseline"] == ratios.SELF and r["nodes"] == 1]


def test_shares_of_copies_are_of_the_systems_own(rows):
    for system, copies in (
        ("tianji", "tianji-copies"),
        ("tianji-one-learner", "tianji-copies"),
        ("xingtian", "xingtian-copies"),
    ):
        for prefix in ("", "production_", "consumption_"):
            share = find(rows, system, f"{prefix}copies_share_ratio", 6, copies)
            assert share["value"] == pytest.approx(gmean(truth(system, 6), truth(copies, 6)))
    shared = {r["system"] for r in rows if r["metric"] == "copies_share_ratio"}
    assert shared == {"tianji", "tianji-one-learner", "xingtian"}


def test_both_readings_of_the_published_sentence(rows):
    t8, t1, x8, x1 = (truth(s, n) for s in ("tianji", "xingtian") for n in (8, 1))
    direct = find(rows, "tianji", "unique_consumption_ratio", baseline="xingtian")["value"]
    assert direct == pytest.approx(gmean(t8, x8))
    own = find(rows, "tianji", "unique_consumption_speedup_ratio", baseline=ratios.SELF)["value"]
    relative = find(rows, "tianji", "speedup_ratio", baseline="xingtian")["value"]
    theirs = find(rows, "xingtian", "unique_consumption_speedup_ratio", baseline=ratios.SELF)["value"]
    assert relative == pytest.approx(own / theirs) == pytest.approx(gmean(t8, t1) / gmean(x8, x1))
    again = find(rows, "tianji", "unique_consumption_ratio", baseline="tianji-again")
    assert (again["value"], again["n"]) == (pytest.approx(1), 5)


def test_times_to_the_threshold_and_bounds_where_one_side_never_got_there(rows):
    def seconds(system, nodes):
        return [made.seconds_to_threshold(system, nodes, block) for block in BLOCKS]

    for kind in ("evaluated", "training"):
        time = find(rows, "tianji", "time_to_threshold_s", kind=kind)
        assert time["value"] == pytest.approx(interquartile_mean(seconds("tianji", 8)), rel=1e-6)
        ratio = find(rows, "tianji", "time_to_threshold_ratio", baseline="xingtian", kind=kind)
        assert ratio["value"] == pytest.approx(gmean(seconds("xingtian", 8), seconds("tianji", 8)), rel=1e-6)
        # RLlib takes 150 s on one node and was watched for 120.
        lost = find(rows, "rllib", "time_to_threshold_s", 1, kind=kind)
        assert (lost["value"], lost["n"], lost["censored"]) == (None, 5, 5)
        assert find(rows, "rllib", "success_rate", 1, kind=kind)["value"] == 0
        bound = find(rows, "tianji", "time_to_threshold_ratio_at_least", 1, "rllib", kind)
        assert bound["value"] == pytest.approx(gmean([120] * 5, seconds("tianji", 1)), rel=1e-6)
        assert bound["ci_low"] is None
        assert find(rows, "tianji", "time_to_threshold_ratio", 1, "rllib", kind)["censored"] == 5
    assert not [r for r in rows if r["system"].endswith("-copies") and r["threshold_kind"]]


def test_the_law_is_found_again(rows, runs):
    for system in ("tianji", "tianji-one-learner", "xingtian", "rllib"):
        sigma, kappa = (find(rows, system, f"usl_{name}", None) for name in ("contention", "coherence"))
        assert sigma["ci_low"] <= LAWS[system].sigma <= sigma["ci_high"]
        assert kappa["ci_low"] <= LAWS[system].kappa <= kappa["ci_high"]
        assert sigma["n"] == 5
    assert not [r for r in rows if r["metric"].startswith("usl") and r["system"].endswith(("-copies", "-again"))]
    laws = ratios.fit_laws(runs)
    curve = ratios.curves(rows, laws)
    here = curve[(curve["system"] == "xingtian") & (curve["nodes"] == 8)].iloc[0]
    assert here["usl"] == pytest.approx(fmean([here["usl"], here["value"]]), rel=0.05)
    assert curve[curve["system"] == "tianji-copies"]["usl"].isna().all()


def test_few_numbers_of_nodes_leave_a_null_and_a_reason(tmp_path):
    runs = read(made.session(tmp_path, systems=("tianji",), counts=(1, 2, 8), blocks=1))
    row = find(summarise(runs), "tianji", "usl_contention", None)
    assert (row["value"], row["ci_low"], row["n"]) == (None, None, 1)
    frame = ratios.law_points(ratios.fit_laws(runs))
    assert frame["reason"].tolist() == ["a fit needs 5 numbers of nodes; there are 3"]
    assert find(summarise(runs), "tianji", "unique_consumption_speedup_ratio", baseline=ratios.SELF)["ci_low"] is None


def test_nothing_crosses_on_one_node_and_it_is_said(rows):
    row = find(rows, "tianji", "socket_bytes_per_payload_byte", 1)
    assert (row["value"], row["n"]) == (None, 0)


def test_blocks_without_a_partner_are_left_out(tmp_path):
    made.session(tmp_path, systems=("tianji", "xingtian"), counts=(1, 8), blocks=2)
    made.write(tmp_path, "tianji", 8, 7, Setting())
    runs = read(tmp_path)
    rows = summarise(runs)
    assert find(rows, "tianji", "unique_consumption_samples_per_s")["n"] == 3
    assert find(rows, "tianji", "unique_consumption_speedup_ratio", baseline=ratios.SELF)["n"] == 2
    assert find(rows, "tianji", "unique_consumption_ratio", baseline="xingtian")["n"] == 2


@pytest.mark.parametrize(
    ("testbed", "cores", "own"), [("netns", 0.2, True), ("netns", None, False), ("local", 0.2, False), ("ray", None, True)]
)
def test_only_nodes_with_cores_of_their_own_have_a_speed_up_and_a_law(tmp_path, testbed, cores, own):
    setting = Setting(testbed=testbed, regime={"id": "cpu-bound", "cores": cores, "link_bits_per_s": None}, trains=False)
    made.session(tmp_path, setting, systems=("tianji", "xingtian", "tianji-copies"), counts=(1, 2, 4, 6, 8), blocks=1)
    runs = read(tmp_path)
    rows = summarise(runs)
    over_one = {r["metric"] for r in rows if r["baseline"] == ratios.SELF or r["metric"].startswith(("speedup", "usl"))}
    assert bool(over_one) is own
    assert bool(ratios.fit_laws(runs)) is own
    # What is measured on as many nodes is comparable all the same.
    assert find(rows, "tianji", "copies_share_ratio", baseline="tianji-copies")["n"] == 1
    assert find(rows, "tianji", "unique_consumption_ratio", baseline="xingtian")["n"] == 1


def test_weak_and_strong_scaling_and_testbeds_are_never_mixed(tmp_path):
    for place, setting in enumerate((Setting(), Setting(scaling="strong"), Setting(testbed="local"))):
        made.session(tmp_path / str(place), setting, systems=("tianji",), counts=(1,), blocks=1)
    rows = [r for r in summarise(read(tmp_path)) if r["metric"] == "unique_consumption_samples_per_s"]
    assert {(r["scaling"], r["testbed"], r["n"]) for r in rows} == {
        ("weak", "netns", 1),
        ("strong", "netns", 1),
        ("weak", "local", 1),
    }


def test_one_workload_in_two_regimes_is_refused(tmp_path):
    made.session(tmp_path / "a", systems=("tianji",), counts=(1,), blocks=1)
    faster = Setting(regime={"id": "cpu-bound", "cores": 0.4, "link_bits_per_s": None})
    made.session(tmp_path / "b", faster, systems=("tianji",), counts=(2,), blocks=1)
    with pytest.raises(ValueError, match="different regimes"):
        summarise(read(tmp_path))


@pytest.mark.parametrize(
    ("label", "labels", "copies"),
    [
        ("tianji", {"tianji-copies", "xingtian-copies"}, "tianji-copies"),
        ("tianji-curve", {"tianji-copies"}, "tianji-copies"),
        ("tianji-curve", {"tianji-copies", "tianji-curve-copies"}, "tianji-curve-copies"),
        ("rllib", {"tianji-copies"}, None),
        ("tianjiang", {"tianji-copies"}, None),
    ],
)
def test_whose_copies(label, labels, copies):
    assert ratios.copies_of(label, labels) == copies


def test_a_system_that_consumed_nothing_has_no_ratio(tmp_path):
    laws = {"tianji": LAWS["tianji"], "xingtian": dataclasses.replace(LAWS["xingtian"], single=0.0, seconds=math.inf)}
    for system in laws:
        for nodes in (1, 2):
            made.write(tmp_path, system, nodes, 0, Setting(trains=False), laws)
    rows = summarise(read(tmp_path))
    assert find(rows, "xingtian", "unique_consumption_samples_per_s", 2)["value"] == 0
    row = find(rows, "tianji", "unique_consumption_ratio", 2, "xingtian")
    assert (row["value"], row["n"], row["censored"]) == (None, 0, 1)


@pytest.mark.parametrize("trains", [True, False])
def test_a_sealed_run_says_the_same_and_keeps_episodes_only_where_they_count(tmp_path, trains):
    place = made.write(tmp_path / "made", "tianji", 2, 0, Setting(trains=trains))
    episode = bundle.encode_event(Episode(10**9, 200.0, 200, 400)) + b"\n"
    with (place / "events.jsonl").open("ab") as file:
        file.write(episode)
    archive.seal(tmp_path / "made", tmp_path / "one.parquet")
    (kept,) = archive.read(tmp_path / "one.parquet")
    assert any(isinstance(event, Episode) for event in kept.events) is trains
    before, after = analysis.understand(bundle.read(place)), analysis.understand(kept)
    assert after.metrics == before.metrics
    assert after.rates == before.rates
    assert (after.learning is not None) is (before.learning is not None) is trains
    if trains:
        assert after.learning.crossings == before.learning.crossings
