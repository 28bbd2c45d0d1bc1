"""The disciplines suite: durations, the bound by round times, and a session from runs to a report."""

import itertools
import json
from dataclasses import replace

import bundles
import pytest

from reports.__main__ import main as report
from suites.__main__ import main as bench
from suites.components.unequal import Unequal
from suites.convergence.analysis import understand
from suites.disciplines import analysis, sweep
from suites.disciplines.analysis import Times, admitted_round_s, bound_per_s, expected_max, rate, streamed_round_s, times
from suites.disciplines.run import Disciplines
from suites.records import bundle
from suites.records.events import (
    Counter,
    Episode,
    Evaluation,
    FirstStep,
    Histogram,
    Process,
    Progress,
    Snapshot,
    Usage,
)
from suites.session.suite import Request
from tianji.config import IMPALAConfig, PPOConfig, TrainConfig

pytestmark = pytest.mark.xdist_group("disciplines")

S = 1_000_000_000


def test_the_expected_maximum_is_that_of_all_combinations():
    distributions = [{1: 2, 4: 1}, {2: 1, 3: 3}, {0: 1, 5: 1, 6: 2}]
    every = [[value for value, count in d.items() for _ in range(count)] for d in distributions]
    combinations = list(itertools.product(*every))
    assert expected_max(distributions) == pytest.approx(sum(map(max, combinations)) / len(combinations))
    assert expected_max([{7: 3}]) == 7


# Two actors whose fragments of 64 samples take 1 s and 3 s, and a learner that takes 0.5 s for a round of 128.
TIMES = Times(fragments_s=(1.0, 3.0), fragment_samples=64.0, fragment_max_s=3.0, round_s=0.5, round_samples=128.0)


@pytest.mark.parametrize(
    ("discipline", "seconds"),
    [
        ({"name": "strict"}, 3.5),
        ({"name": "reactor"}, 3.5),
        ({"name": "periodic", "every_updates": 8}, 1.5),
        ({"name": "admitted", "eta": 0}, 3.5),
        ({"name": "admitted-in-order", "eta": 0}, 3.5),
        # Both make 128 samples in 1.5 s.
        ({"name": "quota-free"}, 1.5 + 0.5),
        ({"name": "exactly-one-round"}, 3.0),
        ({"name": "admitted-in-order", "eta": 1}, 3.0),
        # While the slow fragment is made, the fast one's half of the round's work is done.
        ({"name": "stream"}, 3.0 + 0.25),
        ({"name": "stream", "ahead": 1}, 3.0),
        ({"name": "admitted", "eta": 4}, 1.5),
        ({"name": "relaxed"}, 1.5),
        ({"name": "free"}, 1.5),
        ({"name": "off"}, 1.5),
    ],
)
def test_the_bound_is_that_of_round_times(discipline, seconds):
    assert bound_per_s(discipline, TIMES) == pytest.approx(128 / seconds)


def test_a_straggler_takes_a_place_in_the_window():
    """Seven fast actors, of 1 s, and one of 100 s. Rounds of 8 fragments take 2 s."""
    fragments = (1.0,) * 7 + (100.0,)

    def mean(eta):
        return admitted_round_s(fragments, 2.0, 8, 8 * (eta + 1), rounds=40)

    # Nobody goes on before the slow one is there.
    assert mean(0) == pytest.approx(100 + 2)
    # While a round of 8 is trained on, seven more become complete and the window is full. The eighth begins after that.
    assert mean(1) == pytest.approx(2 + 1, rel=0.05)
    assert mean(2) == pytest.approx(2, rel=0.05)
    # Alike actors need a window of two rounds, and gain nothing from more.
    assert [admitted_round_s((2.0,) * 4, 2.0, 4, w) for w in (4, 8, 16)] == pytest.approx([4, 2, 2])


