"""Whether a session is whole: all cells of its plan, with the seeds and the blocks that the plan states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from suites.records import machine
from suites.records.bundle import Manifest
from suites.session.plan import Cell, Plan, Repeat
from suites.session.runner import MOST_REPEATS
from suites.submission.division import TRAINED
from suites.submission.session import Session, Verdict, by_setting, called, some


def check(session: Session, verdict: Verdict, *, earlier: bool) -> None:
    """Compare the runs with the plan, and both with the order that every session has.

    Parameters
    ----------
    earlier
        whether a session may lack its plan, as those do that earlier versions sealed.
    """
    if not session.runs:
        verdict.wrong("it holds no run")
        return
    manifests = session.manifests
    for name in ("session", "suite", "profile"):
        if len(found := {getattr(m, name) for m in manifests}) > 1:
            verdict.wrong(f"its runs are of {len(found)} {name}s ({some(sorted(found))}); a submission is one")
    if undone := [called(m) for m in manifests if m.status == "interrupted"]:
        verdict.wrong(f"{len(undone)} runs were interrupted: {some(undone)}; go on with --resume")
    if session.plan is None:
        say = verdict.note if earlier else verdict.wrong
        say("it has no plan, so that nobody can tell whether runs are missing; seal it with `tianji-bench submit`")
    else:
        _against_plan(session.plan, manifests, verdict)
    if not earlier:
        again = () if session.plan is None else session.plan.repeats
        _repeats(again, manifests, verdict)
        more = {one.block for one in again}
        _blocks([m for m in manifests if m.block not in more], verdict)
    if session.whole:
        _copies(session, verdict)
    if failed := sum(m.status == "failed" for m in manifests):
        verdict.note(f"{failed} of {len(manifests)} runs failed; they stay in the session")


def _identity(one: Cell | Manifest, plan: Plan) -> tuple[Any, ...]:
    """What tells a cell from all others; a plan names nodes only where their number is part of the comparison."""
    sized = any(cell.nodes is not None for cell in plan.cells)
    axes = tuple(sorted((name, repr(value)) for name, value in one.options.items()))
    return (
        one.workload,
        one.system,
        one.replica,
        one.block,
        one.position,
        one.seed,
        one.explorers,
        one.nodes if sized else None,
        axes,
    )


def _against_plan(plan: Plan, manifests: list[Manifest], verdict: Verdict) -> None:
    if others := {m.session for m in manifests} - {plan.session}:
        verdict.wrong(f"its runs are of session {some(sorted(others))}, its plan of {plan.session}")
    if (suite := manifests[0].suite) != plan.suite or manifests[0].profile != plan.profile:
        verdict.wrong(
            f"its runs are of suite {suite}, profile {manifests[0].profile}; its plan of {plan.suite}, {plan.profile}"
        )
    there = Counter(_identity(m, plan) for m in manifests)
    wanted = {_identity(cell, plan): cell for cell in plan.cells}
    if missing := [cell.directory for key, cell in wanted.items() if key not in there]:
        verdict.wrong(
            f"{len(missing)} of {len(plan.cells)} cells of its plan are missing: {some(missing)}; go on with --resume. "
            "Failed runs belong to it, too"
        )
    if more := [called(m) for m in manifests if _identity(m, plan) not in wanted]:
        verdict.wrong(f"{len(more)} runs are not in its plan: {some(more)}")
    if twice := sum(count > 1 for count in there.values()):
        verdict.wrong(f"{twice} cells are there more than once")
    # Other suites make the workload of a run from the plan's.
    trained = [m for m in manifests if m.suite in TRAINED]
    if other := {m.workload for m in trained if m.configuration["workload"] != plan.workloads.get(m.workload)}:
        verdict.wrong(f"runs trained on another workload than the plan states: {some(sorted(other))}")
    if any(m.cores != len(plan.cores) for m in manifests):
        verdict.wrong(f"runs used another number of cores than the {len(plan.cores)} of the plan")


def _blocks(manifests: list[Manifest], verdict: Verdict) -> None:
    """Blocks count up from 0, positions from 0 within a block, and seeds from the first block's."""
    for setting, runs in by_setting(manifests):
        numbers = sorted({m.block for m in runs})
        if numbers != list(range(len(numbers))):
            verdict.wrong(f"{setting}: blocks {some(list(map(str, numbers)))} are there; they must count from 0 without a gap")
        first = min(m.seed - m.block for m in runs)
        for number in numbers:
            block = [m for m in runs if m.block == number]
            if sorted(m.position for m in block) != list(range(len(block))):
                verdict.wrong(f"{setting}, block {number}: positions have a gap; a run was left out")
            if {m.seed for m in block} != {first + number}:
                verdict.wrong(f"{setting}, block {number}: every run must have seed {first + number}")
        everywhere = {(m.system, m.replica) for m in runs if m.block == 0}
        if added := sorted({m.system for m in runs if (m.system, m.replica) not in everywhere}):
            verdict.wrong(f"{setting}: {some(added)} is in later blocks, and not in the first one")


def _repeats(repeats: Sequence[Repeat], manifests: list[Manifest], verdict: Verdict) -> None:
    """A block ran again because of the machine alone, with the same runs, and no more often than is allowed."""
    places = {m.block: m.workload for m in manifests}
    if any(n > MOST_REPEATS for n in Counter((one.of, places.get(one.block)) for one in repeats).values()):
        verdict.wrong(f"a block ran again more than {MOST_REPEATS} times")
    for one in repeats:
        again = [m for m in manifests if m.block == one.block]
        workloads = {m.workload for m in again}
        own = [m for m in manifests if m.workload in workloads]
        first = [m for m in own if m.block == one.of]
        runs = [sorted((m.workload, m.system, m.replica, m.seed, m.position) for m in block) for block in (again, first)]
        if len(workloads) != 1 or runs[0] != runs[1]:
            verdict.wrong(f"block {one.block} is not block {one.of} once more")
        before = max(
            (two.block for two in repeats if two.of == one.of and places.get(two.block) in workloads and two.block < one.block),
            default=one.of,
        )
        changed = machine.changed(m.environment for m in own if m.block == before)
        if changed <= machine.CHANGED_SHARE:
            verdict.wrong(f"block {one.of} ran again, but its machine changed by {changed:.2f} alone")


def _copies(session: Session, verdict: Verdict) -> None:
    """Two runs with the same events are one measurement."""
    seen: dict[tuple[Any, ...], str] = {}
    for run in session.runs:
        if len(run.events) < 2:
            continue
        key = tuple((type(event).__name__, event.ns) for event in run.events)
        if (other := seen.setdefault(key, called(run.manifest))) != called(run.manifest):
            verdict.wrong(f"{called(run.manifest)} has the events of {other}: one measurement cannot be two runs")
