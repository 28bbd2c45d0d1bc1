"""Made-up bundles of the asynchrony suite: a session whose runs train at the rates that a function says."""

from datetime import UTC, datetime

import bundles
import msgspec

from suites.asynchrony import sweep
from suites.records.events import Counter, FirstStep, Histogram, Phase, Process, Progress, Usage
from suites.records.predictions import Forecast, Predictions
from suites.records.statement import FILE, Statement

BEGAN = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
SECOND = 10**9
AGES = dict(zip(sweep.SYSTEMS, (0, 0, 1, 1, 1, 2, 4), strict=True))


def at(hours):
    """A date so many hours after the session's first run."""
    return datetime.fromtimestamp(BEGAN + 3600 * hours, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def forecast(ratio, cells, written=-2.0, calibrating=(), systems=sweep.SYSTEMS):
    """Predictions: `ratio(cell, system)` over the barrier."""
    return Predictions(
        suite="asynchrony",
        profile="standard",
        written=at(written),
        commit="abc",
        dirty=False,
        seed=0,
        calibrating=calibrating,
        forecasts=tuple(
            Forecast(
                workload=cell.workload,
                system=name,
                steps_per_s=1000 * ratio(cell, name),
                ratio=ratio(cell, name),
                age_rounds=AGES.get(name, 0),
                closed_ratio=ratio(cell, name),
            )
            for cell in cells
            for name in systems
        ),
    )


def make(
    folder,
    ratio,
    cells,
    predictions=None,
    planned=-1.0,
    share=0.3,
    blocks=5,
    systems=sweep.SYSTEMS,
    more=lambda cell, system, block: (),
    session="s",
    suffix="",
):
    """`ratio(cell, system, block)` is a run's throughput over 1000 samples/s; `share` is that of the machine; `more` are
    further events of a run, and `suffix` ends the ids of workloads."""
    for cell in cells:
        for block in range(blocks):
            for system in systems:
                rate = 1000 * ratio(cell, system, block)
                fragment, slowest = round(100 * cell.rho), round(100 * cell.rho * cell.m)
                roles = [f"actor g0.a{n}" for n in range(cell.actors)]
                events = [
                    Phase(0, "setup", round(BEGAN * SECOND)),
                    FirstStep(0),
                    *(Usage(n * SECOND, 2 * share * n, 10) for n in range(11)),
                    *(
                        Progress(n * SECOND, "learner g0", {"samples_consumed_unique": rate * n, "samples_produced": rate * n})
                        for n in range(11)
                    ),
                    *(Process(10 * SECOND, role, {"env": 256 / cell.actors * fragment / 1e3}, {}, 1.0, 10) for role in roles),
                    *(Counter(10 * SECOND, "actor_samples_produced", (256 / cell.actors) ** 2, role) for role in roles),
                    *(Histogram(10 * SECOND, "actor_fragment_ms", {slowest: 10}) for _ in roles),
                    Histogram(10 * SECOND, "learner_round_ms", {100: 40}),
                    Counter(10 * SECOND, "learner_samples_consumed_unique", 40 * 256, "learner g0"),
                    Histogram(10 * SECOND, "learner_age_rounds", {AGES.get(system, 0): 40}),
                    *more(cell, system, block),
                ]
                workload = bundles.WORKLOAD | {
                    "environments": cell.actors,
                    "actors": cell.actors,
                    "simulator": {"computes": cell.computes},
                    "ppo": {"rollout_steps": 256 // cell.actors, "minibatch_size": 256, "epochs": 1},
                }
                bundles.make(
                    folder,
                    name=f"{cell.workload}{suffix}.b{block}.{system}",
                    events=events,
                    suite="asynchrony",
                    profile="standard",
                    workload=cell.workload + suffix,
                    session=session,
                    system=system,
                    system_title=f"TianJi, {system}",
                    seed=block,
                    block=block,
                    configuration={"workload": workload, "system": {"actors": cell.actors, "groups": 1}},
                )
    stated = Statement(
        session=session,
        written=at(planned),
        suite="asynchrony",
        profile="standard",
        systems=tuple(systems),
        workloads=tuple(cell.workload + suffix for cell in cells),
        seeds=tuple(range(blocks)),
        predictions=predictions,
    )
    (folder / FILE).write_bytes(msgspec.json.encode(stated))
    return folder
