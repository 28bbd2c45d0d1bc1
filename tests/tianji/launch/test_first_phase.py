"""Runs that choose their discipline: what is measured, and that learning goes on under the chosen one."""

import itertools
import os
import signal

import msgspec
import psutil
import pytest

from tianji.config import PPOConfig, SimulatorConfig
from tianji.disciplines.auto import Choice
from tianji.launch.events import Restarted
from tianji.launch.first_phase import MEASURED, Trial, joined, times_of
from tianji.messages import Progress, Report, Snapshot
from tianji.run.training import train
from tianji.run_folder import RunFolder, read_state, state_path
from tianji.telemetry import bin_of


def actor(index, fragments, chunks=8, busy=0.0, slow=None, **counters):
    counted = {"chunks_produced": float(chunks), "samples_produced": 10.0, "actor_steps": 10.0, **counters}
    counts = {"fragment_ms": fragments, **({} if slow is None else {"took_slow_step": slow})}
    return Report(f"actor g0.a{index}", counted, {"env": busy, "infer": 0.0}, {"credit": 1.0}, 1.0, 5, counts)


def learner(rounds):
    return Report("learner g0", {"steps": 100.0}, {"update": 2.0}, {}, 1.0, 7, {"round_ms": rounds, "age_rounds": {0: 9}})


def by_role(*reports):
    return {report.role: report for report in reports}


def test_times_are_those_of_the_reports():
    found = times_of(by_role(actor(0, {100: 8}), actor(1, {100: 4, 300: 4}), learner({900: 1, 50: 7})), 2, 10, 4)
    assert found.fragments_s == pytest.approx((0.1, 0.2))
    assert found.slowest_s == pytest.approx(0.2)
    # The first round, which took longer, does not count.
    assert found.round_s == pytest.approx(0.05)
    assert found.rest_s == 0
    # 8 fragments of half a busy second each, of two actors, beside a learner, on four cores.
    busy = by_role(actor(0, {900: 8}, busy=4.0), actor(1, {900: 8}, busy=4.0), learner({50: 8}))
    assert times_of(busy, 2, 10, 4).computing_s == pytest.approx((1.0 + 0.05) / 4)
    # On one core, the actors cannot have computed for longer than the round was.
    assert times_of(busy, 2, 10, 1).computing_s == pytest.approx(0.9 + 0.05)
    # Too short to be counted, and not nothing.
    assert times_of(by_role(actor(0, {0: 8}), learner({0: 8})), 1, 10, 2).rho == 1


def test_the_longest_step_under_way_is_that_of_the_recorded_steps():
    # All 80 steps of both actors take 10 ms, so the rests are uniform: 2/3 of a step for the longer one, and 1/2 on average.
    alike = [actor(index, {100: 8}, slow={bin_of(10_000_000): 80}) for index in range(2)]
    assert times_of(by_role(*alike, learner({10: 8})), 2, 10, 2).rest_s == pytest.approx(0.01 / 6, rel=0.05)
    # One actor alone is waited for by nobody.
    assert times_of(by_role(alike[0], learner({10: 8})), 1, 10, 2).rest_s == pytest.approx(0, abs=1e-6)


def test_there_are_none_without_the_account_of_every_actor():
    assert times_of(by_role(actor(0, {100: 8}), learner({50: 8})), 2, 10, 2) is None
    assert times_of(by_role(actor(0, {100: 8}), actor(1, {}), learner({50: 8})), 2, 10, 2) is None
    assert times_of(by_role(actor(0, {100: 8}), actor(1, {100: 8}), learner({})), 2, 10, 2) is None