@pytest.mark.parametrize(
    ("fragments_s", "round_s"),
    [((1.0,) * 4, 2.0), ((1.0, 1.25, 1.5, 4.0), 2.0), ((1.0, 1.25, 1.5, 1.75), 4.0), ((1.0, 6.0, 6.25, 6.5), 2.0)],
)
def test_a_streamed_round_is_that_of_the_roles_on_a_simulated_clock(fragments_s, round_s):
    """Alike fragments hide nothing, a slow last one hides all but its own share, and quick ones leave a queue."""
    config = TrainConfig(
        env="CartPole-v1", algo="impala", actors=4, envs_per_actor=1, discipline="stream", impala=IMPALAConfig(rollout_steps=8)
    )
    run = Unequal(config, lambda number: itertools.repeat(fragments_s[number]), round_s)
    run.run(1000.0)
    assert 1000.0 / run.learner.rounds == pytest.approx(streamed_round_s(fragments_s, round_s), rel=0.01)


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("eta", [1, 2])
@pytest.mark.parametrize(
    ("fragments_s", "round_s"), [((0.075,) * 7 + (0.556,), 0.126), (tuple(0.1 + 0.044 * n for n in range(8)), 0.064)]
)
@pytest.mark.parametrize("name", ["admitted", "admitted-interruptible"])
def test_the_roles_use_the_whole_window_of_the_rule(name, fragments_s, round_s, eta):
    """A slow actor holds no credit that it cannot use yet: that took a place in the window, and cost up to a sixth."""
    chosen = {"name": name, "eta": eta}
    config = TrainConfig(
        env="CartPole-v1", actors=8, envs_per_actor=1, chunk_slots=12, ppo=PPOConfig(rollout_steps=32), discipline=chosen
    )
    run = Unequal(config, lambda number: itertools.repeat(fragments_s[number]), round_s)
    run.run(10.0)
    before = run.learner.rounds
    run.run(100.0)
    played_s = admitted_round_s(fragments_s, round_s, 8, 8 * (eta + 1), rounds=1000)
    assert 100.0 / (run.learner.rounds - before) == pytest.approx(played_s, rel=0.01)


def test_the_strict_system_is_another_one_where_the_default_is_relaxed():
    assert analysis.strict_system({"algo": "ppo"}) == "tianji"
    assert analysis.strict_system({"algo": "impala"}) == "tianji-strict"
    assert analysis.strict_system({"algo": "dqn"}) == "tianji-reactor"


def test_runs_whose_snapshots_were_played_have_steps_seconds_and_core_seconds(tmp_path):
    """Relaxed takes a fifth more steps in half of the time, and twice the cores."""
    for seed in range(5):
        for system, steps, seconds, cores in (("tianji", 40, 10, 1.0), ("tianji-relaxed", 48, 5, 2.0)):
            events = [FirstStep(0), Episode(1, 9.0, 9, 9), Snapshot(2, 0, 0, "f"), Evaluation(3, 0, 0, "curve", [0.0])]
            events += [Usage(0, 0.0, 10), Usage(20 * S, 20 * cores, 10), Snapshot(seconds * S, steps, 1, "g")]
            events += [Evaluation(21 * S, steps, 1, "curve", [30.0])]
            bundles.make(
                tmp_path, name=f"{system}-{seed}", events=events, suite="disciplines", system=system, block=seed, seed=seed
            )
    read = list(map(bundle.read, bundle.find([tmp_path])))
    assert analysis.judged(read) == read
    rows = [row for row in analysis.learnt(list(map(understand, read))) if row["threshold_kind"] == "evaluated"]
    value = {(row["system"], row["metric"]): row["value"] for row in rows if row["baseline"] is None}
    assert value["tianji-relaxed", "steps_to_threshold"] == 48
    assert value["tianji-relaxed", "time_to_threshold_s"] == pytest.approx(5)
    assert value["tianji-relaxed", "core_seconds_to_threshold_s"] == pytest.approx(10)
    (ratio,) = [row for row in rows if row["metric"] == "steps_to_threshold_ratio"]
    assert (ratio["system"], ratio["baseline"], ratio["value"]) == ("tianji", "tianji-relaxed", pytest.approx(1.2))
    assert analysis.judged([bundle.read(run_of_two_actors(tmp_path / "short"))]) == []


