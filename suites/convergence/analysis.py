"""Analysis of convergence bundles: curves, crossings and summary rows. It is pure and imports no package that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import Counter, Process, Usage
from suites.statistics import summary
from suites.statistics.crossings import (
    KINDS,
    Block,
    Learning,
    Ratio,
    all_ratios,
    horizon_steps,
    learning,
    points,
    quantities,
    ratio_of,
    time_ratios,
)
from suites.statistics.intervals import bootstrap_iqm
from suites.statistics.summary import Row, identity, label_of

TOTAL = "total_"
"""Begins the name of a metric of times that include compilation; systems that compile have these beside those without."""
WARM_UP_SHARE = 0.1
"""Share of a run's steps that is left out of throughput."""


@dataclass(frozen=True)
class Run(Learning):
    """One completed bundle, understood."""

    bundle: Bundle
    label: str
    counters: dict[str, float]
    processes: tuple[Process, ...]
    production_steps_per_s: float
    cpu_s: float
    peak_rss_bytes: float

    @property
    def block(self) -> Block:
        """Which runs it may be paired with."""
        return self.bundle.manifest.session, self.bundle.manifest.block

    @property
    def compile_s(self) -> float | None:
        """Seconds of compilation before the first step; None: it does not compile. The measured time is without them."""
        return self.counters.get("compile_s")

    @property
    def total(self) -> Run:
        """The same run with its compilation in the measured time."""
        more = self.compile_s or 0.0
        crossings = {
            kind: c and replace(c, seconds=c.seconds + more, seconds_before=c.seconds_before + more)
            for kind, c in self.crossings.items()
        }
        steps, seconds = self.pace
        return replace(self, crossings=crossings, measured_s=self.measured_s + more, pace=(steps, seconds + more))


def understand(bundle: Bundle) -> Run:
    """Compute everything about one completed run.

    Raises
    ------
    ValueError
        when the bundle lacks a first step or snapshots.
    """
    learnt = learning(bundle)
    usage = bundle.of(Usage)
    taken = learnt.snapshots[-1].steps
    steady = [s for s in learnt.snapshots if s.steps >= WARM_UP_SHARE * taken]
    rate = (steady[-1].steps - steady[0].steps) / ((steady[-1].ns - steady[0].ns) / 1e9) if len(steady) > 1 else float("nan")
    return Run(
        **vars(learnt),
        bundle=bundle,
        label=label_of(bundle),
        counters={event.name: event.value for event in bundle.of(Counter)},
        processes=tuple(bundle.of(Process)),
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
        labels, horizon = sorted({run.label for run in of_workload}), horizon_steps(of_workload)
        for label in labels:
            rows += _of_system(workload, label, [run for run in of_workload if run.label == label], horizon)
        for first, second in pairs:
            if first in labels and second in labels:
                rows += _ratios(workload, first, second, of_workload)
    return rows


def _of_system(workload: str, label: str, runs: list[Run], horizon: int) -> list[Row]:
    rows = []
    for kind in KINDS:
        more = {"threshold_kind": kind, "censored": sum(run.crossings[kind] is None for run in runs)}
        rows += [row(workload, label, metric, unit, value, **more) for metric, unit, value in quantities(runs, kind, horizon)]
        if _compile(runs):
            metric, unit, total = next(quantities([run.total for run in runs], kind, horizon))
            rows.append(row(workload, label, f"{TOTAL}{metric}", unit, total, **more))
    for metric, unit, reading in SCALARS:
        values = [value for run in runs if (value := reading(run)) is not None and np.isfinite(value)]
        if values:
            rows.append(row(workload, label, metric, unit, bootstrap_iqm(values)))
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


SCALARS: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
    ("production_steps_per_s", "steps/s", lambda run: run.production_steps_per_s),
    ("setup_s", "s", lambda run: run.bundle.manifest.phases_s.get("setup")),
    # Of systems that compile what they run; it is within set-up, not within the measured time.
    ("compile_s", "s", lambda run: run.compile_s),
    ("cpu_s", "s", lambda run: run.cpu_s),
    ("peak_rss_bytes", "bytes", lambda run: run.peak_rss_bytes),
    ("optimizer_steps", "updates", lambda run: run.counters.get("learner_optimizer_steps")),
    ("final_training_return", "return", lambda run: run.training["mean_return"].iloc[-1] if len(run.training) else None),
    ("own_final_return", "return", lambda run: run.counters.get("own_episode_return_mean")),
    ("staleness_mean_versions", "versions", lambda run: run.counters.get("learner_staleness_mean_versions")),
    ("staleness_mean_rounds", "rounds", lambda run: run.counters.get("learner_staleness_mean_rounds")),
    ("overlap_bound_ratio", "ratio", overlap_bound),
)
"""Metrics of one run; what a run does not know is left out."""


