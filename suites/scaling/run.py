"""Runs the scaling suite: a system on so many nodes, or as many copies of it that know nothing of each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from baselines import system as systems
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.records.bundle import Manifest
from suites.records.events import AnyEvent, Episode, FirstStep, Phase, Progress, Snapshot
from suites.scaling import sweep
from suites.scaling.analysis import COPIES
from suites.scaling.cell import TOLD, CellTask, Told
from suites.scaling.experiment import Experiment
from suites.scaling.sweep import Part, Profile
from suites.session import catalogue, runner
from suites.session.evaluator import evaluate
from suites.session.plan import Cell, Plan, block_of, new_session
from suites.session.suite import Request, Suite
from suites.testbed.base import Name, Shape
from suites.testbed.registry import unavailable
from tianji.settings import convert

TESTBEDS: tuple[Name, ...] = ("netns", "local", "ray")
MEASURED_SHARE = 0.8
"""Of a cell's time that is evaluated, for the progress bar."""


class Scaling(Suite):
    """Nodes against throughput and time."""

    name, about, profiles = sweep.NAME, sweep.ABOUT, sweep.PROFILES
    testbeds = TESTBEDS
    sized = True

    def workloads(self) -> dict[str, str]:
        return {experiment.id: experiment.title for experiment in sweep.EXPERIMENTS.values()}

    def systems(self) -> dict[str, tuple[str, str | None]]:
        found = {}
        for name in systems.names():
            system = systems.get(name)
            if _spreads(name):
                found[name] = system.title, system.available()
                found[name + COPIES] = f"{system.title}, one on each node that knows nothing of the others", system.available()
        return found

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        profile: Profile = self.profiles[request.profile]
        testbed = request.testbed or TESTBEDS[0]
        if reason := unavailable(testbed):
            raise ConfigError(f"testbed {testbed} cannot be had here: {reason}; --testbed local needs nothing")
        parts = {name: _part(profile, name, request.systems, request.nodes) for name in request.workloads or profile.workloads}
        cells: list[Cell] = []
        skipped: list[str] = []
        workloads = {}
        for block in range(request.blocks or profile.blocks):
            for name, part in parts.items():
                experiment = sweep.EXPERIMENTS[name]
                workload = catalogue.load(experiment.workload)
                workloads[name] = {
                    "experiment": msgspec.to_builtins(experiment),
                    "workload": msgspec.to_builtins(workload),
                    "testbed": testbed,
                    "largest": max(max(sizes) for sizes in part.values()),
                }
                for nodes in sorted({size for sizes in part.values() for size in sizes}):
                    asked = [system for system, sizes in part.items() if nodes in sizes]
                    able = list(_able(experiment, workload, nodes, asked, skipped))
                    largest = nodes == workloads[name]["largest"] and not request.once
                    twice = profile.twice if largest and profile.twice in able else None
                    cells += block_of(name, able, twice, block, first_seed=request.first_seed, nodes=nodes) if able else []
        if not cells:
            raise ConfigError(f"nothing is left to run: {'; '.join(dict.fromkeys(skipped))}")
        plan = Plan(
            session=new_session(),
            suite=self.name,
            profile=request.profile,
            workloads=msgspec.json.decode(msgspec.json.encode(workloads)),
            systems=tuple(dict.fromkeys(cell.system for cell in cells)),
            cores=request.cores,
            cells=tuple(cells),
        )
        return plan, list(dict.fromkeys(skipped))

    def run_cell(self, plan: Plan, cell: Cell, out: Path, progress: Callable[[float, str], None]) -> Manifest:
        asked = plan.workloads[cell.workload]
        experiment = msgspec.convert(asked["experiment"], Experiment)
        name, copies = cell.system.removesuffix(COPIES), cell.system.endswith(COPIES)
        under_test = systems.get(name)
        assert cell.nodes is not None
        base = convert(asked["workload"], Workload, f"workload {experiment.workload}")
        workload = experiment.scaled(base, 1 if copies else cell.nodes)
        emulated = asked["testbed"] == "netns"
        shape = Shape(
            nodes=cell.nodes,
            cores=experiment.cores if emulated else None,
            link_bits_per_s=experiment.link_bits_per_s if emulated else None,
            company=asked["largest"] - cell.nodes if emulated and experiment.cores is not None else 0,
        )
        task = CellTask(
            system=name,
            workload=workload,
            seed=cell.seed,
            cores=plan.cores,
            testbed=asked["testbed"],
            shape=shape,
            copies=copies,
            alone=experiment.scaled(base, 1),
        )

        def watch(folder: Path) -> None:
            if not experiment.to_threshold:
                meter = folder / "meter.jsonl"
                seen = meter.read_bytes().count(b'"node_usage"') if meter.exists() else 0
                progress(min(1.0, seen / shape.nodes / (2 * experiment.seconds)), f"{cell.nodes} nodes")
                return
            steps = max((int(p.stem) for p in (folder / "snapshots").glob("*.safetensors")), default=0)
            share = steps / workload.budget_steps
            progress(share * MEASURED_SHARE, f"{cell.nodes} nodes, {steps:,} of {workload.budget_steps:,} steps")

        command = [sys.executable, "-m", "suites.scaling.cell"]
        measured = runner.measure(plan, cell, out, task, command, workload.budget_seconds, watch)
        failure = measured.crash()
        if failure is None and not any(isinstance(event, FirstStep) for event in measured.events):
            failure = f"ended without a first step\n{measured.outcome.tail}".strip()
        later: list[AnyEvent] = list(measured.outcome.usage)
        if failure is None and experiment.to_threshold:
            snapshots = [event for event in measured.events if isinstance(event, Snapshot)]
            later += evaluate(
                measured.partial,
                workload,
                snapshots,
                lambda share: progress(MEASURED_SHARE + (1 - MEASURED_SHARE) * share, "evaluating snapshots"),
            )
        found = measured.partial / TOLD
        told = msgspec.json.decode(found.read_bytes(), type=Told) if found.exists() else Told({}, [])
        found.unlink(missing_ok=True)
        return measured.publish(
            failure,
            later,
            system_title=under_test.title,
            division=workload.division,
            testbed=task.testbed,
            nodes=cell.nodes,
            scaling=experiment.scaling,
            configuration={
                "workload": msgspec.to_builtins(workload),
                "regime": {
                    "id": experiment.regime,
                    "cores": shape.cores,
                    "link_bits_per_s": shape.link_bits_per_s,
                },
                "company": shape.company,
                "system": told.settings,
            },
            deviations=told.deviations,
            phases_s=_phases(measured.events),
        )