def test_learning_workloads_keep_their_budgets_and_are_judged():
    suite = Disciplines()
    given = {"systems": None, "workloads": None, "blocks": 1, "first_seed": 0, "once": True, "testbed": None, "cores": (0, 1)}
    for profile, judged in (("learning", True), ("standard", False)):
        plan, _ = suite.plan(Request(profile=profile, **given))
        work = suite.work(plan, plan.cells[0])
        assert (work.judged is not None) == judged
        assert (plan.workloads[plan.cells[0].workload]["budget_seconds"] > 60) == judged
    assert {cell.workload for cell in suite.plan(Request(profile="learning", **given))[0].cells} == set(sweep.LEARNING)


def test_the_bound_is_unknown_without_whole_fragments_or_a_rule():
    cut = replace(TIMES, fragment_max_s=None)
    assert bound_per_s({"name": "strict"}, cut) is None
    assert bound_per_s({"name": "quota-free"}, cut) == pytest.approx(64)
    assert bound_per_s({"name": "of-somebody-else"}, TIMES) is None


def run_of_two_actors(folder, whole=2, **more):
    """A run of the two actors above for 30 s, whose learner trains on 40 samples a second after a slow start."""
    accounts = [("actor g0.a0", 1.0, 64 * 30), ("actor g0.a1", 3.0, 64 * 10)]
    events = [FirstStep(0)]
    events += [Progress(t * S, "learner g0", {"samples_consumed_unique": 40.0 * max(0, t - 5)}) for t in range(31)]
    for role, _, samples in accounts:
        # Waiting for credit is no part of a fragment.
        events.append(Process(30 * S, role, {"env": 5.0, "send": 1.0}, {"simulator": 25.0, "credit": 9.0}, 5.0, 0))
        events.append(Counter(30 * S, "actor_samples_produced", float(samples), role))
    events += [Histogram(30 * S, "actor_fragment_ms", {int(1000 * one[1]): 10}) for one in accounts[:whole]]
    events.append(Histogram(30 * S, "learner_round_ms", {400: 5, 600: 5}))
    events.append(Counter(30 * S, "learner_samples_consumed_unique", 1280.0, "learner g0"))
    workload = bundles.WORKLOAD | {"environments": 2, "ppo": {"rollout_steps": 64, "minibatch_size": 128, "epochs": 1}}
    configuration = {"workload": workload, "system": {"discipline": {"name": "relaxed"}, "actors": 2, "groups": 1}}
    return bundles.make(folder, events=events, suite="disciplines", configuration=configuration, **more)


def test_durations_come_from_accounts_and_distributions(tmp_path):
    found = times(bundle.read(run_of_two_actors(tmp_path)))
    assert found.fragments_s == pytest.approx((1.0, 3.0))
    assert found.fragment_max_s == pytest.approx(3.0)
    assert (found.round_s, found.round_samples, found.fragment_samples) == (pytest.approx(0.5), 128.0, 64.0)
    assert (found.rho, found.spread) == (pytest.approx(4.0), pytest.approx(1.5))
    assert found.produced_per_s == pytest.approx(64 + 64 / 3)


def test_a_run_with_cut_fragments_has_no_largest_one(tmp_path):
    found = times(bundle.read(run_of_two_actors(tmp_path, whole=1)))
    assert (found.fragment_max_s, found.spread) == (None, None)
    assert found.fragment_mean_s == pytest.approx(2.0)


def test_a_round_of_groups_is_one_of_each(tmp_path):
    events = [Process(S, f"actor g{g}.a0", {"env": 1.0}, {}, 1.0, 0) for g in range(2)]
    events += [Counter(S, "actor_samples_produced", 640.0, f"actor g{g}.a0") for g in range(2)]
    # One learner has three times as many rounds as the other.
    events += [Histogram(S, "learner_round_ms", {100: count}) for count in (15, 5)]
    events += [Counter(S, "learner_samples_consumed_unique", 64.0 * count, f"learner g{g}") for g, count in enumerate((15, 5))]
    workload = bundles.WORKLOAD | {"environments": 2, "ppo": {"rollout_steps": 64, "minibatch_size": 64, "epochs": 1}}
    configuration = {"workload": workload, "system": {"discipline": {"name": "relaxed"}, "actors": 1, "groups": 2}}
    folder = bundles.make(tmp_path, events=events, suite="disciplines", configuration=configuration)
    found = times(bundle.read(folder))
    assert (found.round_samples, found.round_s) == (128.0, pytest.approx(0.1))
    # Both actors together take .05 s for 64 samples.
    assert bound_per_s({"name": "relaxed"}, found) == pytest.approx(128 / 0.1)


