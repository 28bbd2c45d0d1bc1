"""From bundles to what they say: curves, crossings and summary rows. Pure functions; imports no sibling package.

Two definitions of time to threshold (both reported): *training*, the mean of the preceding 100 finished episodes of
all actors; *evaluated*, greedy episodes of stamped snapshots, an interval between two snapshots of which the upper end
is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from suites import summary
from suites.bundle import Bundle, Counter, Episode, Evaluation, FirstStep, Process, Snapshot, Usage
from suites.statistics import (
    Estimate,
    bootstrap_iqm,
    expected_running_time,
    paired_ratio,
    restricted_mean,
    running_mean,
    streaks,
    training_crossing,
)
from suites.summary import Row, label_of

WARM_UP_SHARE = 0.1
"""Of the budget's steps, left out of throughput."""
KINDS = ("training", "evaluated")


@dataclass(frozen=True)
class Crossing:
    """When and with how many steps a threshold was reached; the interval is closed above."""

    seconds: float
    steps: int
    core_seconds: float | None
    seconds_before: float
    """Lower end: the last moment at which it was known not to have been reached."""


@dataclass(frozen=True)
class Run:
    """One completed bundle, understood."""

    bundle: Bundle
    label: str
    training: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each episode from the hundredth on."""
    evaluated: pd.DataFrame
    """Columns seconds, steps, mean_return: one row for each snapshot."""
    crossings: dict[str, Crossing | None]
    measured_s: float
    counters: dict[str, float]
    processes: tuple[Process, ...]
    production_steps_per_s: float
    cpu_s: float
    peak_rss_bytes: float

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
    workload = bundle.manifest.configuration["workload"]
    by_kind: dict[type, list[Any]] = {}
    for event in bundle.events:
        by_kind.setdefault(type(event), []).append(event)
    firsts, snapshots = by_kind.get(FirstStep, []), by_kind.get(Snapshot, [])
    if not firsts or not snapshots:
        raise ValueError(f"{bundle.path}: a completed run has a first step and snapshots")
    start = firsts[0].ns
    budget = workload["budget_steps"]
    # A final oversized batch is not counted.
    snapshots = [s for s in snapshots if s.steps <= budget]
    episodes = sorted((e for e in by_kind.get(Episode, []) if e.steps <= budget), key=lambda e: e.ns)
    usage = sorted(by_kind.get(Usage, []), key=lambda u: u.ns)
    evaluations = by_kind.get(Evaluation, [])

    means = running_mean([e.episode_return for e in episodes])
    training = pd.DataFrame(
        {
            "seconds": [(e.ns - start) / 1e9 for e in episodes],
            "steps": [e.steps for e in episodes],
            "mean_return": means,
        }
    ).dropna()
    curve = {e.steps: float(np.mean(e.returns)) for e in evaluations if e.purpose == "curve"}
    judged = [s for s in snapshots if s.steps in curve]
    evaluated = pd.DataFrame(
        {
            # The initial policy is published just before the first step.
            "seconds": [max(0, s.ns - start) / 1e9 for s in judged],
            "steps": [s.steps for s in judged],
            "mean_return": [curve[s.steps] for s in judged],
        }
    )

    def core_seconds(at_ns: int) -> float | None:
        if len(usage) < 2 or not usage[0].ns <= start:
            return None
        return float(np.interp(at_ns, [u.ns for u in usage], [u.cpu_s for u in usage])) - float(
            np.interp(start, [u.ns for u in usage], [u.cpu_s for u in usage])
        )

    thresholds = workload["thresholds"]
    crossings: dict[str, Crossing | None] = dict.fromkeys(KINDS)
    index = training_crossing([e.episode_return for e in episodes], thresholds["training"])
    if index is not None:
        episode = episodes[index]
        seconds = (episode.ns - start) / 1e9
        crossings["training"] = Crossing(seconds, episode.steps, core_seconds(episode.ns), seconds)
    confirmed = {e.steps for e in evaluations if e.purpose == "confirm" and np.mean(e.returns) >= thresholds["evaluated"]}
    for i in streaks([curve[s.steps] for s in judged], thresholds["evaluated"], workload["evaluation"]["in_a_row"]):
        if judged[i].steps in confirmed:
            snapshot, before = judged[i], judged[i - 1] if i else judged[i]
            crossings["evaluated"] = Crossing(
                max(0, snapshot.ns - start) / 1e9,
                snapshot.steps,
                core_seconds(snapshot.ns),
                max(0, before.ns - start) / 1e9,
            )
            break

    steady = [s for s in snapshots if s.steps >= WARM_UP_SHARE * budget]
    rate = (steady[-1].steps - steady[0].steps) / ((steady[-1].ns - steady[0].ns) / 1e9) if len(steady) > 1 else float("nan")
    end = max(snapshots[-1].ns, episodes[-1].ns if episodes else 0)
    processes = tuple(by_kind.get(Process, []))
    return Run(
        bundle=bundle,
        label=label_of(bundle),
        training=training,
        evaluated=evaluated,
        crossings=crossings,
        measured_s=(end - start) / 1e9,
        counters={c.name: c.value for c in by_kind.get(Counter, [])},
        processes=processes,
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
            rows += _of_system(workload, label, [run for run in of_workload if run.label == label])
        for first, second in pairs:
            if first in labels and second in labels:
                rows += _ratios(workload, first, second, of_workload)
    return rows


def _of_system(workload: str, label: str, runs: list[Run]) -> list[Row]:
    rows = []
    horizon = min(run.measured_s for run in runs)
    for kind in KINDS:
        crossings = [run.crossings[kind] for run in runs]
        reached = [c for c in crossings if c is not None]
        censored = len(runs) - len(reached)
        more = {"threshold_kind": kind, "censored": censored}

        def add(metric: str, unit: str, values: list[float], n: int = len(runs), more: Row = more) -> None:
            e = bootstrap_iqm(values)
            rows.append(row(workload, label, metric, unit, Estimate(e.value, e.low, e.high, n), **more))

        add("time_to_threshold_s", "s", [c.seconds for c in reached])
        add("steps_to_threshold", "steps", [float(c.steps) for c in reached])
        add("core_seconds_to_threshold_s", "s", [c.core_seconds for c in reached if c.core_seconds is not None])
        spent = [run.measured_s if c is None else c.seconds for run, c in zip(runs, crossings, strict=True)]
        solved = [c is not None for c in crossings]
        expected = expected_running_time(spent, solved)
        rows.append(row(workload, label, "expected_running_time_s", "s", Estimate(expected, None, None, len(runs)), **more))
        success = Estimate(len(reached) / len(runs), None, None, len(runs))
        rows.append(row(workload, label, "success_rate", "share", success, **more))
        restricted = Estimate(restricted_mean(spent, solved, horizon), None, None, len(runs))
        rows.append(row(workload, label, "restricted_mean_time_s", "s", restricted, **more))
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
    """How many times faster the first is: within blocks in which both got there, and one-sided bounds.

    Where the second never got there while the first did, what it took is more than its whole run: a ratio is then at
    least that over the first's time (and at most, the other way round). Bounds are over all blocks in which that one
    side got there.
    """
    ours = {run.block: run for run in runs if run.label == first}
    theirs = {run.block: run for run in runs if run.label == second}
    blocks = sorted(ours.keys() & theirs.keys())
    rows = []

    def add(metric: str, unit: str, quantity: Callable[[Run], float | None], kind: str | None) -> None:
        both = [(a, b) for k in blocks if (a := quantity(theirs[k])) and (b := quantity(ours[k]))]
        estimate = paired_ratio([a for a, _ in both], [b for _, b in both])
        more = {"baseline": second, "threshold_kind": kind, "censored": len(blocks) - len(both)}
        rows.append(row(workload, first, metric, unit, estimate, **more))

    for kind in KINDS:
        add("time_to_threshold_ratio", "ratio", lambda run, k=kind: c.seconds if (c := run.crossings[k]) else None, kind)  # type: ignore[misc]
        add("steps_to_threshold_ratio", "ratio", lambda run, k=kind: float(c.steps) if (c := run.crossings[k]) else None, kind)  # type: ignore[misc]
        for name, known, other in (("at_least", ours, theirs), ("at_most", theirs, ours)):
            reached = [(known[k], other[k]) for k in blocks if known[k].crossings[kind]]
            if all(o.crossings[kind] for _, o in reached):
                continue
            spent = [c.seconds if (c := o.crossings[kind]) else o.measured_s for _, o in reached]
            took = [c.seconds for r, _ in reached if (c := r.crossings[kind])]
            bound = paired_ratio(spent, took) if name == "at_least" else paired_ratio(took, spent)
            estimate = Estimate(bound.value, None, None, bound.n)
            more = {"baseline": second, "threshold_kind": kind, "censored": len(blocks) - len(reached)}
            rows.append(row(workload, first, f"time_to_threshold_ratio_{name}", "ratio", estimate, **more))
    add("production_ratio", "ratio", lambda run: 1 / run.production_steps_per_s, None)
    return rows


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
        for kind in KINDS:
            c = run.crossings[kind]
            rows.append(
                {
                    "workload": manifest.workload,
                    "system": run.label,
                    "session": manifest.session,
                    "block": manifest.block,
                    "seed": manifest.seed,
                    "threshold_kind": kind,
                    "seconds": None if c is None else c.seconds,
                    "seconds_before": None if c is None else c.seconds_before,
                    "steps": None if c is None else c.steps,
                    "core_seconds": None if c is None else c.core_seconds,
                    "measured_s": run.measured_s,
                }
            )
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
