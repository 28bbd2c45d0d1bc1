"""RLlib on several nodes: its settings, and one run on a Ray cluster of two nodes on this host."""

import msgspec
import pytest
import rllib_on_a_cluster
import two_ray_nodes

from baselines import system
from baselines.rllib.stopwatch import Stopwatch
from baselines.system import Task
from suites.records import bundle
from suites.records.events import Counter, Episode, FirstStep, Progress
from suites.session import catalogue
from tianji.config import SimulatorConfig
from tianji.launch.node import Cluster, Node

ZOO = {"ppo": "cartpole-ppo-zoo", "dqn": "cartpole-dqn-zoo"}


def task_of(name, algo, nodes, environments=48, **more):
    workload = msgspec.structs.replace(catalogue.load(ZOO[algo]), environments=environments, **more)
    cluster = Cluster(tuple(Node(f"10.0.0.{i}") for i in range(nodes)), "10.0.0.254", "10.0.0.0:6379")
    return Task(name, workload, 0, (0, 1), cluster)


@pytest.mark.parametrize("nodes", [1, 2, 3, 8])
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_one_learner_is_told_the_whole_batch_and_a_runner_for_each_node(algo, nodes):
    found = system.get("rllib")
    more = {} if algo == "ppo" else {"dqn": msgspec.structs.replace(catalogue.load(ZOO[algo]).dqn, train_every_steps=384)}
    task = task_of("rllib", algo, nodes, **more)
    assert found.unable_on(task.workload, nodes) is None
    told, alone = found.settings(task), found.settings(msgspec.structs.replace(task, cluster=None))
    # A single node samples in the learner's process, as on one host of few cores.
    assert told["num_env_runners"] == (0 if nodes == 1 else nodes)
    assert told["num_envs_per_env_runner"] * nodes == 48
    assert told["rollout_fragment_length"] * 48 == task.workload.round_steps
    assert told["num_learners"] == 0
    for name in ("train_batch_size_per_learner", "minibatch_size"):
        assert told["training"].get(name) == alone["training"].get(name)
    if nodes > 1:
        assert told["placement"]["env_runners"]["custom_resources_per_env_runner"] == {"runner": 1}


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
def test_learners_share_out_the_batch_of_one(nodes):
    found = system.get("rllib-multi-learner")
    task = task_of(found.name, "ppo", nodes)
    assert found.unable_on(task.workload, nodes) is None
    told = found.settings(task)
    assert (told["num_learners"], told["num_env_runners"]) == (nodes, nodes)
    assert told["training"]["minibatch_size"] * nodes == 256
    assert told["training"]["train_batch_size_per_learner"] * nodes == 48 * 32
    assert told["placement"]["learners"] == {"custom_resources_per_learner": {"learner": 1}}
    assert any(f"takes {256 // nodes} rows" in line for line in found.deviations(task)) is (nodes > 1)


@pytest.mark.parametrize(("name", "nodes"), [("rllib", 0), ("rllib", 2), ("rllib", 8), ("rllib-multi-learner", 8)])
def test_rllib_itself_makes_as_many_dqn_updates_a_round_as_the_workload_asks_for(name, nodes):
    dqn = pytest.importorskip("ray.rllib.algorithms.dqn.dqn")
    found = system.get(name)
    changed = msgspec.structs.replace(catalogue.load(ZOO["dqn"]).dqn, train_every_steps=192, updates=96)
    task = task_of(name, "dqn", nodes, 16, dqn=changed)
    config = found._config(task if nodes else msgspec.structs.replace(task, cluster=None))
    assert config.total_train_batch_size == 64
    assert dqn.calculate_rr_weights(config) == [1, 96]
    runners = max(1, config.num_env_runners)
    assert config.get_rollout_fragment_length() * config.num_envs_per_env_runner * runners == 192


