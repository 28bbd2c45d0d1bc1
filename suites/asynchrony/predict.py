"""Predicts a profile's cells: in the simulated world, and by the closed forms of round times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import exp

from baselines.system import SYSTEMS, Task
from baselines.tianji import SameCode
from baselines.workload import Workload
from suites.asynchrony import cells, sweep
from suites.asynchrony.sweep import Setting
from suites.disciplines.analysis import Times, bound_per_s
from suites.disciplines.forecast import predicted
from suites.records import machine
from suites.records.predictions import Forecast, Predictions
from tianji.config import TrainConfig
from tianji.environments.delays import scale

ROUNDS, FEW = {"tail": 400}, 100
"""Simulated rounds of cells whose delays are drawn, and of the others, in which one round is like the next."""


def predict(profile: str, seed: int, price: float | None = None) -> Predictions:
    """Every cell of a profile under each of its systems, and the barrier.

    Parameters
    ----------
    price
        of staleness: the logarithm of the factor in steps to a return for each round of age. None: nothing is said of returns.
    """
    chosen = sweep.PROFILES[profile]
    made = machine.manifest()
    systems = tuple(dict.fromkeys((sweep.BARRIER, *chosen.systems)))
    return Predictions(
        suite=sweep.NAME,
        profile=profile,
        written=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=made["git_commit"],
        dirty=made["git_dirty"],
        seed=seed,
        calibrating=sweep.calibrating(),
        forecasts=tuple(one for cell in chosen.cells for one in _cell(cell, systems, seed, price)),
    )


def _cell(cell: Setting, systems: tuple[str, ...], seed: int, price: float | None) -> Iterator[Forecast]:
    workload = cells.workload(cell)
    rates: dict[str, tuple[float, float]] = {}
    for name in systems:
        config = _config(name, workload, seed)
        found, closed = predicted(config, ROUNDS.get(cell.delays, FEW)), closed_per_s(config, stated_times(cell, workload))
        rates[name] = found.steps_per_s, closed
        barrier, barrier_closed = rates[sweep.BARRIER]
        yield Forecast(
            workload=workload.id,
            system=name,
            steps_per_s=round(found.steps_per_s, 1),
            ratio=round(found.steps_per_s / barrier, 4),
            age_rounds=round(found.age_rounds, 3),
            closed_ratio=round(closed / barrier_closed, 4),
            return_ratio=None if price is None else round(exp(price * found.age_rounds) * barrier / found.steps_per_s, 4),
        )


def _config(name: str, workload: Workload, seed: int) -> TrainConfig:
    system = SYSTEMS.get(name)()
    assert isinstance(system, SameCode)
    return system.config(Task(name, workload, seed, (0,)))


def _discipline(config: TrainConfig) -> dict[str, object]:
    options = {key: getattr(config.rule.options, key) for key in ("eta",) if hasattr(config.rule.options, key)}
    return {"name": config.rule.name, **options}


def closed_per_s(config: TrainConfig, t: Times) -> float:
    """Samples a second by the closed forms: the sum over groups, which share the actors and do not wait for each other.

    Parameters
    ----------
    t
        durations of all actors, and of a round of one learner for all of them.
    """
    shares = [t]
    if config.groups > 1:
        many, own = config.actors, t.round_samples / config.groups
        parts = [t.fragments_s[first : first + many] for first in range(0, len(t.fragments_s), many)]
        # A wait for the slowest actor of each group is in none of the rules that groups run under.
        shares = [Times(part, t.fragment_samples, None, config.update_seconds, own) for part in parts]
    total = 0.0
    for one in shares:
        found = bound_per_s(_discipline(config), one)
        assert found is not None
        total += found
    return total


def stated_times(cell: Setting, workload: Workload) -> Times:
    """Durations of a cell as stated, for the closed forms."""
    simulator = workload.simulator
    assert simulator is not None
    mean, one_core = cell.rho * workload.update_seconds, simulator.step_seconds * workload.for_ppo.rollout_steps
    m = cell.m if cell.split is None else cells.spread_of_tail(cell.actors, simulator.truncation or 1.0)
    return Times(
        fragments_s=tuple(one_core * scale(simulator, number) for number in range(cell.actors)),
        fragment_samples=workload.round_steps / cell.actors,
        fragment_max_s=mean * m,
        round_s=workload.update_seconds,
        round_samples=workload.round_steps,
    )
