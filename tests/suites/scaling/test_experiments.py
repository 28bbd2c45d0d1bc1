"""Experiments: their scaled workloads, and the plan of a session."""

import msgspec
import pytest

from baselines import system as systems
from baselines.system import Task
from programs.cli import ConfigError
from suites.records import bundle
from suites.records.events import Counter, FirstStep, Phase, Process, Progress, Snapshot
from suites.scaling import cell, sweep
from suites.scaling.run import Scaling
from suites.session import catalogue
from suites.session.suite import Request
from tianji.launch.node import Cluster, Node

STRONG = sweep.EXPERIMENTS["ppo-cpu-strong"]
WEAK = sweep.EXPERIMENTS["ppo-cpu-weak"]
DQN = sweep.EXPERIMENTS["dqn-cpu-weak"]


def request(**more):
    defaults = {
        "profile": "standard",
        "systems": ("tianji",),
        "workloads": None,
        "blocks": None,
        "first_seed": 0,
        "once": False,
        "testbed": "local",
        "cores": (0, 1),
    }
    return Request(**{**defaults, **more})


def on(nodes, namespace="/proc/self/ns/net"):
    return Cluster(tuple(Node(f"10.0.0.{n}", namespace) for n in range(1, nodes + 1)))


@pytest.mark.parametrize("experiment", sweep.EXPERIMENTS.values(), ids=lambda e: e.id)
def test_nodes_change_environments_and_nothing_that_is_learnt_with(experiment):
    workload = catalogue.load(experiment.workload)
    for nodes in sweep.SIZES:
        scaled = experiment.scaled(workload, nodes)
        assert scaled.environments == workload.environments * (nodes if experiment.scaling == "weak" else 1)
        assert (scaled.ppo, scaled.dqn, scaled.network, scaled.thresholds) == (
            workload.ppo,
            workload.dqn,
            workload.network,
            workload.thresholds,
        )
        assert scaled.budget_seconds == experiment.seconds


@pytest.mark.parametrize("experiment", sweep.EXPERIMENTS.values(), ids=lambda e: e.id)
@pytest.mark.parametrize("name", ["tianji", "tianji-one-learner", "tianji-curve", "tianji-fan-in-2"])
def test_every_size_of_every_experiment_is_a_configuration(experiment, name):
    system = systems.get(name)
    for nodes in sweep.SIZES:
        scaled = experiment.scaled(catalogue.load(experiment.workload), nodes)
        assert system.unable_on(scaled, nodes) is None
        config = system.config(Task(name, scaled, 0, (0, 1), on(nodes)))
        assert config.environments == scaled.environments
        assert config.groups == (1 if name == "tianji-one-learner" else nodes)
        assert config.encrypt is (name == "tianji-curve")
        assert config.fan_in == (2 if name == "tianji-fan-in-2" else None)
        assert bool(system.deviations(Task(name, scaled, 0, (0, 1), on(nodes)))) is (config.groups > 1)


@pytest.mark.parametrize("name", ["tianji", "xingtian"])
def test_between_real_hosts_everything_is_encrypted_and_authenticated(name):
    scaled = WEAK.scaled(catalogue.load(WEAK.workload), 2)
    for cluster, encrypted in ((on(2), False), (on(2, None), True)):
        assert systems.get(name).config(Task(name, scaled, 0, (0, 1), cluster)).encrypt is encrypted


def test_groups_share_one_replay_between_them():
    scaled = DQN.scaled(catalogue.load(DQN.workload), 8)
    config = systems.get("tianji").config(Task("tianji", scaled, 0, (0, 1), on(8)))
    assert config.dqn.replay_capacity * 8 == scaled.dqn.replay_capacity
    assert config.dqn.learning_starts * 8 == scaled.dqn.learning_starts
    assert (config.dqn.updates, config.dqn.train_every_steps) == (scaled.dqn.updates, scaled.dqn.train_every_steps)