def test_a_report_covers_both_launches():
    both = joined(actor(0, {100: 8}, busy=1.0), actor(0, {100: 1, 50: 2}, chunks=3, busy=2.0, actor_steps=30.0))
    assert both.counters == {"chunks_produced": 11.0, "samples_produced": 20.0, "actor_steps": 30.0}
    assert (both.busy_s["env"], both.wait_s["credit"], both.cpu_s, both.peak_rss_bytes) == (3.0, 2.0, 2.0, 5)
    assert both.histograms == {"fragment_ms": {100: 9, 50: 2}}
    # A learner's counts are part of its state.
    both = joined(learner({50: 8}), learner({50: 2}))
    assert both.counters == {"steps": 100.0}
    assert both.histograms == {"round_ms": {50: 10}, "age_rounds": {0: 9}}


def tell(trial, chunks, rounds, config):
    """Progress of both actors and the learner."""
    for index in range(2):
        trial(Progress(f"actor g0.a{index}", 0, {"chunks_produced": float(chunks[index])}))
    return trial(Progress("learner g0", 0, {"optimizer_steps": float(rounds * config.round_updates)}))


@pytest.fixture
def heard(small):
    """A trial of two actors, its configuration, and what its listener heard."""
    config, told = small(discipline="auto"), []
    return Trial(config, config.auto, told.append), config, told


def test_the_first_launch_ends_when_every_actor_has_made_enough(heard):
    trial, config, told = heard
    assert tell(trial, (1, 1), 3, config) is None
    assert tell(trial, (20, 7), 30, config) is None
    assert not trial.measured
    tell(trial, (20, 8), 31, config)
    assert trial.measured
    reports = [actor(0, {100: 8}), actor(1, {900: 8}), learner({10: 8})]
    for report in reports:
        trial(report)
    assert not any(isinstance(message, Report) for message in told)
    # Together they make two fragments in 0.18 s, and the learner takes 0.01 s: to hide it gains less than a tenth.
    assert trial.choose().discipline == "quota-free"
    assert told[-1] is trial.choice
    for report in reports:
        trial(report)
    assert [report.cpu_s for report in told if isinstance(report, Report)] == [2.0, 2.0, 2.0]
    trial.give_up()
    assert sum(isinstance(message, Report) for message in told) == 3


def test_too_few_rounds_are_not_enough(heard):
    """While a replay fills, actors make fragments and the learner does not train."""
    trial, config, _ = heard
    assert tell(trial, (50, 50), 4, config) is None
    assert tell(trial, (60, 60), 11, config) is None
    assert tell(trial, (61, 61), 12, config) == MEASURED


def test_a_learner_that_died_is_measured_again(heard):
    trial, config, _ = heard
    tell(trial, (9, 9), 0, config)
    assert tell(trial, (9, 9), 9, config) == MEASURED
    trial(Restarted("", "learner g0 ended", 0.25, 0))
    assert not trial.measured
    assert tell(trial, (3, 3), 20, config) is None
    assert tell(trial, (9, 9), 40, config) == MEASURED


def test_without_an_actors_account_the_run_stays_as_it_is(heard):
    trial, config, _ = heard
    tell(trial, (9, 9), 0, config)
    tell(trial, (9, 9), 9, config)
    trial(actor(0, {100: 8}))
    trial(learner({10: 8}))
    assert (trial.choose().discipline, trial.choice.rho) == ("strict", None)
    assert trial.choice.why == "stays under strict: an actor died as it was measured"


def test_a_limit_that_is_reached_meanwhile_ends_the_run(small):
    config, told = small(discipline="auto"), []

    def listener(message):
        told.append(message)
        return "return" if isinstance(message, Snapshot) else None

    trial = Trial(config, config.auto, listener)
    tell(trial, (9, 9), 0, config)
    assert tell(trial, (9, 9), 9, config) == MEASURED
    trial(actor(0, {100: 8}))
    assert trial(Snapshot(1, 64, 0, b"")) == "return"
    assert not trial.measured
    trial.give_up()
    assert isinstance(told[-1], Report)


