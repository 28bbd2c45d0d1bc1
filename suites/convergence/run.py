"""Runs the convergence suite: a system trains on a workload, and the common evaluator plays its snapshots afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from baselines import system as systems
from baselines.space import Scalar
from baselines.system import Task
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.convergence import sweep
from suites.session import catalogue, open_division
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
    tunable = True
    repeats = True

    def workloads(self) -> dict[str, str]:
        return {name: catalogue.load(name).title for name in catalogue.names()}

    def systems(self) -> dict[str, tuple[str, str | None]]:
        return {name: (s.title, s.available()) for name in systems.names() for s in [systems.get(name)]}

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        profile = self.profiles[request.profile]
        asked = request.systems or tuple(dict.fromkeys(one.system for one in request.tuned))
        names = asked or (*profile.systems, *profile.on_policy)
        for name in names:
            if reason := systems.get(name).available():
                raise ConfigError(f"system {name} cannot run here: {reason}; install it, or leave it out with --systems")
        tuned_on = tuple(dict.fromkeys(one.place[1] for one in request.tuned))
        workloads = [catalogue.load(name) for name in request.workloads or tuned_on or profile.workloads]
        only_on_policy = () if asked else profile.on_policy
        sit_out = () if asked else profile.first_block_only
        able, skipped = _able(workloads, names, only_on_policy, asked=bool(asked))
        if request.tuned:
            open_division.check(request.tuned, workloads, able, request.cores)
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
        # A certificate is of the settings of the closed division, which an open session does not run with.
        if not plan.tuned:
            certify(plan, out)

    def work(self, plan: Plan, cell: Cell) -> Work:
        workload = convert(plan.workloads[cell.workload], Workload, f"workload {cell.workload}")
        under_test = systems.get(cell.system)
        stop_at_goal = self.profiles[plan.profile].stop_at_goal
        task = Task(cell.system, workload, cell.seed, plan.cores, stop_at_goal=stop_at_goal)
        chosen = self.chosen(plan, cell)
        task = msgspec.structs.replace(task, options=cell.options) if chosen is None else under_test.tuned(task, chosen)
        # The workload as its file has it: what a tuned system makes of it is among the system's settings.
        configuration = {"workload": plan.workloads[cell.workload], "system": under_test.settings(task)}
        deviations = [*under_test.deviations(task), *([] if under_test.player() is None else [OWN_PLAYER])]
        if chosen is not None:
            configuration["options"] = dict(chosen)
            deviations.append(f"Tuned: {', '.join(f'{name} {value}' for name, value in chosen.items())}.")
        return Work(
            task=task,
            command=[*under_test.interpreter(), "-m", "baselines.run"],
            limit_s=workload.budget_seconds,
            judged=workload,
            stop_at_goal=stop_at_goal,
            player=under_test.player(),
            manifest={
                "system_title": under_test.title,
                "division": workload.division if chosen is None else "open",
                "tuned": chosen is not None,
                "configuration": configuration | ({"stop_at_goal": True} if stop_at_goal else {}),
                "deviations": deviations,
            },
        )

    def chosen(self, plan: Plan, cell: Cell) -> Mapping[str, Scalar] | None:
        """Settings of a cell that tuning chose; None in the closed division."""
        found = [one.options for one in plan.tuned if one.place == (cell.system, cell.workload)]
        return found[0] if found else None


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
        for a system that was asked for and cannot, where none is left, and for an environment that cannot be made here or a
        GPU that is not here: now, and not after the hours that others take.
    """
    able: dict[str, list[str]] = {}
    skipped = []
    for workload in workloads:
        workload.describe()
        workload.check_device()
        meant = [name for name in names if workload.algo == "ppo" or name not in only_on_policy]
        reasons = {name: systems.get(name).unable(workload) for name in meant}
        able[workload.id] = [name for name, reason in reasons.items() if reason is None]
        lines = [f"system {name} cannot train on {workload.id}: {reason}" for name, reason in reasons.items() if reason]
        if lines and (asked or not able[workload.id]):
            raise ConfigError(f"{lines[0]}; leave one of them out")
        skipped += lines
    return able, skipped
