"""Runs a session block by block in fresh processes. Each result is published whole or not at all.

A bare loop before and after each run says how fast the machine was.
A block in which that changed runs again. The loop alone decides.

A cell is in `<cell>.partial/` until it is measured and evaluated; a rename then makes it a bundle. A failed cell is finished
and marked as failed. An interrupted block is run again whole. Its earlier cells move to `superseded/`, which reports ignore.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from programs.cli import ConfigError
from suites.records import bundle, machine, statement
from suites.records.bundle import PARTIAL, Manifest
from suites.records.causes import EXIT, cause
from suites.records.events import AnyEvent, Episode, FirstStep, Phase, Progress, Snapshot
from suites.records.limits import BundleError
from suites.session.evaluator import evaluate
from suites.session.plan import Cell, Plan, read
from suites.session.players import PlayerFailed
from suites.session.progress import Reporter
from suites.session.suite import Suite
from suites.testbed import local

SESSION, TASK, EVENTS = "session.json", "task.json", "events.jsonl"
REJECTED = "rejected.jsonl"
"""Events of a failed run that are not of the schema."""
MEASURED_SHARE = 0.8
"""Share of a cell's time for the progress bar, if its snapshots are evaluated. The rest is evaluation."""
BUSY_SHARE = 0.5
"""Load over one minute of an idle machine at most, as a share of the cores that a session uses."""
SMOKE, SMOKE_LOOP_S = "smoke", 0.02
"""A smoke session is no evidence, and takes no time for the machine."""
MOST_REPEATS = 2
"""Times that a block runs again at most, because the machine changed."""
BEFORE = ("testbed", "check", "company", "setup")
"""Phases that come before the first environment step."""