@pytest.mark.parametrize(
    ("name", "algo", "environments", "nodes", "said"),
    [
        ("rllib", "ppo", 8, 3, "8 environments cannot be dealt out evenly to 3 env runners"),
        ("rllib", "dqn", 48, 2, "a round of 256 steps is not a whole number of each of 48 environments"),
        ("rllib-multi-learner", "ppo", 48, 3, "a batch of 256 rows cannot be dealt out evenly to 3 learners"),
        ("rllib-multi-learner", "dqn", 48, 6, "a batch of 64 rows cannot be dealt out evenly to 6 learners"),
    ],
)
def test_what_cannot_be_matched_is_refused_in_words(name, algo, environments, nodes, said):
    assert said in system.get(name).unable_on(task_of(name, algo, nodes, environments).workload, nodes)


def test_simulators_come_as_a_vector_and_pictures_not_at_all():
    found = system.get("rllib")
    slow = task_of("rllib", "ppo", 2, simulator=SimulatorConfig(step_seconds=0.01))
    assert found.settings(slow)["gym_env_vectorize_mode"] == "vector_entry_point"
    config = found._config(slow)
    assert config.env_config["simulator"]["step_seconds"] == 0.01
    assert config.callbacks_on_environment_created is not None
    assert "pictures" in found.unable(task_of("rllib", "dqn", 2, simulator=SimulatorConfig(picture=84)).workload)


def test_records_are_moved_to_our_clock_unless_it_is_theirs():
    probe = pytest.importorskip("baselines.rllib.probe")
    record = probe.RECORD.pack(1_000, 9.0, 9, 30)
    here = probe.Handed(2_000, record)
    assert probe.on_our_clock(here, 1_990, 2_010) is here
    moved = probe.on_our_clock(here, 50_000, 50_020)
    assert list(probe.merged([moved], {})) == [(49_010, 9.0, 9, 30)]
    # Two env runners: steps of both are added up, in order of time.
    later = probe.Handed(2_000, probe.RECORD.pack(1_001, 3.0, 3, 12))
    assert list(probe.merged([later, here], {})) == [(1_000, 9.0, 9, 30), (1_001, 3.0, 3, 42)]


def test_a_stopwatch_counts_what_a_method_takes_and_changes_nothing_else(monkeypatch):
    ticks = iter([0.0, 1.5, 10.0, 12.0])
    monkeypatch.setattr("baselines.rllib.stopwatch.time.perf_counter", lambda: next(ticks))

    class Group:
        def double(self, x, *, plus=0):
            return 2 * x + plus

        def fail(self):
            raise KeyError("no")

    watch, group = Stopwatch(), Group()
    watch.watch(group, "double", "work")
    watch.watch(group, "fail", "failure")
    assert group.double(3, plus=1) == 7
    with pytest.raises(KeyError):
        group.fail()
    assert watch.seconds == {"work": 1.5, "failure": 2.0}


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("ray")
def test_a_run_has_a_runner_and_a_learner_on_each_node(ray_nodes, tmp_path):
    told = two_ray_nodes.ask(rllib_on_a_cluster, ray_nodes, tmp_path, timeout=580)
    assert told["nodes"] == len(set(told["runners"])) == len(set(told["learners"])) == 2
    # They average every gradient, so they stay what one learner would be.
    assert told["alike"]
    events = bundle.read_events(tmp_path / "events.jsonl")
    progress = [event.counts for event in events if isinstance(event, Progress)]
    last = progress[-1]
    assert progress[0]["samples_produced"] == 0
    assert 572 < last["samples_produced"] == last["samples_consumed_unique"] <= 700
    counters = {event.name: event.value for event in events if isinstance(event, Counter)}
    # Both passes over all transitions, 64 at a time, rounded down in each of five rounds.
    assert counters["learner_optimizer_steps"] == last["samples_consumed"] / 64 == 5 * 4
    episodes = [event for event in events if isinstance(event, Episode)]
    assert episodes[-1].steps > 500
    assert [event.ns for event in episodes] == sorted(event.ns for event in episodes)
    first_step = next(event.ns for event in events if isinstance(event, FirstStep))
    assert first_step < episodes[0].ns
