"""Judges a finished run's snapshots: the same player, episodes and threshold rule for every system."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from baselines.workload import Workload
from suites.events import Evaluation, Snapshot
from suites.statistics import streaks
from tianji.play import Player
from tianji.policy import load_policy


def evaluate(
    directory: Path, workload: Workload, snapshots: list[Snapshot], progress: Callable[[float], None]
) -> Iterator[Evaluation]:
    """Play every snapshot; then confirm the crossing, on episodes of other seeds.

    A candidate is the first of `in_a_row` snapshots at or above the threshold. If it does not confirm, the next one is
    tried.

    Parameters
    ----------
    progress
        is told the share that is done, 0 to 1.
    """
    e = workload.evaluation
    player = Player(workload.env, e.episodes, workload.games, workload.simulator)
    curve_seeds = range(e.seed, e.seed + e.episodes)
    confirm_seeds = range(e.seed + e.episodes, e.seed + 2 * e.episodes)

    def play(snapshot: Snapshot, purpose: str) -> Evaluation:
        seeds = curve_seeds if purpose == "curve" else confirm_seeds
        returns = player.play(load_policy(directory / snapshot.file), seeds)
        return Evaluation(time.monotonic_ns(), snapshot.steps, snapshot.version, purpose, returns.tolist())  # type: ignore[arg-type]

    try:
        means = []
        for i, snapshot in enumerate(snapshots):
            evaluation = play(snapshot, "curve")
            means.append(sum(evaluation.returns) / len(evaluation.returns))
            yield evaluation
            progress((i + 1) / len(snapshots))
        for i in streaks(means, workload.thresholds.evaluated, e.in_a_row):
            evaluation = play(snapshots[i], "confirm")
            yield evaluation
            if sum(evaluation.returns) / len(evaluation.returns) >= workload.thresholds.evaluated:
                return
    finally:
        player.close()
