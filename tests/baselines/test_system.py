"""The contract: systems are found by name, and a recorder writes what the bundle reads."""

import numpy as np
import pytest

from baselines import system
from baselines.recorder import FileRecorder
from programs.cli import ConfigError
from suites.records import bundle
from suites.session import catalogue
from tianji.algorithms.networks import ActorCritic
from tianji.policy import load_policy


@pytest.fixture
def workload():
    return catalogue.load("cartpole-ppo-zoo")


@pytest.mark.parametrize("name", ["sync", "tianji", "rllib", "rllib-multi-learner", "xingtian"])
def test_every_system_translates_a_workload(name, workload):
    found = system.get(name)
    task = system.Task(name, workload, 0, (0, 1))
    assert found.name == name
    assert found.available() is None
    settings = found.settings(task)
    assert isinstance(settings, dict)
    assert all(isinstance(line, str) and line for line in found.deviations(task))


def test_an_unknown_system_gets_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean tianji"):
        system.get("tianjin")


@pytest.mark.parametrize(("cores", "actors"), [(1, 1), (2, 2), (3, 2), (8, 8), (20, 8)])
def test_tianji_deals_environments_out_evenly(cores, actors, workload):
    task = system.Task("tianji", workload, 0, tuple(range(cores)))
    settings = system.get("tianji").settings(task)
    assert (settings["actors"], settings["envs_per_actor"]) == (actors, 8 // actors)


def test_what_is_recorded_is_what_a_bundle_reads(tmp_path, workload):
    network = ActorCritic(4, (64, 64), 2)
    with FileRecorder(tmp_path, workload) as recorder:
        recorder.phase("setup")
        recorder.first_step(5)
        recorder.first_step(9)
        recorder.episode(7, 20.0, 20, 21)
        recorder.snapshot(8, 256, 20, network.initialise(1))
        recorder.process("learner", {"update": 1.0}, {"samples": 2.0}, 3.0, 4)
        recorder.counter("chunks_lost", 0.0)
    events = bundle.read_events(tmp_path / "events.jsonl")
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Phase", "FirstStep", "Episode", "Snapshot", "Process", "Counter"]
    assert events[1].ns == 5
    assert (events[2].episode_return, events[2].length, events[2].steps) == (20.0, 20, 21)
    assert np.array_equal(load_policy(tmp_path / events[3].file).weights, network.initialise(1))


def test_two_policies_after_the_same_steps_are_two_files(tmp_path, workload):
    """Learners of several groups adopt weights without a step of their own."""
    network = ActorCritic(4, (64, 64), 2)
    with FileRecorder(tmp_path, workload) as recorder:
        for version in (1, 2):
            recorder.snapshot(version, 256, version, network.initialise(version))
    snapshots = bundle.read_events(tmp_path / "events.jsonl")
    assert [one.version for one in snapshots] == [1, 2]
    for one in snapshots:
        assert np.array_equal(load_policy(tmp_path / one.file).weights, network.initialise(one.version))
