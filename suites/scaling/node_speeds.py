"""Speed of nodes: a cell counts the same loop on every node before and after its run, with as many nodes busy at every size.

The counts are counters of its bundle. These pure functions need neither pandas nor SciPy: the process of a cell imports them.
"""

from __future__ import annotations

from statistics import fmean

from suites.records.bundle import Bundle
from suites.records.events import Counter

BEFORE, AFTER = "before_loops_per_s", "after_loops_per_s"
"""Counters of a bundle, one a node; the role names the node (`node_role`)."""
TOLERANCE = 0.05
"""Largest relative difference between readings of a block that stays."""


def node_role(number: int) -> str:
    """Role of a node's counters; nodes count from 1."""
    return f"node {number}"


def readings(bundle: Bundle) -> dict[int, dict[str, float]]:
    """By node, its counters of `BEFORE` and `AFTER`; empty for a bundle of an earlier version."""
    found: dict[int, dict[str, float]] = {}
    for event in bundle.of(Counter):
        if event.name in (BEFORE, AFTER):
            found.setdefault(int(event.role.removeprefix(node_role(0)[:-1])), {})[event.name] = event.value
    return found


def means(bundle: Bundle) -> tuple[float, float] | None:
    """Speed before and after, mean over nodes; None: a reading is missing."""
    by_node = readings(bundle).values()
    if not by_node or any(len(found) < 2 or min(found.values()) <= 0 for found in by_node):
        return None
    return fmean(found[BEFORE] for found in by_node), fmean(found[AFTER] for found in by_node)
