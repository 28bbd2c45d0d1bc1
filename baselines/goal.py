"""Rule for when a run that stops at its goal may end. It is the same for every system."""

from __future__ import annotations

import numpy as np

from baselines.workload import Workload

WINDOW = 100
"""Episodes in a training return, as reports count them (`suites.statistics.intervals`)."""


class Goal:
    """Watches episodes and snapshots for the training return.

    The goal is reached when the mean return of the last 100 finished episodes reaches the workload's training threshold. The
    run then continues for as many snapshots as are in an evaluated return, so that a good policy can be seen.
    """

    def __init__(self, workload: Workload) -> None:
        self._threshold, self._snapshots_after = workload.thresholds.training, workload.evaluation.averaged
        self._episodes: list[tuple[int, float]] = []
        self._snapshots: list[int] = []
        self._looked_at = 0
        self._passed = False

    def episode(self, at_ns: int, episode_return: float) -> None:
        """Record an episode that ended. Episodes may be reported late and out of order."""
        self._episodes.append((at_ns, episode_return))

    def snapshot(self, at_ns: int) -> None:
        """Record a snapshot of the policy."""
        self._snapshots.append(at_ns)

    @property
    def passed(self) -> bool:
        """Whether the run may end. It stays true once it is."""
        # Only a snapshot can change that: between two of them nothing is computed beside what is measured.
        if not self._passed and len(self._snapshots) > self._looked_at:
            self._looked_at = len(self._snapshots)
            reached_ns = self._reached_ns()
            self._passed = reached_ns is not None and sum(ns > reached_ns for ns in self._snapshots) >= self._snapshots_after
        return self._passed

    def _reached_ns(self) -> int | None:
        self._episodes.sort()
        total = np.cumsum([0.0, *(value for _, value in self._episodes)])
        reached = np.flatnonzero((total[WINDOW:] - total[:-WINDOW]) / WINDOW >= self._threshold)
        return self._episodes[reached[0] + WINDOW - 1][0] if len(reached) else None
