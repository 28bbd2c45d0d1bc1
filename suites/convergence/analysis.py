"""From bundles to what they say: curves, crossings and summary rows. Pure functions; imports no package that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import Counter, Process, Usage
from suites.statistics import summary
from suites.statistics.crossings import (
    KINDS,
    Crossing,
    Learning,
    horizon_s,
    learning,
    points,
    quantities,
    time_bounds,
    time_ratio,
)
from suites.statistics.intervals import Estimate, bootstrap_iqm, paired_ratio
from suites.statistics.summary import Row, label_of

WARM_UP_SHARE = 0.1
"""Of the steps that a run took, left out of throughput."""


@dataclass(frozen=True)
class Run:
    """One completed bundle, understood."""

    bundle: Bundle
    label: str
    learning: Learning
    counters: dict[str, float]
    processes: tuple[Process, ...]
    production_steps_per_s: float
    cpu_s: float
    peak_rss_bytes: float

    @property
    def training(self) -> pd.DataFrame:
        """See `Learning`."""
        return self.learning.training

    @property
    def evaluated(self) -> pd.DataFrame:
        """See `Learning`."""
        return self.learning.evaluated

    @property
    def crossings(self) -> dict[str, Crossing | None]:
        """By definition of the threshold."""
        return self.learning.crossings

    @property
    def measured_s(self) -> float:
        """From the first environment step to the last that was told."""
        return self.learning.measured_s

    @property
    def block(self) -> tuple[str, int]:
        """Which runs it may be paired with."""
        return self.bundle.manifest.session, self.bundle.manifest.block


def understand(bundle: Bundle) -> Run:
    """Compute everything about one completed run.

    Raises
    ------
    ValueError
        when the bundle lacks a first step or snapshots.
    """
    learnt = learning(bundle)
    usage = [event for event in bundle.events if isinstance(event, Usage)]
    taken = learnt.snapshots[-1].steps
    steady = [s for s in learnt.snapshots if s.steps >= WARM_UP_SHARE * taken]
    rate = (steady[-1].steps - steady[0].steps) / ((steady[-1].ns - steady[0].ns) / 1e9) if len(steady) > 1 else float("nan")
    return Run(
        bundle=bundle,
        label=label_of(bundle),
        learning=learnt,
        counters={event.name: event.value for event in bundle.events if isinstance(event, Counter)},
        processes=tuple(event for event in bundle.events if isinstance(event, Process)),
        production_steps_per_s=rate,
        cpu_s=max((u.cpu_s for u in usage), default=float("nan")),
        peak_rss_bytes=max((u.rss_bytes for u in usage), default=float("nan")),
    )


row = partial(summary.row, "convergence")


def summarise(runs: list[Run], pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Rows of `summary.json`.

    Parameters
    ----------
    runs
        completed ones; each workload and session is told apart by the bundles.
    pairs
        (faster, slower) labels to form ratios of: how many times faster the first is.
    """
    rows: list[Row] = []
    for workload in sorted({run.bundle.manifest.workload for run in runs}):
        of_workload = [run for run in runs if run.bundle.manifest.workload == workload]
        labels = sorted({run.label for run in of_workload})
        for label in labels:
            rows += _of_system(workload, label, [run for run in of_workload if run.label == label], horizon_s(of_workload))
        for first, second in pairs:
            if first in labels and second in labels:
                rows += _ratios(workload, first, second, of_workload)
    return rows


def _of_system(workload: str, label: str, runs: list[Run], horizon: float) -> list[Row]:
    rows = []
    for kind in KINDS:
        more = {"threshold_kind": kind, "censored": sum(run.crossings[kind] is None for run in runs)}
        rows += [row(workload, label, metric, unit, value, **more) for metric, unit, value in quantities(runs, kind, horizon)]
    scalars: list[tuple[str, str, Callable[[Run], float]]] = [
        ("production_steps_per_s", "steps/s", lambda run: run.production_steps_per_s),
        ("setup_s", "s", lambda run: run.bundle.manifest.phases_s.get("setup", float("nan"))),
        ("cpu_s", "s", lambda run: run.cpu_s),
        ("peak_rss_bytes", "bytes", lambda run: run.peak_rss_bytes),
        ("optimizer_steps", "updates", lambda run: run.counters.get("learner_optimizer_steps", float("nan"))),
        (
            "final_training_return",
            "return",
            lambda run: run.training["mean_return"].iloc[-1] if len(run.training) else float("nan"),
        ),
        ("own_final_return", "return", lambda run: run.counters.get("own_episode_return_mean", float("nan"))),
        ("staleness_mean_versions", "versions", lambda run: run.counters.get("learner_staleness_mean_versions", float("nan"))),
    ]
    for metric, unit, value in scalars:
        values = [v for run in runs if np.isfinite(v := value(run))]
        if values:
            rows.append(row(workload, label, metric, unit, bootstrap_iqm(values)))
    bounds = [b for run in runs if (b := overlap_bound(run)) is not None]
    if bounds:
        rows.append(row(workload, label, "overlap_bound_ratio", "ratio", bootstrap_iqm(bounds)))
    return rows


