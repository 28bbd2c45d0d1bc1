"""Analysis of staleness bundles: distributions of lag and age. Functions are pure, and no sibling package is imported."""

from __future__ import annotations

import collections
from collections.abc import Callable
from functools import partial

import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import Counter, Histogram, Process
from suites.statistics import summary
from suites.statistics.intervals import bootstrap_iqm
from suites.statistics.summary import Row, label_of

KINDS = ("insertion_lag", "age")
UNITS = ("rounds", "versions")
"""Rounds of updates, and changes of the weights. Bounds are in rounds; bundles of earlier revisions have versions alone."""
WAITS = {"actor": ("weights", "credit"), "learner": ("samples", "barrier")}
"""Causes for which each kind of role may wait. Waiting for a simulator counts as an actor's work."""
SHARES = {"p50": 0.50, "p99": 0.99}

row = partial(summary.row, "staleness")

COUNTERS = {
    "consumption_ratio": ("learner_consumption_ratio", "ratio"),
    "consumption_ratio_target": ("learner_consumption_ratio_target", "ratio"),
    "chunks_evicted": ("learner_chunks_evicted", "chunks"),
    "samples_evicted": ("learner_samples_evicted", "samples"),
    "rounds_starved": ("learner_rounds_starved", "rounds"),
    "window_chunks": ("learner_window_chunks", "chunks"),
    "lag_bound": ("learner_lag_bound_rounds", "rounds"),
    "chunks_trained_beyond_bound": ("learner_chunks_corrected", "chunks"),
}
"""Scalars of a run: the counter that holds each, and its unit."""


def distributions(bundles: list[Bundle]) -> pd.DataFrame:
    """One row for each value of a distribution: how many chunks of a run had it."""
    rows = []
    for b in bundles:
        m = b.manifest
        for kind in KINDS:
            for unit in UNITS:
                for value, chunks in sorted(histogram(b, f"learner_{kind}_{unit}").items()):
                    rows.append((m.workload, label_of(b), m.session, m.block, kind, unit, value, chunks))
    return pd.DataFrame(rows, columns=["workload", "system", "session", "block", "kind", "unit", "value", "chunks"])


def histogram(b: Bundle, name: str) -> collections.Counter[int]:
    """All learners' counts together."""
    total: collections.Counter[int] = collections.Counter()
    for event in b.of(Histogram):
        if event.name == name:
            total.update(event.counts)
    return total


def quantile(counts: collections.Counter[int], share: float) -> float | None:
    """The smallest value that at least this share of all counts does not exceed; None of nothing."""
    below, wanted = 0, share * counts.total()
    for value in sorted(counts):
        below += counts[value]
        if below >= wanted:
            return float(value)
    return None


def summarise(bundles: list[Bundle]) -> list[Row]:
    """Rows of `summary.json`: quantiles of lag and age, and what the balance counted, for each workload and system."""
    rows: list[Row] = []
    for workload, label in sorted({(b.manifest.workload, label_of(b)) for b in bundles}):
        own = [b for b in bundles if (b.manifest.workload, label_of(b)) == (workload, label)]
        for metric, (unit, value) in _quantities().items():
            values = [v for b in own if (v := value(b)) is not None]
            if values:
                rows.append(row(workload, label, metric, unit, bootstrap_iqm(values)))
    return rows


def _quantities() -> dict[str, tuple[str, Callable[[Bundle], float | None]]]:
    """Unit and reading of each scalar, by metric."""
    found: dict[str, tuple[str, Callable[[Bundle], float | None]]] = {}
    for kind in KINDS:
        for unit in UNITS:
            for share_name, share in SHARES.items():
                reading = partial(_quantile, name=f"learner_{kind}_{unit}", share=share)
                found[f"{kind}_{share_name}_{unit}"] = unit, reading
    for role, causes in WAITS.items():
        for cause in causes:
            found[f"{role}_waits_for_{cause}_share"] = "share", partial(waiting_share, role=role, cause=cause)
    for metric, (counter, unit) in COUNTERS.items():
        found[metric] = unit, partial(counted, name=counter)
    return found


def _quantile(b: Bundle, name: str, share: float) -> float | None:
    return quantile(histogram(b, name), share)


def waiting_share(b: Bundle, role: str, cause: str) -> float | None:
    """Share of time for which all processes of a kind of role waited for this cause; None if there are none."""
    own = [event for event in b.of(Process) if event.role.startswith(role)]
    # What follows the run's end is no part of it.
    accounts = [[*p.busy_s.values(), *(s for name, s in p.wait_s.items() if name != "stop")] for p in own]
    total = sum(sum(seconds) for seconds in accounts)
    return sum(p.wait_s.get(cause, 0.0) for p in own) / total if total else None


def counted(b: Bundle, name: str) -> float | None:
    """The first total of this name; None if there is none."""
    return next((event.value for event in b.of(Counter) if event.name == name), None)
