"""Runs a session: fresh processes, block by block, each result published whole or not at all.

A cell is `<cell>.partial/` until it is measured and evaluated; a rename makes it a bundle. A cell that failed is
finished, as failed. A block that was interrupted is run again whole: what it had is moved to `superseded/`, where
reports do not look.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from baselines import system as systems
from baselines.system import System, Task
from baselines.workload import Workload
from suites import bundle, environment
from suites.bundle import PARTIAL, Episode, FirstStep, Manifest, Phase, Snapshot
from suites.cli import ConfigError
from suites.evaluator import evaluate
from suites.plan import Cell, Plan, read
from suites.progress import Reporter
from suites.testbed import local
from tianji.config import convert

SESSION = "session.json"
MEASURED_SHARE = 0.8
"""Of a cell's time, for the progress bar: the rest is evaluation."""


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


def run(plan: Plan, out: Path) -> list[Manifest]:
    """Run what is left of a session; returns the manifests of all its cells, in order."""
    todo = [cells for cells in plan.blocks() if not all((out / c.directory / "bundle.json").exists() for c in cells)]
    for cells in todo:
        for cell in cells:
            _supersede(out, cell)
    with Reporter([cell for cells in todo for cell in cells]) as reporter:
        for cells in todo:
            for cell in cells:
                reporter.begin(cell)
                manifest = run_cell(plan, cell, out, reporter.update)
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


def run_cell(plan: Plan, cell: Cell, out: Path, progress: Callable[[float, str], None]) -> Manifest:
    """Measure, evaluate and publish one cell."""
    workload = convert(plan.workloads[cell.workload], Workload, f"workload {cell.workload}")
    under_test = systems.get(cell.system)
    task = Task(cell.system, workload, cell.seed, plan.cores)
    partial = out / (cell.directory + PARTIAL)
    partial.mkdir()
    surroundings = environment.manifest()

    def watch() -> None:
        # Snapshots are named by their steps: the newest name says how far the run is.
        steps = max((int(p.stem) for p in (partial / "snapshots").glob("*.safetensors")), default=0)
        share = steps / workload.budget_steps
        progress(share * MEASURED_SHARE, f"{steps:,} of {workload.budget_steps:,} steps")

    outcome = local.run(under_test, task, partial, watch)
    events = _repair(partial / "events.jsonl")
    snapshots = [event for event in events if isinstance(event, Snapshot)]
    failure = _failure(outcome, events, snapshots)
    later: list[bundle.AnyEvent] = list(outcome.usage)
    if failure is None:
        later += evaluate(
            partial,
            workload,
            snapshots,
            lambda share: progress(MEASURED_SHARE + (1 - MEASURED_SHARE) * share, "evaluating snapshots"),
        )
    with (partial / "events.jsonl").open("ab") as file:
        file.writelines(bundle.encode_event(event) + b"\n" for event in later)
    (partial / "task.json").unlink()
    manifest = Manifest(
        schema=bundle.SCHEMA,
        status="completed" if failure is None else "failed",
        suite=plan.suite,
        profile=plan.profile,
        workload=cell.workload,
        system=cell.system,
        system_title=under_test.title,
        seed=cell.seed,
        replica=cell.replica,
        block=cell.block,
        position=cell.position,
        session=plan.session,
        cores=len(plan.cores),
        division=workload.division,
        configuration={"workload": plan.workloads[cell.workload], "system": under_test.settings(task)},
        deviations=under_test.deviations(task),
        environment=surroundings,
        phases_s=_phases(events),
        exit_status=outcome.exit_status,
        error=failure,
    )
    _scrub_log(partial / "output.log")
    final = bundle.publish(partial, manifest)
    return bundle.read(final).manifest


def _repair(path: Path) -> list[bundle.AnyEvent]:
    """Events of a run; a last line that was cut short by a kill is dropped."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data or not path.exists():
        path.write_bytes(whole)
    return bundle.read_events(path)


def _failure(outcome: local.Outcome, events: list[bundle.AnyEvent], snapshots: list[Snapshot]) -> str | None:
    """Why the run does not count, in the words of its output; None when it does."""
    if outcome.exit_status is None:
        return f"killed: it had not ended when its time was over\n{outcome.tail}".strip()
    if outcome.exit_status != 0:
        return f"exit status {outcome.exit_status}\n{outcome.tail}".strip()
    if not snapshots or not any(isinstance(event, FirstStep) for event in events):
        return f"ended without a first step and a snapshot\n{outcome.tail}".strip()
    return None


def _phases(events: list[bundle.AnyEvent]) -> dict[str, float]:
    """Seconds of set-up (to the first environment step), of the measured phase and of teardown."""
    starts = {event.name: event.ns for event in events if isinstance(event, Phase)}
    first = next((event.ns for event in events if isinstance(event, FirstStep)), None)
    last = max((event.ns for event in events if isinstance(event, Snapshot | Episode)), default=None)
    phases = {}
    if "setup" in starts and first is not None:
        phases["setup"] = (first - starts["setup"]) / 1e9
    if first is not None and last is not None:
        phases["measured"] = (last - first) / 1e9
    return phases


def _scrub_log(path: Path) -> None:
    path.write_text(bundle.scrub(path.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")


def _last_line(text: str) -> str:
    return text.splitlines()[-1]


def runnable(names: tuple[str, ...]) -> dict[str, System]:
    """The systems of these names.

    Raises
    ------
    ConfigError
        for an unknown one, or one that cannot run here.
    """
    found = {}
    for name in names:
        found[name] = systems.get(name)
        if reason := found[name].available():
            raise ConfigError(f"system {name} cannot run here: {reason}; install it, or leave it out with --systems")
    return found
