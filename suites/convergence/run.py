"""Runs the convergence suite: a system trains on a workload, and the common evaluator plays its snapshots afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from baselines import system as systems
from baselines.system import Task
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.convergence import sweep
from suites.session import catalogue
from suites.session.certify import certify
from suites.session.plan import Cell, Plan, block_of
from suites.session.suite import Request, Suite, Work
from tianji.settings import convert

MEASURED_SHARE = 0.8
"""Share of a cell's time for the progress bar. The rest is evaluation."""

OWN_PLAYER = "Snapshots that are no flat vectors are played by the system's own player, not by the common one."


class Convergence(Suite):
    """Time to a return."""

    name, about = sweep.NAME, sweep.ABOUT
    profiles: Mapping[str, sweep.Profile] = sweep.PROFILES
    testbeds = ("local",)

    def workloads(self) -> dict[str, str]:
        return {name: catalogue.load(name).title for name in catalogue.names()}

    def systems(self) -> dict[str, tuple[str, str | None]]:
        return {name: (s.title, s.available()) for name in systems.names() for s in [systems.get(name)]}

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        profile = self.profiles[request.profile]
        names = request.systems or (*profile.systems, *profile.on_policy)
        for name in names:
            if reason := systems.get(name).available():
                raise ConfigError(f"system {name} cannot run here: {reason}; install it, or leave it out with --systems")
        workloads = [catalogue.load(name) for name in request.workloads or profile.workloads]
        only_on_policy = () if request.systems else profile.on_policy
        sit_out = () if request.systems else profile.first_block_only
        able, skipped = _able(workloads, names, only_on_policy, asked=request.systems is not None)
        cells = [
            cell
            for block in range(request.blocks or profile.blocks)
            for workload in workloads
            for present in [[name for name in able[workload.id] if block == 0 or name not in sit_out]]
            for cell in block_of(
                workload.id, present, None if request.once else profile.twice, block, first_seed=request.first_seed
            )
        ]
        return self.session(request, {w.id: w for w in workloads}, names, cells), skipped

    def before(self, plan: Plan, out: Path) -> None:
        certify(plan, out)

    def work(self, plan: Plan, cell: Cell) -> Work:
        workload = convert(plan.workloads[cell.workload], Workload, f"workload {cell.workload}")
        under_test = systems.get(cell.system)
        stop_at_goal = self.profiles[plan.profile].stop_at_goal
        task = Task(cell.system, workload, cell.seed, plan.cores, options=cell.options, stop_at_goal=stop_at_goal)
        configuration = {"workload": plan.workloads[cell.workload], "system": under_test.settings(task)}
        return Work(
            task=task,
            command=[*under_test.interpreter(), "-m", "baselines.run"],
            limit_s=workload.budget_seconds,
            judged=workload,
            stop_at_goal=stop_at_goal,
            player=under_test.player(),
            manifest={
                "system_title": under_test.title,
                "division": workload.division,
                "configuration": configuration | ({"stop_at_goal": True} if stop_at_goal else {}),
                "deviations": [*under_test.deviations(task), *([] if under_test.player() is None else [OWN_PLAYER])],
            },
        )


def _able(
    workloads: Sequence[Workload], names: Sequence[str], only_on_policy: Sequence[str], *, asked: bool
) -> tuple[dict[str, list[str]], list[str]]:
    """Which systems train on each workload, and what is left out because it cannot.

    Parameters
    ----------
    only_on_policy
        those of `names` that are not meant for other workloads.
    asked
        whether a user named the systems.

    Raises
    ------
    ConfigError
        for a system that was asked for and cannot, where none is left, and for an environment that cannot be made here: now,
        and not after the hours that others take.
    """
    able: dict[str, list[str]] = {}
    skipped = []
    for workload in workloads:
        workload.describe()
        meant = [name for name in names if workload.algo == "ppo" or name not in only_on_policy]
        reasons = {name: systems.get(name).unable(workload) for name in meant}
        able[workload.id] = [name for name, reason in reasons.items() if reason is None]
        lines = [f"system {name} cannot train on {workload.id}: {reason}" for name, reason in reasons.items() if reason]
        if lines and (asked or not able[workload.id]):
            raise ConfigError(f"{lines[0]}; leave one of them out")
        skipped += lines
    return able, skipped
