"""What a session would run, in lines, without starting or writing anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from baselines.workload import Workload
from suites.records.limits import EVENTS_BYTES, MEBIBYTE
from suites.session.plan import Cell, Plan
from suites.session.suite import Suite, Work
from suites.testbed.local import SETUP_LIMIT_S, TEARDOWN_LIMIT_S

FLOAT_BYTES = 4


def preview(suite: Suite, plan: Plan, out: Path) -> Iterator[str]:
    """Lines on runs in their order, on the time that they may take at most, and on disk space.

    Parameters
    ----------
    plan
        a new one, or that of a session in `out` of which some blocks are finished.
    """
    todo = [cells for cells in plan.blocks() if not all((out / c.directory / "bundle.json").exists() for c in cells)]
    works = [(cell, suite.work(plan, cell)) for cells in todo for cell in cells]
    cores = ",".join(map(str, plan.cores))
    yield f"suite {plan.suite}, profile {plan.profile}: {len(works)} runs in {len(todo)} blocks, on cores {cores}, into {out}"
    looks = f"{plan.looks} look{'s' * (plan.looks != 1)}"
    yield f"plan: {'for ' + repr(plan.claim) if plan.claim else 'for no claim'}, {looks}"
    if done := len(plan.cells) - len(works):
        yield f"{done} of {len(plan.cells)} runs are finished; blocks that are not are run again whole"
    for number, (cell, work) in enumerate(works, 1):
        yield f"  {number:3}. {_named(cell)}: at most {work.limit_s:.0f} s"
    yield _time(works)
    yield _disk(works, out)


def _named(cell: Cell) -> str:
    axes: Mapping[str, Any] = {"nodes": cell.nodes, "explorers": cell.explorers, **cell.options}
    further = "".join(f", {name} {value}" for name, value in axes.items() if value is not None)
    return f"block {cell.block}, seed {cell.seed}, {cell.workload}{further}: {cell.label}"


def _time(works: list[tuple[Cell, Work]]) -> str:
    """The sum of all limits, which is what is known before a machine has been measured."""
    most = sum(SETUP_LIMIT_S + work.limit_s + TEARDOWN_LIMIT_S for _, work in works) / 60
    around = f"{SETUP_LIMIT_S:.0f} s of set-up and {TEARDOWN_LIMIT_S:.0f} s of teardown a run"
    judged = "; evaluation of snapshots comes on top" if any(work.judged is not None for _, work in works) else ""
    return f"time: at most {most:.0f} min, with up to {around}{judged}; how long it takes is shown once a run has ended"


def _disk(works: list[tuple[Cell, Work]], out: Path) -> str:
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free / MEBIBYTE
    sizes: dict[str, int] = {}
    snapshots = 0
    for _, work in works:
        if work.judged is not None:
            if work.judged.id not in sizes:
                sizes[work.judged.id] = _policy_bytes(work.judged)
            snapshots += sizes[work.judged.id] * (1 + work.judged.budget_steps // work.judged.snapshot_every_steps)
    kept = f"about {snapshots / MEBIBYTE:.0f} MiB of snapshots at most, and " if snapshots else ""
    writable = "" if os.access(there, os.W_OK | os.X_OK) else f"; {there} may not be written"
    return f"disk: {kept}at most {EVENTS_BYTES / MEBIBYTE:.0f} MiB of events a run; {free:,.0f} MiB are free{writable}"


def _policy_bytes(workload: Workload) -> int:
    seen = workload.describe()
    return FLOAT_BYTES * workload.flat_network(seen).size