def test_in_lockstep_there_is_no_choice(small, tmp_path):
    told = []
    auto = train(small(world="lockstep", discipline="auto"), told.append, out=tmp_path / "run")
    strict = train(small(world="lockstep"))
    assert (auto.weights == strict.weights).all()
    assert [one.why for one in told if isinstance(one, Choice)] == [
        "stays under strict: in lockstep there are no times to choose by"
    ]
    assert RunFolder(tmp_path / "run").read_choice() == auto.choice


class Killer:
    """Listener that keeps all messages and, before the choice, kills an actor once."""

    def __init__(self):
        self.messages, self.killed = [], False

    def __call__(self, message):
        self.messages.append(message)
        if not self.killed and isinstance(message, Progress) and message.role == "actor g0.a1":
            found = [child for child in psutil.Process().children() if child.name() == "tj-actor g0.a1"]
            self.killed = bool(found)
            for child in found:
                os.kill(child.pid, signal.SIGKILL)

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


@pytest.mark.long(why="processes are ended and started again")
def test_with_a_straggler_the_run_relaxes_and_goes_on_even_if_an_actor_dies_before(small, tmp_path):
    config, killer = (
        small(
            discipline="auto",
            chunk_slots=8,
            envs_per_actor=2,
            ppo=PPOConfig(rollout_steps=16, minibatch_size=32, epochs=1),
            simulator=SimulatorConfig(step_seconds=0.01, straggler=16.0, spread_over=4),
            update_seconds=0.05,
            stop_steps=2048,
            snapshot_every_steps=256,
            checkpoint_seconds=None,
        ),
        Killer(),
    )
    result = train(config, killer, out=tmp_path / "run")
    assert [(one.role, bool(one.cause)) for one in result.restarts] == [("actor g0.a1", True)]
    (choice,) = killer.of(Choice)
    assert choice.discipline == "relaxed"
    assert choice.gain > 1.1
    before, after = (list(group) for chosen, group in itertools.groupby(killer.messages, lambda m: m is choice) if not chosen)
    first, second = ([message.steps for message in part if isinstance(message, Snapshot)] for part in (before, after))
    # Each policy is handed out once, and steps go on where they were.
    assert 8 * config.round_steps <= first[-1] < second[0]
    assert sorted({*first, *second}) == first + second
    assert config.stop_steps - config.round_steps < result.steps <= config.stop_steps
    # Two optimizer steps for each round of 64: none was lost, none was done twice.
    assert result.version == result.steps // 32
    # Each role has one report, and those of actors count both launches.
    assert len({report.role for report in result.reports}) == len(result.reports) == 4
    actors = [report for report in result.reports if report.role.startswith("actor")]
    assert sum(report.counters["samples_produced"] for report in actors) >= second[0]
    # Every step takes 2 ms or more, so all are recorded. A fragment that was cut may end before the steps that one stands for.
    for report in actors:
        steps = report.counters["samples_produced"] / config.envs_per_actor
        assert sum(report.histograms["took_slow_step"].values()) == pytest.approx(steps, abs=2 * 16)
    # What was chosen is kept, and the configuration is what was asked for.
    folder = RunFolder(tmp_path / "run")
    assert folder.read_choice() == result.choice == choice
    assert folder.read_config().discipline == {"name": "auto"}


def test_a_resumed_run_keeps_its_choice(small, tmp_path):
    config = msgspec.structs.replace(small(discipline="auto"), world="lockstep")
    train(config, out=tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    chosen = Choice(discipline="exactly-one-round", why="it was measured")
    folder.save_choice(chosen)
    told = []
    more = msgspec.structs.replace(config, stop_steps=4096)
    result = train(more, told.append, out=tmp_path / "run", resume=True)
    assert result.choice == chosen
    assert not any(isinstance(message, Choice) for message in told)
    (report,) = [report for report in result.reports if report.role.startswith("learner")]
    # Under the barrier all samples were of the newest policy.
    assert report.histograms["age_rounds"][1] > 0
    assert read_state(state_path(folder.state, 0)).values["learner"]["steps"] == result.steps
