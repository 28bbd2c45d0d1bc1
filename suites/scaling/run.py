"""Runs the scaling suite: a system on N nodes, or N independent copies of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baselines import system as systems
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.scaling import sweep
from suites.scaling.analysis import COPIES
from suites.scaling.cell import TOLD, CellTask, Told
from suites.scaling.experiment import Experiment
from suites.scaling.sweep import Part, Profile
from suites.session import catalogue
from suites.session.plan import Cell, Plan, block_of
from suites.session.suite import Request, Suite, Work
from suites.testbed.base import Name, Shape
from suites.testbed.registry import unavailable
from tianji.settings import convert

TESTBEDS: tuple[Name, ...] = ("netns", "local", "ray")
MEASURED_SHARE = 0.8
"""Share of an evaluated cell's time that is measurement, for the progress bar."""


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
                largest = max(max(sizes) for sizes in part.values())
                if request.among is not None and request.among < largest:
                    raise ConfigError(f"--among {request.among}: {name} is run on {largest} nodes; give at least as many")
                workloads[name] = {
                    "experiment": msgspec.to_builtins(experiment),
                    "workload": msgspec.to_builtins(workload),
                    "testbed": testbed,
                    "among": request.among or largest,
                }
                for nodes in sorted({size for sizes in part.values() for size in sizes}):
                    asked = [system for system, sizes in part.items() if nodes in sizes]
                    able = list(_able(experiment, workload, nodes, asked, skipped))
                    again = nodes == largest and not request.once
                    twice = profile.twice if again and profile.twice in able else None
                    cells += block_of(name, able, twice, block, first_seed=request.first_seed, nodes=nodes) if able else []
        if not cells:
            raise ConfigError(f"nothing is left to run: {'; '.join(dict.fromkeys(skipped))}")
        used = dict.fromkeys(cell.system for cell in cells)
        return self.session(request, workloads, used, cells), list(dict.fromkeys(skipped))

    def work(self, plan: Plan, cell: Cell) -> Work:
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
            company=asked["among"] - cell.nodes if emulated and experiment.cores is not None else 0,
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

        return Work(
            task=task,
            command=[sys.executable, "-m", "suites.scaling.cell"],
            limit_s=workload.budget_seconds,
            # Copies keep no snapshots: what counts is the time in which all of them run.
            judged=workload if experiment.to_threshold and not copies else None,
            player=under_test.player(),
            manifest={
                "system_title": under_test.title,
                "division": workload.division,
                "testbed": task.testbed,
                "nodes": cell.nodes,
                "scaling": experiment.scaling,
                "configuration": {
                    "workload": msgspec.to_builtins(workload),
                    "regime": {"id": experiment.regime, "cores": shape.cores, "link_bits_per_s": shape.link_bits_per_s},
                    "company": shape.company,
                },
                "deviations": [],
            },
        )

    def progress(self, work: Work, folder: Path) -> tuple[float, str]:
        assert isinstance(work.task, CellTask)
        nodes = work.task.shape.nodes
        if work.judged is not None:
            share, words = super().progress(work, folder)
            return share, f"{nodes} nodes, {words}"
        meter = folder / "meter.jsonl"
        seen = meter.read_bytes().count(b'"node_usage"') if meter.exists() else 0
        return min(1.0, seen / nodes / (2 * work.task.workload.budget_seconds)), f"{nodes} nodes"

    def finished(self, work: Work, folder: Path) -> dict[str, Any]:
        found = folder / TOLD
        told = msgspec.json.decode(found.read_bytes(), type=Told) if found.exists() else Told({}, [])
        found.unlink(missing_ok=True)
        configuration = {**work.manifest["configuration"], "system": told.settings}
        return {**work.manifest, "configuration": configuration, "deviations": told.deviations}


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
    """Systems that can run this on `nodes` nodes. Others are added to `skipped`."""
    for name in asked:
        system = systems.get(name.removesuffix(COPIES))
        scaled = experiment.scaled(workload, nodes)
        reason = system.available() or system.unable(scaled) or system.unable_on(scaled, nodes)
        if reason is None:
            yield name
        else:
            skipped.append(f"system {name} on {nodes} nodes cannot run {experiment.id}: {reason}")
