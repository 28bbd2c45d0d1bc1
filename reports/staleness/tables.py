"""Tables of the staleness suite, each a function from a workload to a frame of text."""

from __future__ import annotations

import pandas as pd

from reports import bounds
from reports.pairs import REFERENCE
from reports.staleness.view import Balanced
from reports.tables import inverse, number, with_interval

LAGS = {
    "Lag p50": "insertion_lag_p50_rounds",
    "Lag p99": "insertion_lag_p99_rounds",
    "Age p50": "age_p50_rounds",
    "Age p99": "age_p99_rounds",
}
WAITS = {
    "Actors wait for weights": "actor_waits_for_weights_share",
    "Actors wait for credit": "actor_waits_for_credit_share",
    "Learner waits for samples": "learner_waits_for_samples_share",
    "Learner waits at a barrier": "learner_waits_for_barrier_share",
    "Bound, rounds": "lag_bound",
    "Window, chunks": "window_chunks",
}
KINDS = ("training", "evaluated")


def balance(view: Balanced) -> pd.DataFrame:
    """Lag, age, C/P, evictions and steps to threshold, a line a system."""
    lines = []
    for label in view.shown:
        steps = view.row(label, "steps_to_threshold", threshold_kind="training")
        ratio, target = view.row(label, "consumption_ratio"), view.row(label, "consumption_ratio_target")
        more = {kind: view.row(REFERENCE, "steps_to_threshold_ratio", threshold_kind=kind, baseline=label) for kind in KINDS}
        lines.append(
            {
                "System": view.title(label),
                "n": str(steps["n"]) if steps else "-",
                **view.cells(label, LAGS),
                "C/P": f"{with_interval(ratio)} (of {number(target['value'] if target else None)})",
                **view.cells(label, {"Evicted chunks": "chunks_evicted", "Steps/s": "production_steps_per_s"}),
                "Reached": f"{steps['n'] - steps['censored']} of {steps['n']}" if steps else "-",
                "Steps": with_interval(steps),
                **{f"Ratio of steps, {kind}": bounds.counted(row) for kind, row in more.items()},
                **{f"Times as fast, {kind}": view.fast(label, kind).words for kind in KINDS},
                "Ratio of steps/s": with_interval(inverse(view.row(REFERENCE, "production_ratio", baseline=label)), "x"),
            }
        )
    return pd.DataFrame(lines)


def waiting(view: Balanced) -> pd.DataFrame:
    """Who waits for what, a line a system: shares of the time of all its actors, and of its learner."""
    return pd.DataFrame({"System": view.title(label), **view.cells(label, WAITS)} for label in view.shown)


TABLES = {"balance": balance, "waiting": waiting}
