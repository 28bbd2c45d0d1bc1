"""Interface of a suite: it checks a request, plans the cells, and says how one cell is measured.

The runner does everything else, in the same way for all suites. Other packages add a suite by the entry-point group
`tianji_bench.suites`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from baselines.workload import Workload
from programs.registry import Registry
from suites.records.events import AnyEvent, FirstStep, Snapshot
from suites.records.predictions import Predictions
from suites.records.tuned import Tuned
from suites.session.plan import Cell, Plan, new_session


class Request(Struct, frozen=True, kw_only=True):
    """Request of a user for a session. None: the profile decides."""

    profile: str
    systems: tuple[str, ...] | None
    workloads: tuple[str, ...] | None
    blocks: int | None
    first_seed: int
    """Seed of the first block. The others count up from it."""
    once: bool
    """Whether no system runs twice in a block."""
    testbed: str | None
    nodes: tuple[int, ...] | None = None
    """Numbers of nodes, for suites that vary them."""
    among: int | None = None
    """Number of nodes that are there in every run, for suites that vary it; None: the largest number asked for."""
    cores: tuple[int, ...]
    claim: str | None = None
    """What the session is for."""
    looks: int = 1
    """How often results are looked at before measuring ends."""
    busy: bool = False
    """Whether it may begin on a machine that is not idle."""
    tuned: tuple[Tuned, ...] = ()
    """Settings of the systems in the open division; empty: the closed one."""
    predictions: Predictions | None = None
    """What is predicted of its cells."""


class Work(Struct, frozen=True, kw_only=True):
    """How a cell is measured, and what its bundle says beside what the runner knows."""

    task: Struct
    """Written to `task.json` for the process."""
    command: Sequence[str]
    """Command, to which the cell's folder and its parent's process id are added."""
    limit_s: float
    """Most seconds besides set-up and teardown."""
    judged: Workload | None = None
    """Whose snapshots are played afterwards; None: nothing is."""
    stop_at_goal: bool = False
    """Whether they are played not far beyond the crossing."""
    player: Sequence[str] | None = None
    """Command that plays those that are no flat vectors (`System.player`)."""
    manifest: Mapping[str, Any]
    """Fields of the manifest that are not of the plan, the cell or the machine."""


class Suite(ABC):
    """One kind of measurement."""

    name: str
    about: str
    profiles: Mapping[str, Any]
    testbeds: tuple[str, ...]
    sized: bool = False
    """Whether it asks what the number of nodes does."""
    tunable: bool = False
    """Whether it has an open division."""
    repeats: bool = False
    """Whether a block runs again if the machine changed during it: where seconds of whole runs are compared."""
    foretold: bool = False
    """Whether its plans may state predictions."""

    @abstractmethod
    def workloads(self) -> dict[str, str]:
        """Ids and titles of what it can run."""

    @abstractmethod
    def systems(self) -> dict[str, tuple[str, str | None]]:
        """Ids of what it can measure: title, and why that cannot run here."""

    @abstractmethod
    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        """Lay a session out, and say what was left out because it cannot run here.

        Raises
        ------
        ConfigError
            for what is unknown, does not fit together, or leaves nothing to run.
        """

    def session(self, request: Request, workloads: Mapping[str, Any], systems: Iterable[str], cells: Iterable[Cell]) -> Plan:
        """The plan of these cells; workloads become plain data, as the session's file will give them back."""
        return Plan(
            session=new_session(),
            suite=self.name,
            profile=request.profile,
            workloads=msgspec.json.decode(msgspec.json.encode(workloads)),
            systems=tuple(systems),
            cores=request.cores,
            cells=tuple(cells),
            claim=request.claim,
            looks=request.looks,
            busy=request.busy,
            tuned=request.tuned,
            predictions=request.predictions,
        )

    def before(self, plan: Plan, out: Path) -> None:  # noqa: B027 (a suite may need nothing)
        """Do what is done once a session, before the first cell."""

    @abstractmethod
    def work(self, plan: Plan, cell: Cell) -> Work:
        """How a cell is measured."""

    def progress(self, work: Work, folder: Path) -> tuple[float, str]:
        """Progress of a cell, 0 to 1, and in words. It is called about every second. By default the newest snapshot counts."""
        assert work.judged is not None
        named = (path.stem for path in (folder / "snapshots").glob("*.*"))
        steps = max((int(stem) for stem in named if stem.isdecimal()), default=0)
        return steps / work.judged.budget_steps, f"{steps:,} of {work.judged.budget_steps:,} steps"

    def lacks(self, work: Work, events: Sequence[AnyEvent]) -> str | None:
        """What is missing in a run that ended well, in words; None if it is complete."""
        kinds = {type(event) for event in events}
        if FirstStep not in kinds or (work.judged is not None and Snapshot not in kinds):
            return "ended without a first step" + " and a snapshot" * (work.judged is not None)
        return None

    def finished(self, work: Work, folder: Path) -> dict[str, Any]:
        """The work's fields of the manifest, when the process has ended, with what only it could know."""
        return dict(work.manifest)


SUITES: Registry[type[Suite]] = Registry(
    "tianji_bench.suites",
    {
        "asynchrony": "suites.asynchrony.run:Asynchrony",
        "convergence": "suites.convergence.run:Convergence",
        "disciplines": "suites.disciplines.run:Disciplines",
        "price": "suites.price.run:Price",
        "scaling": "suites.scaling.run:Scaling",
        "staleness": "suites.staleness.run:Staleness",
        "transmission": "suites.transmission.run:Transmission",
    },
    "suite",
)


def every() -> dict[str, Suite]:
    """All suites by name."""
    return {name: SUITES.get(name)() for name in SUITES.names()}