def test_a_session_has_blocks_of_one_size_and_one_experiment():
    plan, skipped = Scaling().plan(request(systems=("tianji", "tianji-copies"), workloads=("ppo-cpu-weak",), blocks=2))
    assert not skipped
    blocks = plan.blocks()
    assert [(b[0].block, b[0].nodes, [c.system for c in b]) for b in blocks[:2]] == [(0, 1, ["tianji"]), (0, 2, ["tianji"])]
    # On the largest number it runs twice: the noise floor.
    assert {c.label for c in blocks[5]} == {"tianji", "tianji-copies", "tianji-again"}
    assert blocks[5][0].nodes == 8
    assert len({cell.directory for cell in plan.cells}) == len(plan.cells) == 2 * 8
    # A session's file gives the same plan back.
    assert msgspec.json.decode(msgspec.json.encode(plan), type=type(plan)) == plan


def test_numbers_of_nodes_can_be_chosen():
    plan, _ = Scaling().plan(request(nodes=(1, 5), workloads=("dqn-link-weak",), blocks=1, systems=("tianji", "tianji-copies")))
    assert [(cell.nodes, cell.system) for cell in plan.cells] == [
        (1, "tianji"),
        (1, "tianji-copies"),
        (5, "tianji"),
        (5, "tianji-copies"),
        (5, "tianji"),
    ]


@pytest.mark.parametrize(("among", "beside"), [(None, [1, 0]), (8, [7, 6])])
def test_nodes_left_over_are_company(among, beside):
    scaling = Scaling()
    asked = request(nodes=(1, 2), among=among, workloads=("dqn-cpu-weak", "dqn-link-weak"), blocks=1, once=True)
    plan, _ = scaling.plan(asked)
    for workload in plan.workloads.values():
        workload["testbed"] = "netns"
    company = {(cell.workload, cell.nodes): scaling.work(plan, cell).task.shape.company for cell in plan.cells}
    # Without a budget nodes share the machine, and nobody is beside them.
    assert list(company.values()) == [*beside, 0, 0]
    assert next(iter(company)) == ("dqn-cpu-weak", 1)
    with pytest.raises(ConfigError, match="--among 1: dqn-cpu-weak is run on 2 nodes"):
        scaling.plan(msgspec.structs.replace(asked, among=1))


def test_what_is_unknown_or_cannot_be_shared_is_said():
    with pytest.raises(ConfigError, match="unknown workload 'no'"):
        Scaling().plan(request(workloads=("no",)))
    with pytest.raises(ConfigError, match="unknown system"):
        Scaling().plan(request(systems=("no",)))
    plan, skipped = Scaling().plan(request(systems=("tianji", "sync"), workloads=("ppo-cpu-weak",), blocks=1))
    assert {cell.system for cell in plan.cells if cell.nodes > 1} == {"tianji"}
    assert "system sync on 8 nodes cannot run ppo-cpu-weak: it runs on one host" in skipped
    five = STRONG.scaled(catalogue.load(STRONG.workload), 5)
    assert systems.get("tianji").unable_on(five, 5) == "48 environments cannot be shared by 5 nodes"


def written(path, *events):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(bundle.encode_event(event) + b"\n" for event in events))
    return path


def test_records_of_copies_become_one_that_begins_with_the_last_of_them(tmp_path):
    (tmp_path / cell.METER).write_bytes(bundle.encode_event(Phase(1, "testbed", 0)) + b"\n")
    process = Process(90, "learner g0", {"update": 1.0}, {}, 1.0, 1)
    records = [
        written(
            tmp_path / "copy-0" / cell.EVENTS, FirstStep(10), Progress(20, "learner g0", {"samples_consumed": 5.0}), process
        ),
        written(tmp_path / "copy-1" / cell.EVENTS, FirstStep(15), Snapshot(16, 0, 0, "x"), Counter(91, "learner_steps", 7.0)),
    ]
    cell.collect(tmp_path, records, copies=True)
    found = bundle.read_events(tmp_path / cell.EVENTS)
    assert [event for event in found if isinstance(event, FirstStep)] == [FirstStep(15)]
    assert {event.role for event in found if isinstance(event, Progress | Process | Counter)} == {"copy 0 learner g0", "copy 1"}
    assert not any(isinstance(event, Snapshot) for event in found)
    assert Phase(1, "testbed", 0) in found
    assert not (tmp_path / cell.METER).exists()
