"""Rows of `summary.json`: one scalar each, with its labels. This module imports no other package of the project."""

from __future__ import annotations

from typing import Any

from suites.records.bundle import Bundle
from suites.statistics.intervals import Estimate

Row = dict[str, Any]
AGAIN = "-again"
"""How the label of a block's second run of a system ends."""


def row(suite: str, workload: str, system: str, metric: str, unit: str, estimate: Estimate, **more: Any) -> Row:
    """One scalar; keys that do not apply are null, and there is no NaN."""
    keys: Row = {
        "suite": suite,
        "workload": workload,
        "system": system,
        "baseline": None,
        "division": "closed",
        # Said by whoever knows what all of these runs have in common (`reports.dataset`).
        "machine": None,
        "options": None,
        "testbed": "local",
        "nodes": 1,
        "scaling": None,
        "size_bytes": None,
        "explorers": None,
        "threshold_kind": None,
        "metric": metric,
        "unit": unit,
        "value": estimate.value,
        "ci_low": estimate.low,
        "ci_high": estimate.high,
        "n": estimate.n,
        "censored": 0,
    }
    return keys | more


def label_of(bundle: Bundle) -> str:
    """The system's id; the second run of a block ends in `AGAIN`."""
    manifest = bundle.manifest
    return f"{manifest.system}{AGAIN}" if manifest.replica else manifest.system


def identity(bundle: Bundle) -> Row:
    """Labels that identify a run among those of its workload."""
    manifest = bundle.manifest
    return {"system": label_of(bundle), "session": manifest.session, "block": manifest.block, "seed": manifest.seed}
