"""Runs the price suite: training in lockstep under several lags and learning rates, of which steps count and not seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from programs.cli import ConfigError
from suites.convergence.run import Convergence
from suites.price import sweep
from suites.session.plan import Cell, Plan, block_of
from suites.session.suite import Request, Work


class Price(Convergence):
    """Steps to a return, by lag and learning rate."""

    name, about = sweep.NAME, sweep.ABOUT
    # Its runs are in lockstep, and only their steps are compared.
    repeats = False
    profiles: Mapping[str, sweep.Profile] = sweep.PROFILES

    def plan(self, request: Request) -> tuple[Plan, list[str]]:
        plan, skipped = super().plan(request)
        for name, workload in plan.workloads.items():
            if workload["algo"] != "ppo":
                raise ConfigError(f"suite {self.name} varies ppo.learning_rate, and {name} trains {workload['algo']}")
        able = {(cell.workload, cell.system): None for cell in plan.cells}
        blocks = {cell.block: cell.seed for cell in plan.cells}
        cells = [
            cell
            for block in blocks
            for name, workload in plan.workloads.items()
            for factor in self.profiles[request.profile].factors
            for cell in block_of(
                name,
                [system for of, system in able if of == name],
                None,
                block,
                first_seed=request.first_seed,
                # Steps need no clock, and without one every sample is exactly as old as the discipline allows.
                options={"ppo.learning_rate": workload["ppo"]["learning_rate"] * factor, "world": "lockstep"},
            )
        ]
        return msgspec.structs.replace(plan, cells=tuple(cells)), skipped

    def before(self, plan: Plan, out: Path) -> None:
        """Do nothing, because its systems share their code and need no certificate."""

    def work(self, plan: Plan, cell: Cell) -> Work:
        # Every run goes on to its budget, but nothing is asked of snapshots after the crossing.
        return msgspec.structs.replace(super().work(plan, cell), stop_at_goal=True)
