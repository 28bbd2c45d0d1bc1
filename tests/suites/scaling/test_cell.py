"""A cell of the scaling suite from its task to its record, on loopback addresses, without privileges."""

import os
import subprocess
import sys

import msgspec
import pytest

from suites.records import bundle
from suites.records.events import Counter, FirstStep, NodeCheck, NodeUsage, Phase, Progress
from suites.scaling import cell, node_speeds, sweep
from suites.scaling.analysis import understand
from suites.session import catalogue
from suites.testbed.base import Shape

SECONDS = 2.5


def measured(folder, system="tianji", experiment="ppo-cpu-weak", nodes=2, **more):
    """The record of a short cell, and how its process ended."""
    of = msgspec.structs.replace(sweep.EXPERIMENTS[experiment], seconds=SECONDS, to_threshold=False)
    base = catalogue.load(of.workload)
    # A mean every other round: also where processors are slow some cross in so short a time.
    base = msgspec.structs.replace(base, env=more.get("env", base.env), fusion_rounds=2)
    copies = more.get("copies", False)
    task = cell.CellTask(
        system=system,
        workload=of.scaled(base, 1 if copies else nodes),
        seed=0,
        cores=tuple(sorted(os.sched_getaffinity(0))),
        testbed="local",
        shape=Shape(nodes=nodes),
        copies=copies,
        alone=of.scaled(base, 1),
    )
    (folder / cell.TASK).write_bytes(msgspec.json.encode(task))
    command = [sys.executable, "-m", "suites.scaling.cell", str(folder), str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return done, bundle.read_events(folder / cell.EVENTS) if (folder / cell.EVENTS).exists() else []


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("system", ["tianji", "tianji-one-learner", "xingtian"])
def test_a_system_on_two_nodes_says_how_far_it_is(tmp_path, system):
    done, events = measured(tmp_path, system)
    assert done.returncode == 0, done.stderr
    assert [event.node for event in kinds(events, NodeCheck)] == [1, 2]
    assert len(kinds(events, FirstStep)) == 1
    started = {event.name: event.ns for event in kinds(events, Phase)}
    assert started["testbed"] < started["check"] < started["company"] < started["setup"]
    speeds = [(event.name, event.role, event.value > 0) for event in kinds(events, Counter) if "loops" in event.name]
    assert speeds == [(name, f"node {n}", True) for name in (node_speeds.BEFORE, node_speeds.AFTER) for n in (1, 2)]
    counting = {event.role for event in kinds(events, Progress)}
    learners = [role for role in counting if role.startswith("learner")]
    assert len(learners) == (2 if system == "tianji" else 1)
    assert len(counting - set(learners)) == 2, "one on each node samples"
    sent = {event.role: event.value for event in kinds(events, Counter) if event.name.endswith("payload_bytes_sent")}
    assert sum(sent.values()) > 4 * 9000, "weights cross, at least"
    # Both learners tell of their steps, each of its own.
    own = {event.role: event.value for event in kinds(events, Counter) if event.name == "learner_optimizer_steps"}
    assert len(own) == len(learners)
    assert all(steps > 0 for steps in own.values())
    assert (tmp_path / cell.TOLD).exists()
    assert not (tmp_path / cell.METER).exists()


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.timeout(120)
def test_copies_know_nothing_of_each_other(tmp_path):
    done, events = measured(tmp_path, copies=True)
    assert done.returncode == 0, done.stderr
    roles = {event.role for event in kinds(events, Progress)}
    assert roles == {f"copy {n} {role}" for n in (0, 1) for role in ("learner g0", "actor g0.a0")}
    assert not {event.name for event in kinds(events, Counter)} & {"root_payload_bytes_sent"}
    assert kinds(events, NodeUsage)
    # Their own folders go.
    assert {path.name for path in tmp_path.iterdir()} == {cell.EVENTS, cell.TASK, cell.TOLD}


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.timeout(120)
def test_a_system_that_fails_is_told_of_with_its_cause(tmp_path):
    done, _ = measured(tmp_path, env="nowhere:Env")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "the host process of tianji ended with exit status 1"
    assert "nowhere" in done.stderr


@pytest.mark.long(why="nodes are made, and runs on them")
@pytest.mark.timeout(120)
def test_what_it_leaves_is_a_bundle_that_the_analysis_understands(tmp_path):
    from suites.scaling.run import Scaling
    from suites.session.command import run_session
    from suites.session.suite import Request

    suite = Scaling()
    plan, skipped = suite.plan(
        Request(
            profile="smoke",
            systems=("tianji",),
            workloads=("dqn-latency-weak",),
            blocks=1,
            first_seed=4,
            once=False,
            testbed="local",
            nodes=(2,),
            cores=tuple(sorted(os.sched_getaffinity(0))),
        )
    )
    assert not skipped
    # As it is, for a shorter time. Its simulators wait: on a busy machine too it makes many rounds in that time.
    plan.workloads["dqn-latency-weak"]["experiment"]["seconds"] = 5.0
    assert run_session(suite, plan, tmp_path / "out", resume=False) == 0
    (found,) = bundle.find([tmp_path / "out"])
    read = bundle.read(found)
    assert (read.manifest.nodes, read.manifest.scaling, read.manifest.testbed) == (2, "weak", "local")
    assert read.manifest.seed == 4
    assert "no node is limited" not in " ".join(read.manifest.deviations), "none was asked for"
    assert any("are addresses of one host" in line for line in read.manifest.deviations)
    assert read.manifest.configuration["system"]["groups"] == 2
    assert {"testbed", "check", "company", "setup", "measured"} <= set(read.manifest.phases_s)
    run = understand(read)
    assert run.metrics["unique_consumption_samples_per_s"] > 0