def overlap_bound(run: Run) -> float | None:
    """(sampling + update) / max(sampling, update): the most that hiding one behind the other could gain.

    Of a run with one actor process: seconds of several actors overlap already.
    """
    actors = [p for p in run.processes if p.role.startswith("actor")]
    learners = [p for p in run.processes if p.role.startswith("learner")]
    if len(actors) != 1 or len(learners) != 1:
        return None
    sampling = actors[0].busy_s.get("env", 0.0) + actors[0].busy_s.get("infer", 0.0)
    update = learners[0].busy_s.get("update", 0.0)
    return (sampling + update) / max(sampling, update) if min(sampling, update) > 0 else None


def _ratios(workload: str, first: str, second: str, runs: list[Run]) -> list[Row]:
    """How many times faster the first is: within blocks in which both got there, and one-sided bounds."""
    ours = {run.block: run for run in runs if run.label == first}
    theirs = {run.block: run for run in runs if run.label == second}
    blocks = sorted(ours.keys() & theirs.keys())
    rows = []

    def add(metric: str, estimate: Estimate, kind: str | None, censored: int) -> None:
        more = {"baseline": second, "threshold_kind": kind, "censored": censored}
        rows.append(row(workload, first, metric, "ratio", estimate, **more))

    def paired(metric: str, quantity: Callable[[Run], float | None], kind: str | None) -> None:
        both = [(a, b) for k in blocks if (a := quantity(theirs[k])) and (b := quantity(ours[k]))]
        add(metric, paired_ratio([a for a, _ in both], [b for _, b in both]), kind, len(blocks) - len(both))

    for kind in KINDS:
        estimate, left_out = time_ratio(ours, theirs, kind)
        add("time_to_threshold_ratio", estimate, kind, left_out)
        paired("steps_to_threshold_ratio", partial(_steps, kind), kind)
        for name, estimate, left_out in time_bounds(ours, theirs, kind):
            add(f"time_to_threshold_ratio_{name}", estimate, kind, left_out)
    paired("production_ratio", _seconds_a_step, None)
    return rows


def _seconds_a_step(run: Run) -> float | None:
    """None of a run that stood still, whose rate is nothing or not known."""
    return 1 / run.production_steps_per_s if run.production_steps_per_s > 0 else None


def _steps(kind: str, run: Run) -> float | None:
    crossing = run.crossings[kind]
    return None if crossing is None else float(crossing.steps)


def curves(runs: list[Run], kind: str) -> pd.DataFrame:
    """Learning curves of all runs, long form: workload, system, block, seed, seconds, steps, mean_return."""
    parts = []
    for run in runs:
        data = run.training if kind == "training" else run.evaluated
        manifest = run.bundle.manifest
        parts.append(
            data.assign(
                workload=manifest.workload, system=run.label, session=manifest.session, block=manifest.block, seed=manifest.seed
            )
        )
    columns = ["workload", "system", "session", "block", "seed", "seconds", "steps", "mean_return"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def crossing_points(runs: list[Run]) -> pd.DataFrame:
    """One row for each run and definition; `seconds` is empty where the run was censored, at `measured_s`."""
    rows = []
    for run in runs:
        manifest = run.bundle.manifest
        what = {
            "workload": manifest.workload,
            "system": run.label,
            "session": manifest.session,
            "block": manifest.block,
            "seed": manifest.seed,
        }
        rows += [what | point for point in points(run)]
    return pd.DataFrame(rows)


def time_shares(runs: list[Run]) -> pd.DataFrame:
    """Busy and waiting seconds by process and cause, long form."""
    rows = []
    for run in runs:
        manifest = run.bundle.manifest
        for process in run.processes:
            for state, causes in (("busy", process.busy_s), ("wait", process.wait_s)):
                for cause, seconds in causes.items():
                    rows.append(
                        {
                            "workload": manifest.workload,
                            "system": run.label,
                            "block": manifest.block,
                            "process": process.role,
                            "state": state,
                            "cause": cause,
                            "seconds": seconds,
                            "measured_s": run.measured_s,
                        }
                    )
    columns = ["workload", "system", "block", "process", "state", "cause", "seconds", "measured_s"]
    return pd.DataFrame(rows, columns=columns)
