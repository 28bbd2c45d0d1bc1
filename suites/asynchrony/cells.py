"""Makes the workload of a cell from the base workload: its number of actors, and delays of the stated mean and spread."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from baselines.workload import Workload
from suites.asynchrony import sweep
from suites.asynchrony.sweep import Setting, Split
from suites.session import catalogue
from tianji.config import SimulatorConfig
from tianji.environments.delays import truncated_mean

POINTS = 4000
"""Points of a numerical integral over a Pareto delay's range."""


def spread_of_tail(actors: int, truncation: float) -> float:
    """M of independent Pareto delays that are cut off: E[max] is 1 plus the integral of the largest one's tail."""
    x = np.geomspace(1, truncation, POINTS)
    below = (1 - x**-sweep.ALPHA) / (1 - truncation**-sweep.ALPHA)
    return float((1 + np.trapezoid(1 - below**actors, x)) / truncated_mean(sweep.ALPHA, truncation))


def truncation_for(actors: int, m: float) -> float:
    """Truncation at which delays have this M, by bisection.

    Raises
    ------
    ValueError
        if no truncation up to 10,000 gives so much.
    """
    low, high = 1.001, 1e4
    if spread_of_tail(actors, high) < m:
        raise ValueError(f"no tail of exponent {sweep.ALPHA:g} gives M {m:g} with {actors} actors")
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if spread_of_tail(actors, middle) < m else (low, middle)
    return high


def simulator(cell: Setting, base: Workload) -> SimulatorConfig:
    """Delays of a cell. A fragment has one environment and as many steps as make a round of the base workload."""
    steps = base.round_steps // cell.actors
    split = cell.split or Split(1, 0.0)
    made = SimulatorConfig(
        # Delays are stated for one core.
        step_seconds=cell.rho / split.shorter * base.update_seconds / steps,
        drawn_every=steps,
        computes=cell.computes,
        # One actor has a speed of its own too, which is everybody's.
        spread_over=max(2, cell.actors),
        ranks=split.ranks,
        serial=split.serial,
    )
    if cell.delays == "tail":
        truncation = round(truncation_for(sweep.SPLIT_CORES if cell.split else cell.actors, cell.m), 3)
        return replace(made, distribution="pareto", alpha=sweep.ALPHA, truncation=truncation)
    if cell.delays == "straggler":
        # The slowest of n is s n / (n - 1 + s) of the mean.
        return replace(made, straggler=cell.m * (cell.actors - 1) / (cell.actors - cell.m))
    # The slowest is 2 s / (1 + s) of the mean; 1 where all are alike.
    return replace(made, spread=cell.m / (2 - cell.m))


def workload(cell: Setting) -> Workload:
    """The workload of a cell: the learner trains on as many samples a round as in the base workload, whatever the actors."""
    base = catalogue.load(sweep.BASE)
    return replace(
        base,
        id=cell.workload,
        title=cell.title,
        environments=cell.actors,
        actors=cell.actors,
        simulator=simulator(cell, base),
        ppo=replace(base.for_ppo, rollout_steps=base.round_steps // cell.actors),
    )
