"""Runs the disciplines suite: short runs under each discipline, of which the throughput counts and not the return."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from suites.convergence.run import Convergence
from suites.disciplines import sweep
from suites.session.plan import Cell, Plan
from suites.session.suite import Request, Work


class Disciplines(Convergence):
    """Throughput and lag under each discipline."""

    name, about = sweep.NAME, sweep.ABOUT
    profiles: Mapping[str, sweep.Profile] = sweep.PROFILES
    tunable = repeats = False

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        plan, skipped = super().plan(request)
        seconds = self.profiles[request.profile].seconds
        if seconds is None:
            return plan, skipped
        # The plan has the workloads as they are run.
        workloads = {name: workload | {"budget_seconds": seconds} for name, workload in plan.workloads.items()}
        return msgspec.structs.replace(plan, workloads=workloads), skipped

    def before(self, plan: Plan, out: Path) -> None:
        """Do nothing, because its systems share their code and need no certificate."""

    def work(self, plan: Plan, cell: Cell) -> Work:
        work = super().work(plan, cell)
        if self.profiles[plan.profile].seconds is None:
            # Every run goes on to its budget, but nothing is asked of snapshots after the crossing.
            return msgspec.structs.replace(work, stop_at_goal=True)
        # Snapshots are not played, because no policy learns much in a few seconds.
        return msgspec.structs.replace(work, judged=None)

    def progress(self, work: Work, folder: Path) -> tuple[float, str]:
        if work.judged is not None:
            return super().progress(work, folder)
        began = folder / "events.jsonl"
        passed = max(0.0, time.time() - began.stat().st_ctime) if began.exists() else 0.0
        return min(1.0, passed / work.limit_s), f"about {passed:.0f} of {work.limit_s:g} s"
