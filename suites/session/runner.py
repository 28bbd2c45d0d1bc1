"""Runs a session: fresh processes, block by block, each result published whole or not at all.

A cell is `<cell>.partial/` until it is measured and evaluated; a rename makes it a bundle. A cell that failed is
finished, as failed. A block that was interrupted is run again whole: what it had is moved to `superseded/`, where
reports do not look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from programs.cli import ConfigError
from suites.records import bundle, machine
from suites.records.bundle import PARTIAL, Manifest
from suites.records.events import AnyEvent
from suites.session.plan import Cell, Plan, read
from suites.session.progress import Reporter
from suites.session.suite import Suite
from suites.testbed import local

SESSION, TASK = "session.json", "task.json"


def open_session(out: Path, plan: Plan, resume: bool) -> Plan:
    """Claim a folder for a plan, or find the plan that a resumed folder was begun with.

    Raises
    ------
    ConfigError
        when the folder holds something else; nothing in it is touched.
    """
    path = out / SESSION
    if path.exists():
        begun = read(path)
        if not resume:
            raise ConfigError(
                f"--out {out}: holds a session of suite {begun.suite}; add --resume to go on with it, or name a new folder"
            )
        same = (begun.suite, begun.profile, begun.systems, begun.workloads, len(begun.cells))
        if same != (plan.suite, plan.profile, plan.systems, plan.workloads, len(plan.cells)):
            raise ConfigError(
                f"--out {out}: was begun with suite {begun.suite}, profile {begun.profile}, systems {','.join(begun.systems)}, "
                f"workloads {','.join(begun.workloads)} and {len(begun.cells)} cells; ask for the same, or name a new folder"
            )
        return begun
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out}: exists and is not a session; name a new folder")
    if resume:
        raise ConfigError(f"--out {out}: there is nothing to resume; leave --resume out")
    out.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")
    temporary.rename(path)
    return plan


def run(suite: Suite, plan: Plan, out: Path) -> list[Manifest]:
    """Run what is left of a session; returns the manifests of all its cells, in order."""
    todo = [cells for cells in plan.blocks() if not all((out / c.directory / "bundle.json").exists() for c in cells)]
    for cells in todo:
        for cell in cells:
            _supersede(out, cell)
    with Reporter([cell for cells in todo for cell in cells]) as reporter:
        for cells in todo:
            for cell in cells:
                reporter.begin(cell)
                manifest = suite.run_cell(plan, cell, out, reporter.update)
                reporter.end(manifest.status if manifest.error is None else f"{manifest.status} ({_last_line(manifest.error)})")
    return [bundle.read(out / cell.directory).manifest for cell in plan.cells]


def _supersede(out: Path, cell: Cell) -> None:
    """Move what an interrupted block left of a cell out of the way, keeping it."""
    for path in (out / cell.directory, out / (cell.directory + PARTIAL)):
        if path.exists():
            keep = out / "superseded"
            keep.mkdir(exist_ok=True)
            number = sum(1 for _ in keep.glob(f"{path.name}~*"))
            path.rename(keep / f"{path.name}~{number}")


def measure(
    plan: Plan, cell: Cell, out: Path, task: Struct, command: Sequence[str], limit_s: float, watch: Callable[[Path], None]
) -> Measured:
    """Run the host process of a cell to its end, in the folder that becomes its bundle.

    Parameters
    ----------
    task
        written to `task.json` for the process.
    command
        that is given the folder and its parent's process id.
    watch
        is called with the folder once or twice a second meanwhile.
    """
    partial = out / (cell.directory + PARTIAL)
    partial.mkdir()
    surroundings = machine.manifest()
    (partial / TASK).write_bytes(msgspec.json.encode(task))
    outcome = local.run(command, partial, limit_s, lambda: watch(partial))
    (partial / TASK).unlink()
    return Measured(plan, cell, partial, surroundings, outcome, _repair(partial / "events.jsonl"))


@dataclass
class Measured:
    """A cell whose process has ended, and what it left."""

    plan: Plan
    cell: Cell
    partial: Path
    surroundings: dict[str, Any]
    outcome: local.Outcome
    events: list[AnyEvent]

    def crash(self) -> str | None:
        """Why the process failed, in the words of its output; None when it ended well."""
        if self.outcome.exit_status is None:
            return f"killed: it had not ended when its time was over\n{self.outcome.tail}".strip()
        if self.outcome.exit_status != 0:
            return f"exit status {self.outcome.exit_status}\n{self.outcome.tail}".strip()
        return None

    def publish(self, failure: str | None, later: Sequence[AnyEvent], **particulars: Any) -> Manifest:
        """Add events that came after the run, and make it a bundle.

        Parameters
        ----------
        particulars
            what the suite says of it: fields of the manifest that are not of the plan, the cell or the machine.
        """
        with (self.partial / "events.jsonl").open("ab") as file:
            file.writelines(bundle.encode_event(event) + b"\n" for event in later)
        plan, cell = self.plan, self.cell
        manifest = Manifest(
            schema=bundle.SCHEMA,
            status="completed" if failure is None else "failed",
            suite=plan.suite,
            profile=plan.profile,
            workload=cell.workload,
            system=cell.system,
            seed=cell.seed,
            replica=cell.replica,
            block=cell.block,
            position=cell.position,
            session=plan.session,
            explorers=cell.explorers,
            cores=len(plan.cores),
            environment=self.surroundings,
            exit_status=self.outcome.exit_status,
            error=failure,
            **particulars,
        )
        log = self.partial / "output.log"
        log.write_text(bundle.scrub(log.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")
        return bundle.read(bundle.publish(self.partial, manifest)).manifest


def _repair(path: Path) -> list[AnyEvent]:
    """Events of a run; a last line that was cut short by a kill is dropped."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data or not path.exists():
        path.write_bytes(whole)
    return bundle.read_events(path)


def _last_line(text: str) -> str:
    return text.splitlines()[-1]