def find_session(out: Path, plan: Plan, resume: bool) -> Plan | None:
    """The plan that the session in a folder was begun with; None where a new one may begin there. Writes nothing.

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
        same = (begun.suite, begun.profile, begun.systems, begun.workloads, len(begun.planned))
        if same != (plan.suite, plan.profile, plan.systems, plan.workloads, len(plan.cells)):
            raise ConfigError(
                f"--out {out}: was begun with suite {begun.suite}, profile {begun.profile}, systems {','.join(begun.systems)}, "
                f"workloads {','.join(begun.workloads)} and {len(begun.planned)} cells; ask for the same, or name a new folder"
            )
        if begun.tuned != plan.tuned:
            raise ConfigError(f"--out {out}: was begun with other --tuned files; give the same, or name a new folder")
        if begun.predictions != plan.predictions:
            raise ConfigError(f"--out {out}: was begun with other --predictions; give the same file, or name a new folder")
        return begun
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out}: exists and is not a session; name a new folder")
    if resume:
        raise ConfigError(f"--out {out}: there is nothing to resume; leave --resume out")
    return None


def open_session(out: Path, plan: Plan, resume: bool) -> Plan:
    """Claim a folder for a plan, or find the plan that a resumed folder was begun with; raises as `find_session` does."""
    begun = find_session(out, plan, resume)
    if begun is not None:
        return begun
    load = round(os.getloadavg()[0], 2)
    plan = msgspec.structs.replace(plan, load_1min=load, noise_floor=machine.noise_floor(), busy=_busy(plan, load))
    out.mkdir(parents=True, exist_ok=True)
    _write(out / statement.FILE, plan.stated())
    # Last: a folder with a session has its stated plan, too.
    _write(out / SESSION, plan)
    return plan


def _busy(plan: Plan, load: float) -> bool:
    """Whether a session begins on a machine with other work.

    Raises
    ------
    ConfigError
        where it does and may not. A smoke session is no evidence: it may.
    """
    most = BUSY_SHARE * len(plan.cores)
    if load <= most:
        return False
    if not plan.busy and plan.profile != SMOKE:
        raise ConfigError(
            f"load {load:g} over one minute, more than {most:g}: a session begins on an idle machine; wait, or add --busy, "
            "which its plan records"
        )
    return True


def _write(path: Path, value: msgspec.Struct) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    temporary.rename(path)


def run(suite: Suite, plan: Plan, out: Path) -> list[Manifest]:
    """Run what is left of a session; returns the manifests of all its cells, in order, with blocks that ran again."""
    while True:
        todo = [cells for cells in plan.blocks() if not all((out / c.directory / "bundle.json").exists() for c in cells)]
        for cells in todo:
            for cell in cells:
                _supersede(out, cell)
        with Reporter([cell for cells in todo for cell in cells]) as reporter:
            for cells in todo:
                for cell in cells:
                    reporter.begin(cell)
                    manifest = run_cell(suite, plan, cell, out, reporter.update)
                    reporter.end(manifest.status if manifest.error is None else f"{manifest.status} ({cause(manifest.error)})")
        manifests = [bundle.read(out / cell.directory).manifest for cell in plan.cells]
        more = _again(plan, manifests) if suite.repeats and plan.profile != SMOKE else plan
        if more is plan:
            return manifests
        plan = more
        _write(out / SESSION, plan)


def _again(plan: Plan, manifests: Sequence[Manifest]) -> Plan:
    """The plan with another run of each block during whose last one the machine changed; the same plan where there is none.

    It follows from the bundles alone, so an interrupted session decides as if it had gone on. What runs came to is not looked
    at.
    """
    environments = {cell.directory: m.environment for cell, m in zip(plan.cells, manifests, strict=True)}
    last: dict[tuple[int, str], list[tuple[Cell, ...]]] = {}
    for cells in plan.blocks():
        first = next((one.of for one in plan.repeats if one.block == cells[0].block), cells[0].block)
        last.setdefault((first, cells[0].setting), []).append(cells)
    for runs in last.values():
        changed = machine.changed(environments[cell.directory] for cell in runs[-1])
        if changed > machine.CHANGED_SHARE and len(runs) <= MOST_REPEATS:
            plan = plan.repeated(runs[-1], changed)
    return plan


def _supersede(out: Path, cell: Cell) -> None:
    """Move what an interrupted block left of a cell out of the way, keeping it."""
    for path in (out / cell.directory, out / (cell.directory + PARTIAL)):
        if path.exists():
            keep = out / "superseded"
            keep.mkdir(exist_ok=True)
            number = sum(1 for _ in keep.glob(f"{path.name}~*"))
            path.rename(keep / f"{path.name}~{number}")


def run_cell(suite: Suite, plan: Plan, cell: Cell, out: Path, progress: Callable[[float, str], None]) -> Manifest:
    """Measure a cell in a fresh process, play its snapshots if they are to be judged, and publish its bundle.

    Parameters
    ----------
    progress
        is told the share that is done, 0 to 1, and what is going on, once or twice a second.
    """
    work = suite.work(plan, cell)
    share = 1.0 if work.judged is None else MEASURED_SHARE
    partial = out / (cell.directory + PARTIAL)
    partial.mkdir()
    surroundings = machine.manifest() | {"noise_floor": plan.noise_floor}
    loop_s = SMOKE_LOOP_S if plan.profile == SMOKE else machine.LOOP_S
    before = machine.bare_loop(plan.cores, loop_s)
    (partial / TASK).write_bytes(msgspec.json.encode(work.task))

    def watch() -> None:
        done, words = suite.progress(work, partial)
        progress(done * share, words)

    outcome = local.run(work.command, partial, work.limit_s, watch)
    surroundings["bare_loop"] = [before, machine.bare_loop(plan.cores, loop_s)]
    (partial / TASK).unlink()
    events, refused = _repair(partial / EVENTS)
    failure = _failure(outcome, refused or suite.lacks(work, events))
    later: list[AnyEvent] = list(outcome.usage)
    if failure is None and work.judged is not None:
        snapshots = [event for event in events if isinstance(event, Snapshot)]
        try:
            later += list(
                evaluate(
                    partial,
                    work.judged,
                    snapshots,
                    lambda done: progress(share + (1 - share) * done, "evaluating snapshots"),
                    stop_at_goal=work.stop_at_goal,
                    player=work.player,
                )
            )
        except (ConfigError, PlayerFailed) as error:
            failure = f"its snapshots cannot be evaluated: {error}"
    with (partial / EVENTS).open("ab") as file:
        file.writelines(bundle.encode_event(event) + b"\n" for event in later)
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
        options=cell.options,
        cores=len(plan.cores),
        environment=surroundings,
        phases_s=phases(events),
        exit_status=outcome.exit_status,
        error=failure,
        **suite.finished(work, partial),
    )
    log = partial / "output.log"
    log.write_text(bundle.scrub(log.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")
    return bundle.read(bundle.publish(partial, manifest)).manifest


def _failure(outcome: local.Outcome, lacks: str | None) -> str | None:
    """Why a run is no result, and the last lines of its output; None when it is one."""
    if outcome.exit_status is None:
        why: str | None = "killed: it had not ended when its time was over"
    else:
        why = f"{EXIT} {outcome.exit_status}" if outcome.exit_status else lacks
    return None if why is None else f"{why}\n{outcome.tail}".strip()


def phases(events: Sequence[AnyEvent]) -> dict[str, float]:
    """Seconds of each phase before the first environment step, and of the measured phase, which begins with it.

    A run without environment steps has the phases that it told of. Of several processes that tell of a phase, the first counts.
    """
    starts: dict[str, int] = {}
    for event in events:
        if isinstance(event, Phase):
            starts[event.name] = min(event.ns, starts.get(event.name, event.ns))
    if first := [event.ns for event in events if isinstance(event, FirstStep)]:
        starts = {name: ns for name, ns in starts.items() if name in BEFORE} | {"measured": min(first)}
    marks = sorted(starts.items(), key=lambda mark: mark[1])
    ends = [event.ns for event in events if isinstance(event, Snapshot | Episode | Progress)] if first else []
    marks += [("", max(ends))] if ends else []
    return {name: (end - ns) / 1e9 for (name, ns), (_, end) in pairwise(marks)}


def _repair(path: Path) -> tuple[list[AnyEvent], str | None]:
    """Events of a run, and why they are refused, if they are; a last line that was cut short by a kill is dropped."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data or not path.exists():
        path.write_bytes(whole)
    try:
        return bundle.read_events(path), None
    except BundleError as error:
        path.rename(path.with_name(REJECTED))
        path.touch()
        return [], str(error)
