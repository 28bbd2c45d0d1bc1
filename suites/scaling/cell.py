"""Process of one scaling cell: `python -m suites.scaling.cell DIRECTORY PARENT` makes the nodes and meters them.

It first verifies the nodes by measurement and starts the system under test on them. Budgets apply from the first environment
step. Twice a second it samples the resources that each node has used. The records of the system and of the meter become one
`events.jsonl`. Exit status 0 means measured. Exit status 1 means failed, and the last lines of the output say why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from baselines import system as systems
from baselines.system import Task
from baselines.workload import Workload
from programs.cli import DONE
from programs.process import serve_a_runner, status_of
from suites.records import bundle
from suites.records.events import AnyEvent, Counter, FirstStep, Process, Progress
from suites.scaling import node_speeds
from suites.scaling.experiment import ENDLESS_STEPS
from suites.testbed.base import Name, Shape, Testbed
from suites.testbed.registry import open_testbed
from tianji.launch.node import Cluster, Node

TASK, EVENTS, METER = "task.json", "events.jsonl", "meter.jsonl"
TOLD = "told.json"
"""File with the settings of the system, and the deviations of the system and the testbed."""
INTERVAL_S = 0.5
"""Seconds between two samples of the nodes' resources."""
START_LIMIT_S = 150.0
"""Most seconds from the start of the system to its first environment step."""
COMPANY = "tianji"
ENDLESS_S = 3600.0
SEEDS_APART = 1000
"""Distance of the seeds of parallel runs, so that they play different episodes."""
APART_S = 8.0
"""Most seconds by which the first of several copies may begin before the last."""
END_LIMIT_S = 40.0
"""Beyond the budget of seconds."""


class CellTask(Struct, frozen=True, kw_only=True):
    """One cell."""

    system: str
    workload: Workload
    """Workload of all nodes together or, with copies, of one node."""
    seed: int
    cores: tuple[int, ...]
    testbed: Name
    shape: Shape
    copies: bool
    """Whether every node has an independent run."""
    alone: Workload
    """Workload of one node, which extra nodes run."""


class Told(Struct, frozen=True):
    """Settings and deviations of the system and the testbed, for a bundle."""

    settings: dict[str, Any]
    deviations: list[str]


def told(task: CellTask, given: Task, testbed: Testbed) -> Told:
    """Settings of the system for this task. A cluster's address is replaced by a note that there is one."""
    cluster = given.cluster
    if cluster is not None and cluster.ray_address is not None:
        given = msgspec.structs.replace(given, cluster=msgspec.structs.replace(cluster, ray_address="auto"))
    system = systems.get(task.system)
    return Told(system.settings(given), [*system.deviations(given), *testbed.deviations()])


class SystemFailed(Exception):
    """The system under test ended with a failure, or did not come to its first step in time."""