def _ratios(workload: str, first: str, second: str, runs: list[Run]) -> Iterator[Row]:
    """Speed-up of the first system: ratios of blocks in which both reached the target, and one-sided bounds."""
    ours, theirs = ({run.block: run for run in runs if run.label == label} for label in (first, second))
    blocks = sorted(ours.keys() & theirs.keys())

    def paired(metric: str, quantity: Callable[[Run], float | None]) -> Ratio:
        both = [(a, b, k[0]) for k in blocks if (a := quantity(theirs[k])) and (b := quantity(ours[k]))]
        return metric, ratio_of(both), len(blocks) - len(both)

    for kind in KINDS:
        time, *bounds = time_ratios(ours, theirs, kind)
        bounds += all_ratios(ours, theirs, kind)
        if _compile([*ours.values(), *theirs.values()]):
            our_totals, their_totals = ({block: run.total for block, run in side.items()} for side in (ours, theirs))
            totals = [*time_ratios(our_totals, their_totals, kind), *all_ratios(our_totals, their_totals, kind)]
            bounds += [(f"{TOTAL}{metric}", estimate, censored) for metric, estimate, censored in totals]
        cores = paired("core_seconds_to_threshold_ratio", partial(_core_seconds, kind))
        for metric, estimate, censored in (time, paired("steps_to_threshold_ratio", partial(_steps, kind)), cores, *bounds):
            more = {"baseline": second, "threshold_kind": kind, "censored": censored}
            yield row(workload, first, metric, "ratio", estimate, **more)
    metric, estimate, censored = paired("production_ratio", _seconds_a_step)
    yield row(workload, first, metric, "ratio", estimate, baseline=second, censored=censored)


def _compile(runs: Iterable[Run]) -> bool:
    """Whether any of these runs compiled."""
    return any(run.compile_s is not None for run in runs)


def _seconds_a_step(run: Run) -> float | None:
    """None of a run that stood still, whose rate is nothing or not known."""
    return 1 / run.production_steps_per_s if run.production_steps_per_s > 0 else None


def _steps(kind: str, run: Run) -> float | None:
    crossing = run.crossings[kind]
    return None if crossing is None else float(crossing.steps)


def _core_seconds(kind: str, run: Run) -> float | None:
    crossing = run.crossings[kind]
    return None if crossing is None else crossing.core_seconds


WHAT = ["workload", "system", "session", "block", "seed"]
"""Columns that say what a line is of."""


def _what(run: Run) -> dict[str, Any]:
    return {"workload": run.bundle.manifest.workload, **identity(run.bundle)}


def curves(runs: list[Run], kind: str) -> pd.DataFrame:
    """Learning curves of all runs in long form. Columns: those of `WHAT`, then seconds, steps and mean_return."""
    columns = ["seconds", "steps", "mean_return"]
    if not runs:
        return pd.DataFrame(columns=[*WHAT, *columns])
    parts = [run.training if kind == "training" else run.evaluated for run in runs]
    rows = np.repeat(np.arange(len(runs)), [len(one) for one in parts])
    found = pd.DataFrame([_what(run) for run in runs]).take(rows).reset_index(drop=True)
    return found.assign(**{name: np.concatenate([one[name] for one in parts]) for name in columns})[[*WHAT, *columns]]


def crossing_points(runs: list[Run]) -> pd.DataFrame:
    """One row for each run and definition; `seconds` is empty where it was censored, at `measured_s` and `measured_steps`."""
    return pd.DataFrame([_what(run) | point | {"loop": machine_speed(run.bundle)} for run in runs for point in points(run)])


def machine_speed(bundle: Bundle) -> float:
    """How fast the machine was around a run: the mean of its two bare loops; NaN where none was read."""
    rates = [rate for rate in bundle.manifest.environment.get("bare_loop") or () if rate]
    return float(np.mean(rates)) if rates else float("nan")


def time_shares(runs: list[Run]) -> pd.DataFrame:
    """Busy and waiting seconds by process and cause, long form."""
    rows = [
        (run.bundle.manifest.workload, run.label, run.block[1], process.role, state, cause, seconds, run.measured_s)
        for run in runs
        for process in run.processes
        for state, causes in (("busy", process.busy_s), ("wait", process.wait_s))
        for cause, seconds in causes.items()
    ]
    columns = ["workload", "system", "block", "process", "state", "cause", "seconds", "measured_s"]
    return pd.DataFrame(rows, columns=columns)
