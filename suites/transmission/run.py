"""Runs the transmission suite: one pipe with a number of explorers, over all sizes of one workload."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from programs.cli import ConfigError
from suites.records.events import AnyEvent, Transfer
from suites.session.plan import Cell, Plan, block_of
from suites.session.suite import Request, Suite, Work
from suites.testbed import netns
from suites.transmission import sweep
from suites.transmission.cell import Task
from suites.transmission.pipe import PIPES
from suites.transmission.traffic import Extent, Traffic

LIMIT_S = 300.0
"""Of one cell beside set-up: the slowest pipe with the most explorers needs a minute."""


class Transmission(Suite):
    """Bandwidth and latency."""

    name, about, profiles = sweep.NAME, sweep.ABOUT, sweep.PROFILES
    testbeds = ("local", "netns")

    def workloads(self) -> dict[str, str]:
        return {name: traffic.title for name, traffic in sweep.WORKLOADS.items()}

    def systems(self) -> dict[str, tuple[str, str | None]]:
        return {name: (pipe.title, pipe.available()) for name in PIPES.names() for pipe in [PIPES.get(name)]}

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        profile = sweep.PROFILES[request.profile]
        names = request.systems or profile.systems
        pipes = {name: PIPES.get(name) for name in names}
        chosen = request.workloads or profile.workloads
        for name in chosen:
            if name not in sweep.WORKLOADS:
                raise ConfigError(f"unknown workload {name!r}; known: {', '.join(sweep.WORKLOADS)}")
        # A workload that the profile leaves out is measured as far as the most thorough profile would.
        extents = {name: profile.extents.get(name) or sweep.PROFILES["paper"].extents[name] for name in chosen}
        skipped: list[str] = []
        cannot = {name: reason for name, pipe in pipes.items() if (reason := pipe.available())}
        skipped += [f"{name}: {reason}" for name, reason in cannot.items()]
        emulated = [name for name in chosen if sweep.WORKLOADS[name].testbed == "netns"]
        apart = netns.unavailable() if emulated and request.testbed != "local" else None
        running: dict[str, list[str]] = {}
        for workload in chosen:
            traffic = sweep.WORKLOADS[workload]
            if request.testbed not in (None, traffic.testbed):
                continue
            if traffic.testbed == "netns" and apart is not None:
                skipped.append(f"{workload}: {apart}")
                continue
            running[workload] = []
            for name, pipe in pipes.items():
                if name in cannot:
                    continue
                if traffic.testbed not in pipe.testbeds:
                    skipped.append(f"{name} in {workload}: it is for {' and '.join(pipe.testbeds)} only")
                else:
                    running[workload].append(name)
        cells = [
            cell
            for block in range(request.blocks or profile.blocks)
            for workload, systems in running.items()
            if systems
            for extent in extents[workload]
            for explorers in extent.explorers
            for cell in block_of(
                workload, systems, None if request.once else profile.twice, block, explorers, request.first_seed
            )
        ]
        if not cells:
            raise ConfigError(f"nothing is left to run: {'; '.join(skipped) or f'no workload on testbed {request.testbed}'}")
        workloads = {name: {"traffic": sweep.WORKLOADS[name], "extents": extents[name]} for name in running}
        return self.session(request, workloads, names, cells), skipped

    def work(self, plan: Plan, cell: Cell) -> Work:
        workload = plan.workloads[cell.workload]
        traffic = msgspec.convert(workload["traffic"], Traffic)
        extents = msgspec.convert(workload["extents"], list[Extent])
        extent = next(extent for extent in extents if cell.explorers in extent.explorers)
        pipe = PIPES.get(cell.system)
        assert cell.explorers is not None
        return Work(
            task=Task(pipe=cell.system, traffic=traffic, extent=extent, explorers=cell.explorers, cores=plan.cores),
            command=[sys.executable, "-m", "suites.transmission.cell"],
            limit_s=LIMIT_S,
            manifest={
                "system_title": pipe.title,
                "testbed": traffic.testbed,
                "nodes": traffic.nodes,
                "configuration": {
                    "workload": msgspec.to_builtins(traffic),
                    "extent": msgspec.to_builtins(extent),
                    "system": pipe.settings(),
                },
                "deviations": [],
            },
        )

    def progress(self, work: Work, folder: Path) -> tuple[float, str]:
        path, sizes = folder / "events.jsonl", _sizes(work)
        done = path.read_bytes().count(b'"transfer"') if path.exists() else 0
        return done / len(sizes), f"{done} of {len(sizes)} sizes"

    def lacks(self, work: Work, events: Sequence[AnyEvent]) -> str | None:
        wanted, sizes = _sizes(work), {event.size_bytes for event in events if isinstance(event, Transfer)}
        return None if sizes == wanted else f"ended with {len(sizes)} of {len(wanted)} sizes"


def _sizes(work: Work) -> set[int]:
    assert isinstance(work.task, Task)
    return set(work.task.extent.sizes)