def _part(profile: Profile, name: str, asked: tuple[str, ...] | None, nodes: tuple[int, ...] | None) -> Part:
    """Which systems a profile runs on how many nodes.

    An experiment that is not in it is run as its first one is; a system that is not, on as many nodes as the others together.

    Parameters
    ----------
    asked, nodes
        these systems alone, on these numbers of nodes alone; None: as the profile says.

    Raises
    ------
    ConfigError
        for an experiment that is unknown.
    """
    if name not in sweep.EXPERIMENTS:
        raise ConfigError(f"unknown workload {name!r} of suite scaling; known: {', '.join(sweep.EXPERIMENTS)}")
    part = profile.parts.get(name, next(iter(profile.parts.values())))
    everywhere = tuple(sorted({size for sizes in part.values() for size in sizes}))
    chosen = part if asked is None else {system: part.get(system, everywhere) for system in asked}
    return chosen if nodes is None else dict.fromkeys(chosen, nodes)


def _spreads(name: str) -> bool:
    """Whether a system runs on several nodes at all."""
    system = systems.get(name)
    return any(
        system.unable(workload) is None and system.unable_on(workload, 2) is None
        for workload in map(catalogue.load, {experiment.workload for experiment in sweep.EXPERIMENTS.values()})
    )


def _able(experiment: Experiment, workload: Workload, nodes: int, asked: Sequence[str], skipped: list[str]) -> Iterator[str]:
    """Those of the systems that can run this on so many nodes; what is left out is noted."""
    for name in asked:
        system = systems.get(name.removesuffix(COPIES))
        scaled = experiment.scaled(workload, nodes)
        reason = system.available() or system.unable(scaled) or system.unable_on(scaled, nodes)
        if reason is None:
            yield name
        else:
            skipped.append(f"system {name} on {nodes} nodes cannot run {experiment.id}: {reason}")


def _phases(events: list[AnyEvent]) -> dict[str, float]:
    """Seconds to make the nodes and to check them, of the system's set-up to its first step, and of the measured phase."""
    starts: dict[str, int] = {}
    for event in events:
        if isinstance(event, Phase):
            starts[event.name] = min(event.ns, starts.get(event.name, event.ns))
    first = next((event.ns for event in events if isinstance(event, FirstStep)), None)
    last = max((event.ns for event in events if isinstance(event, Snapshot | Episode | Progress)), default=None)
    marks = [(name, starts.get(name)) for name in ("testbed", "check", "company", "setup")]
    marks += [("measured", first), ("", last)]
    known = [(name, ns) for name, ns in marks if ns is not None]
    return {name: (following - ns) / 1e9 for (name, ns), (_, following) in pairwise(known)}