def test_throughput_leaves_the_start_out(tmp_path):
    b = bundle.read(run_of_two_actors(tmp_path))
    assert rate(b, "samples_consumed_unique", "learner") == pytest.approx(40)
    assert rate(b, "samples_consumed_unique", "explorer") is None
    rows = {row["metric"]: row for row in analysis.summarise([b])}
    assert rows["share_of_bound"]["value"] == pytest.approx(40 / (128 / 1.5))
    assert rows["share_of_bound"]["suite"] == "disciplines"


TINY = """
id = "tiny-ppo-waiting"
title = "A pole and a straggler"
env = "CartPole-v1"
algo = "ppo"
environments = 2
actors = 2
horizon_steps = 10_000
budget_steps = 100_000
budget_seconds = 60.0
update_seconds = 0.08
snapshot_every_steps = 1024
[simulator]
step_seconds = 0.016
straggler = 4.0
spread_over = 2
[network]
kind = "mlp-separate"
hidden = [8]
activation = "tanh"
[ppo]
rollout_steps = 8
minibatch_size = 16
epochs = 1
learning_rate = 1e-3
gamma = 0.98
gae_lambda = 0.8
[thresholds]
training = 450.0
evaluated = 475.0
"""


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.timeout(120)
def test_a_session_becomes_a_table_and_a_figure(tmp_path, monkeypatch):
    profile = analysis_profile()
    monkeypatch.setattr("suites.disciplines.run.Disciplines.profiles", {"smoke": profile})
    (tmp_path / "tiny-ppo-waiting.toml").write_text(TINY)
    out, workload = tmp_path / "session", str(tmp_path / "tiny-ppo-waiting.toml")
    arguments = [
        "run",
        "disciplines",
        "--profile",
        "smoke",
        "--workloads",
        workload,
        "--seeds",
        "1",
        "--once",
        "--out",
        str(out),
    ]
    assert bench(arguments) == 0
    found = {b.manifest.system: b for b in map(bundle.read, bundle.find([out]))}
    assert set(found) == {"tianji", "tianji-quota-free", "tianji-relaxed"}
    assert all(b.manifest.configuration["workload"]["budget_seconds"] == profile.seconds for b in found.values())
    assert report(["build", str(out), "--out", str(tmp_path / "report")]) == 0
    rows = json.loads((tmp_path / "report" / "summary.json").read_text())["rows"]
    value = {(row["system"], row["metric"]): row["value"] for row in rows}
    # The straggler is four times as slow: 1.6 and .4 of the mean of 16 ms, which hides what a full machine adds.
    assert value["tianji", "rho"] > 1
    assert value["tianji", "fragment_max_over_mean"] == pytest.approx(1.6, abs=0.15)
    assert value["tianji-relaxed", "bound_steps_per_s"] > value["tianji-quota-free", "bound_steps_per_s"]
    assert value["tianji-quota-free", "bound_steps_per_s"] > value["tianji", "bound_steps_per_s"]
    assert value["tianji", "age_mean_rounds"] == value["tianji-quota-free", "age_mean_rounds"] == 0
    table = (tmp_path / "report" / "tables" / "rules.csv").read_text()
    assert "tiny-ppo-waiting,quota-free," in table
    assert "samples over age: tiny-ppo-waiting" in (tmp_path / "report" / "charts" / "waiting.js").read_text()


def analysis_profile():
    from suites.disciplines.sweep import Profile

    return Profile(systems=("tianji", "tianji-quota-free", "tianji-relaxed"), blocks=1, seconds=3.0)
