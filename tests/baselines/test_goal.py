"""Runs that stop at their goal: the rule, and the end of every system that follows it."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import DQN, LONG, Enough

from baselines import system
from baselines.goal import WINDOW, Goal
from baselines.recorder import FileRecorder
from baselines.workload import Thresholds
from suites.statistics import curves
from tianji.algorithms import networks

AVERAGED = 10
"""Snapshots after the goal, as `LONG` asks for."""


def goal(threshold=100.0):
    workload = msgspec.structs.replace(LONG, thresholds=Thresholds(training=threshold, evaluated=threshold))
    assert workload.evaluation.averaged == AVERAGED
    return Goal(workload)


def test_it_is_passed_with_as_many_snapshots_after_it_as_the_evaluated_return_takes():
    watched = goal()
    for i in range(WINDOW - 1):
        watched.episode(i, 100.0)
    for at in range(10):
        watched.snapshot(at)
    assert not watched.passed, "99 episodes have no mean of 100"
    watched.episode(1000, 100.0)
    for at in range(1000, 1000 + AVERAGED):
        watched.snapshot(at)
        assert not watched.passed, "a snapshot at that moment is none after it"
    watched.snapshot(1000 + AVERAGED)
    assert watched.passed
    for i in range(WINDOW):
        watched.episode(2000 + i, 0.0)
    watched.snapshot(3000)
    assert watched.passed, "what may end may always end"


def test_nothing_is_computed_between_two_snapshots():
    watched = goal()
    for at in range(10):
        watched.snapshot(2000 + at)
    assert not watched.passed
    for i in range(WINDOW):
        watched.episode(i, 100.0)
    assert not watched.passed
    watched.snapshot(2010)
    assert watched.passed


@given(st.lists(st.integers(0, 50), min_size=100, max_size=160), st.integers(10, 40), st.randoms(use_true_random=False))
def test_it_is_where_reports_say_that_the_training_return_is_reached(returns, threshold, random):
    """In order of time, in whatever order episodes are told of; the reports' own definition is the reference."""
    assert curves.WINDOW == WINDOW
    watched, told = goal(float(threshold)), list(enumerate(returns))
    random.shuffle(told)
    for at, value in told:
        watched.episode(at, float(value))
    crossing = curves.crossing([float(value) for value in returns], float(threshold))
    for _ in range(AVERAGED):
        watched.snapshot(len(returns) if crossing is None else crossing + 1)
    assert watched.passed == (crossing is not None)


def test_a_recorder_lets_a_run_end_only_if_it_may_stop_at_its_goal(tmp_path):
    weights = networks.build(LONG.network, 4, 2).initialise(0)
    for stop_at_goal in (False, True):
        folder = tmp_path / str(stop_at_goal)
        folder.mkdir()
        with FileRecorder(folder, LONG, stop_at_goal=stop_at_goal) as recorder:
            for i in range(WINDOW):
                recorder.episode(i, LONG.thresholds.training, 9, i)
            for i in range(AVERAGED):
                assert not recorder.may_end
                recorder.snapshot(WINDOW + i, i, i, weights)
            assert recorder.may_end is stop_at_goal


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("workload", [LONG, msgspec.structs.replace(DQN, budget_steps=LONG.budget_steps)], ids=["ppo", "dqn"])
@pytest.mark.parametrize("name", ["sync", "tianji", "xingtian"])
def test_a_system_ends_when_it_is_let_and_publishes_its_last_policy(name, workload):
    workload = msgspec.structs.replace(workload, snapshot_every_steps=4 * workload.round_steps)
    memory = Enough()
    system.get(name).train(system.Task(name, workload, 1, (0, 1), stop_at_goal=True), memory)
    assert len(memory.snapshots) >= memory.snapshots_wanted
    last = memory.snapshots[-1][1]
    assert 3 * workload.snapshot_every_steps <= last < workload.budget_steps / 100
    assert last == memory.counters["learner_steps"]


def test_rllib_hands_its_episodes_over_with_each_snapshot_and_ends_when_it_is_let(monkeypatch):
    """Its own loop over an algorithm that is made up: each iteration samples a round and ends an episode."""
    adapter = pytest.importorskip("baselines.rllib.adapter")
    probe = pytest.importorskip("baselines.rllib.probe")
    callback, runner = probe.EpisodeProbe(), SimpleNamespace(sample=lambda: None)
    callback.on_environment_created(env_runner=runner)
    workload, done = msgspec.structs.replace(LONG, snapshot_every_steps=3 * LONG.round_steps), []

    class Piece(list):
        t = property(len)

        def get_return(self):
            return sum(self)

        def get_infos(self, _):
            return {}

    def train():
        done.append(workload.round_steps)
        callback.on_episode_end(episode=Piece([1.0] * len(done)))
        callback.on_sample_end(samples=[Piece([1.0] * workload.round_steps)])
        return {"num_env_steps_sampled_lifetime": sum(done), "env_runners": {}}

    handed = []

    def foreach_env_runner(ask, *, local_env_runner):
        assert local_env_runner
        handed.append(len(done))
        return [ask(runner)]

    group = SimpleNamespace(
        sync_weights=lambda: None,
        local_env_runner=runner,
        foreach_env_runner=foreach_env_runner,
        num_remote_env_runners=lambda: 0,
        num_remote_worker_restarts=lambda: 0,
    )
    under_test, weights = adapter.RLlib(), np.zeros(3, np.float32)
    under_test._algorithm = SimpleNamespace(train=train, env_runner_group=group)
    monkeypatch.setattr(
        under_test, "_snapshot", lambda recorder, steps, version: recorder.snapshot(len(done), steps, version, weights)
    )
    for stop_at_goal, times in ((True, [3, 6, 9, 9]), (False, [9])):
        done.clear()
        handed.clear()
        under_test._runner_steps.clear()
        callback._steps, memory = 0, Enough()
        under_test.train(system.Task("rllib", workload, 0, (0, 1), stop_at_goal=stop_at_goal), memory)
        assert [steps // workload.round_steps for _, steps, _, _ in memory.snapshots] == [0, 3, 6, 9]
        assert handed == times
        assert [value for _, value, _, _ in memory.episodes] == [float(n) for n in range(1, 10)], "each once"
        assert [steps // workload.round_steps for *_, steps in memory.episodes] == list(range(9))