class Driver:
    """The host process of a system under test, and the record that it leaves.

    Parameters
    ----------
    place
        where it runs.
    """

    def __init__(self, task: Task, directory: Path, place: Node) -> None:
        self.directory = directory
        assert task.cluster is not None
        self.node = task.cluster.nodes[0]
        """The first one, or the only one, on which its system runs."""
        directory.mkdir(exist_ok=True)
        (directory / TASK).write_bytes(msgspec.json.encode(task))
        self.started, told = os.pipe()
        """Readable when the first environment step has been made."""
        command = [*systems.get(task.system).interpreter(), "-m", "baselines.run", str(directory), str(os.getpid()), str(told)]
        try:
            self.process = place.popen(command, stdin=subprocess.DEVNULL, pass_fds=(told,))
        finally:
            os.close(told)
        self.ended = os.pidfd_open(self.process.pid)

    @property
    def events(self) -> Path:
        """File of its events."""
        return self.directory / EVENTS

    def kill(self) -> None:
        """Kill it and all processes that it started."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.started)
        os.close(self.ended)


def measure(task: CellTask, directory: Path) -> None:
    """Measure a cell."""
    with bundle.EventLog(directory / METER) as log, ExitStack() as stack:
        log.phase("testbed")
        testbed = stack.enter_context(open_testbed(task.testbed, task.shape))
        if systems.get(task.system).needs_ray and not task.copies:
            testbed.start_ray()
        log.phase("check")
        for found in testbed.check():
            log.write(found)
        record_speeds(testbed, log, node_speeds.BEFORE)
        # The check sends too: what nodes have used by now is not the system's.
        for used in testbed.usage():
            log.write(used)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="c-")))
        (directory / TOLD).write_bytes(msgspec.json.encode(told(task, tasks(task, directory, folder, testbed)[0][0], testbed)))
        log.phase("company")
        # It ends before the second reading: nodes that take no part stand still at every size.
        beside = stack.enter_context(ExitStack())
        company = start_company(task, testbed, folder, beside)
        log.phase("setup")
        drivers = []
        for driver_task, where, place in tasks(task, directory, folder, testbed):
            drivers.append(Driver(driver_task, where, place))
            stack.callback(drivers[-1].close)
        watch(task, testbed, drivers, log)
        if any(driver.process.poll() is not None for driver in company):
            raise SystemFailed("a run that was to keep a node busy ended meanwhile")
        beside.close()
        record_speeds(testbed, log, node_speeds.AFTER)
        collect(directory, [driver.events for driver in drivers], copies=task.copies)


def record_speeds(testbed: Testbed, log: bundle.EventLog, name: str) -> None:
    """Record the speed of each node by a bare loop as counters of this name."""
    for number, found in enumerate(testbed.speeds(), 1):
        log.write(Counter(time.monotonic_ns(), name, found, node_speeds.node_role(number)))


def start_company(task: CellTask, testbed: Testbed, folder: Path, stack: ExitStack) -> list[Driver]:
    """Have every node that takes no part run a copy of its own, and stand still from its first step on until budgets hold.

    Raises
    ------
    SystemFailed
        when one makes no step in time.
    """
    endless = msgspec.structs.replace(task.alone, budget_seconds=ENDLESS_S, budget_steps=ENDLESS_STEPS)
    company = []
    for number, node in enumerate(testbed.company):
        seed = task.seed + SEEDS_APART * (task.shape.nodes + number)
        alone = Task(COMPANY, endless, seed, task.cores, Cluster((node,), testbed.cluster.home))
        company.append(Driver(alone, folder / f"company-{number}", testbed.home))
        stack.callback(company[-1].kill)
    deadline = time.monotonic() + START_LIMIT_S
    waiting = {driver.started: driver for driver in company}
    while waiting:
        begun = waiting.keys() & wait(waiting, max(0.0, deadline - time.monotonic()))
        if not begun:
            raise SystemFailed("a run that is to keep a node busy made no step in its time")
        for descriptor in begun:
            testbed.hold(waiting.pop(descriptor).node)
    return company


def tasks(task: CellTask, directory: Path, folder: Path, testbed: Testbed) -> list[tuple[Task, Path, Node]]:
    """What each host process is told, where its record goes (of copies: in a folder that does not stay), and where it runs."""
    cluster, on_first = testbed.cluster, systems.get(task.system).on_first_node
    if not task.copies:
        place = cluster.nodes[0] if on_first else testbed.home
        return [(Task(task.system, task.workload, task.seed, task.cores, cluster), directory, place)]
    # They do not begin together (and stand still until all have begun): what counts is the time in which all of them run.
    longer = msgspec.structs.replace(task.workload, budget_seconds=task.workload.budget_seconds + APART_S)
    return [
        (
            Task(task.system, longer, task.seed + SEEDS_APART * number, task.cores, Cluster((node,), cluster.home)),
            folder / f"copy-{number}",
            node if on_first else testbed.home,
        )
        for number, node in enumerate(cluster.nodes)
    ]


def watch(task: CellTask, testbed: Testbed, drivers: Sequence[Driver], log: bundle.EventLog) -> None:
    """Follow the system to its end.

    Raises
    ------
    SystemFailed
        when it fails, or takes too long.
    """
    waiting, running = {driver.started: driver for driver in drivers}, {driver.ended: driver for driver in drivers}
    deadline, limited = time.monotonic() + START_LIMIT_S, False
    while running:
        ready = wait([*waiting, *running], INTERVAL_S)
        for descriptor in waiting.keys() & ready:
            begun = waiting.pop(descriptor)
            if waiting:
                testbed.hold(begun.node)
        for descriptor in running.keys() & ready:
            if (status := running.pop(descriptor).process.wait()) != DONE:
                raise SystemFailed(f"the host process of {task.system} ended with exit status {status}")
        if not waiting and not limited:
            testbed.limit()
            limited = True
            deadline = time.monotonic() + task.workload.budget_seconds + (APART_S if task.copies else 0) + END_LIMIT_S
        if limited:
            for used in testbed.usage():
                log.write(used)
        if time.monotonic() > deadline:
            raise SystemFailed(f"{task.system} {'had not ended' if limited else 'made no step'} in its time")


def collect(directory: Path, records: Sequence[Path], *, copies: bool) -> None:
    """Make one record of what the system and the meter wrote.

    With several copies, counters are kept by copy, and the run has begun when the last copy has.
    """
    meter = (directory / METER).read_bytes()
    if not copies:
        with (directory / EVENTS).open("ab") as file:
            file.write(meter)
    else:
        kept: list[AnyEvent] = []
        firsts = []
        for number, record in enumerate(records):
            for event in bundle.read_events(record):
                match event:
                    case FirstStep():
                        firsts.append(event)
                    case Progress() | Process() | Counter():
                        kept.append(msgspec.structs.replace(event, role=f"copy {number} {event.role}".rstrip()))
                    case _:
                        continue
        kept += [max(firsts, key=lambda first: first.ns)] if len(firsts) == len(records) else []
        with (directory / EVENTS).open("wb") as file:
            file.writelines(bundle.encode_event(event) + b"\n" for event in kept)
            file.write(meter)
    (directory / METER).unlink()


def main(directory: Path, parent: int) -> int:
    """Measure the task of a directory."""
    task = msgspec.json.decode((directory / TASK).read_bytes(), type=CellTask)
    serve_a_runner(parent, task.cores, "tj-meter")
    # A system that failed has said itself what went wrong.
    return status_of(lambda: measure(task, directory), SystemFailed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
