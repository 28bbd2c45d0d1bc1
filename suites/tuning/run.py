"""The trials of a tuning as a session: its cells are fixed before the first run, and what they try is decided on the way.

Rungs are successive halving. Every setting runs with a quarter of the budget, the better half again with half of it, and the
better half of those with all of it. A rung has one seed, and the last one `sweep.LAST_SEEDS`.

A run is never continued, since no system can go on where it ended. It is never cut short, since a pruner would have to read the
record of a run that is being measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baselines import system as systems
from baselines.space import Scalar, Space
from baselines.system import Task
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.convergence.run import Convergence
from suites.convergence.sweep import Profile
from suites.records import bundle
from suites.records.bundle import Bundle
from suites.records.events import AnyEvent
from suites.records.tuned import Trial, Tuned
from suites.session.plan import Cell, Plan
from suites.session.suite import Request, Work
from suites.tuning import sweep
from suites.tuning.analysis import least, options_of, outcome, ranked
from suites.tuning.search import propose, sampler
from tianji.settings import convert


class Tuning(Convergence):
    """Trials of one system on one workload. `Request.blocks` is their number, and `Request.first_seed` the sampler's seed."""

    name, about = sweep.NAME, "settings of one system for the open division"
    profiles: Mapping[str, Profile] = {
        sweep.NAME: Profile(workloads=(), systems=(), blocks=1, twice="", stop_at_goal=True),
    }
    tunable = repeats = False

    def __init__(self) -> None:
        self._out = Path()

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        plan, skipped = super().plan(request)
        (name,), (workload,), trials = plan.systems, plan.workloads, request.blocks or 1
        size = self.space(plan).size
        if trials > size:
            raise ConfigError(f"--trials {trials}: {name} has only {size} different settings on {workload}")
        cells = []
        for rung, share in enumerate(sweep.SHARES):
            shortened(plan.workloads[workload], share)
            seed = sweep.FIRST_SEED + request.first_seed * sweep.SEEDS + rung
            better = -(-trials // 2)
            last = better == 1 or share == sweep.SHARES[-1]
            for position in range(trials * (sweep.LAST_SEEDS if last else 1)):
                again, place = divmod(position, trials)
                # Each run is a group of its own, so an interrupt loses one.
                axes: dict[str, Scalar] = {"place": place, "again": again} if again else {"place": place}
                one = Cell(
                    workload=workload,
                    system=name,
                    replica=0,
                    block=rung,
                    position=position,
                    seed=seed + again,
                    options=axes,
                )
                cells.append(one)
            if last:
                break
            trials = better
        return msgspec.structs.replace(plan, cells=tuple(cells)), skipped

    def space(self, plan: Plan) -> Space:
        """Settings among which it chooses."""
        (name,), (data,) = plan.systems, plan.workloads.values()
        return systems.get(name).space(Task(name, convert(data, Workload, "workload"), 0, plan.cores))

    def before(self, plan: Plan, out: Path) -> None:
        """Remember where the results are; trials need no certificate."""
        self._out = out

    def chosen(self, plan: Plan, cell: Cell) -> Mapping[str, Scalar]:
        place = int(cell.options["place"])
        if "again" in cell.options:
            return options_of(self._rung(plan, cell.block, place + 1)[place])
        if cell.block == 0:
            losses = [outcome(b).loss for b in self._rung(plan, 0, cell.position)]
            return propose(self.space(plan), seed_of(plan), losses)
        return options_of(ranked(self._rung(plan, cell.block - 1))[place])

    def _rung(self, plan: Plan, rung: int, most: int | None = None) -> list[Bundle]:
        """Runs of a rung, at most the first ones."""
        cells = [cell for cell in plan.cells if cell.block == rung]
        return [bundle.read(self._out / cell.directory) for cell in cells[:most]]

    def work(self, plan: Plan, cell: Cell) -> Work:
        short = shortened(plan.workloads[cell.workload], sweep.SHARES[cell.block])
        work = super().work(msgspec.structs.replace(plan, workloads={cell.workload: short}), cell)
        return msgspec.structs.replace(work, judged=None)

    def progress(self, work: Work, folder: Path) -> tuple[float, str]:
        return super().progress(_watched(work), folder)

    def lacks(self, work: Work, events: Sequence[AnyEvent]) -> str | None:
        return super().lacks(_watched(work), events)

    def record(self, plan: Plan) -> tuple[Trial, ...]:
        """Every run of a finished tuning, in order."""
        return tuple(_trial(b) for rung in self._rungs(plan) for b in rung)

    def result(self, plan: Plan) -> Tuned | None:
        """What a finished tuning chose; None if each setting of its last rung has a run that was not completed."""
        rungs = self._rungs(plan)
        best = least(rungs[-1])
        if best is None:
            return None
        (name,), (workload,) = plan.systems, plan.workloads.values()
        return Tuned(
            session=plan.session,
            system=name,
            workload=workload,
            trials=sum(cell.block == 0 and "again" not in cell.options for cell in plan.cells),
            sampler=sampler(seed_of(plan)),
            options=best,
            record=self.record(plan),
        )

    def _rungs(self, plan: Plan) -> list[list[Bundle]]:
        return [self._rung(plan, rung) for rung in range(1 + max(cell.block for cell in plan.cells))]


def shortened(data: Mapping[str, Any], share: float) -> dict[str, Any]:
    """A workload with a share of its budget; schedules keep their horizon.

    Raises
    ------
    ConfigError
        when that is less than one round.
    """
    short = {**data, "budget_steps": int(data["budget_steps"] * share), "budget_seconds": data["budget_seconds"] * share}
    if convert(short, Workload, "workload").round_steps > short["budget_steps"]:
        raise ConfigError(
            f"workload {data['id']}: {share:g} of its budget, {short['budget_steps']} steps, is less than a round"
        )
    return short


def seed_of(plan: Plan) -> int:
    """The sampler's seed."""
    return (plan.cells[0].seed - sweep.FIRST_SEED) // sweep.SEEDS


def _watched(work: Work) -> Work:
    """The work as if its snapshots were judged: its progress and what it must report are those of any run."""
    task = work.task
    assert isinstance(task, Task)
    return msgspec.structs.replace(work, judged=task.workload)


def _trial(run: Bundle) -> Trial:
    m, found = run.manifest, outcome(run)
    return Trial(
        run=run.path.name,
        options=options_of(run),
        budget_share=sweep.SHARES[m.block],
        seed=m.seed,
        status=m.status,
        seconds=found.seconds,
        best_return=found.best_return,
        error=m.error,
    )
