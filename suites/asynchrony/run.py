"""Runs the asynchrony suite: cells of one table, each under every discipline."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from baselines import system as systems
from baselines.workload import Workload
from programs.cli import ConfigError
from suites.asynchrony import cells, sweep
from suites.disciplines.run import Disciplines
from suites.session.plan import Cell, Plan, block_of
from suites.session.suite import Request, Work


class Asynchrony(Disciplines):
    """Throughput over rho, M and the number of actors; in the profile `confirm`, time to the return."""

    name, about = sweep.NAME, sweep.ABOUT
    profiles: Mapping[str, sweep.Profile] = sweep.PROFILES
    foretold = True

    def workloads(self) -> dict[str, str]:
        return {cell.workload: cell.title for cell in sweep.every()}

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        profile = self.profiles[request.profile]
        made = workloads_of(profile, request.workloads)
        names = request.systems or profile.systems
        for name in names:
            for workload in made.values():
                if reason := systems.get(name).unable(workload):
                    raise ConfigError(f"system {name} cannot train on {workload.id}: {reason}; leave it out")
        check_covers(request, made, names)
        fixed = {cell.workload for cell in sweep.CONFIRMED}
        order = [
            cell
            for block in range(request.blocks or profile.blocks)
            for name in made
            for cell in block_of(
                name,
                names,
                profile.twice if profile.twice and sweep.plain(name) in fixed and not request.once else None,
                block,
                first_seed=request.first_seed,
            )
        ]
        return self.session(request, made, names, order), []

    def work(self, plan: Plan, cell: Cell) -> Work:
        work = super().work(plan, cell)
        # Only the time to the return is asked, so a run may end there.
        goal = self.profiles[plan.profile].stop_at_goal
        return msgspec.structs.replace(work, stop_at_goal=goal)


def workloads_of(profile: sweep.Profile, asked: tuple[str, ...] | None) -> dict[str, Workload]:
    """Workloads of a profile's cells by id, as they are run.

    Raises
    ------
    ConfigError
        for one that is asked for and is no cell.
    """
    table = {cell.workload: cell for cell in (sweep.every() if asked else profile.cells)}
    for name in asked or ():
        if name not in table:
            raise ConfigError(f"unknown workload {name!r} of suite {sweep.NAME}; `list` shows its cells")
    found = {}
    for name in asked or table:
        workload = cells.workload(table[name])
        identity = name + profile.suffix
        seconds = sweep.BUDGET_SECONDS if profile.seconds is None else profile.seconds
        found[identity] = msgspec.structs.replace(workload, id=identity, budget_seconds=seconds)
    return found


def check_covers(request: Request, workloads: Mapping[str, Workload], names: tuple[str, ...]) -> None:
    """Check that predictions are of every cell and system that is to run.

    Raises
    ------
    ConfigError
        for the first one that is missing.
    """
    if request.predictions is None:
        return
    of = {(one.workload, one.system) for one in request.predictions.forecasts}
    for workload in workloads:
        for name in names:
            if (sweep.plain(workload), name) not in of:
                raise ConfigError(f"--predictions: says nothing of {name} on {workload}; predict the profile that is to run")
