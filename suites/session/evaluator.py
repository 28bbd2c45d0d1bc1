"""Evaluates the snapshots of a finished run, with the same episodes and threshold rule for every system.

Nothing is measured meanwhile, so all cores play snapshots at once. Returns do not depend on which process plays.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from threadpoolctl import threadpool_limits

from baselines.workload import Workload
from suites.records.events import Evaluation, Snapshot
from suites.session import forks
from suites.statistics.intervals import streaks
from tianji.policy import load_policy
from tianji.run.play import Player

WORTH_A_JUDGE = 4
"""Snapshots for which one more process pays: it takes about half a second to start."""


def evaluate(
    directory: Path,
    workload: Workload,
    snapshots: list[Snapshot],
    progress: Callable[[float], None],
    *,
    stop_at_goal: bool = False,
) -> Iterator[Evaluation]:
    """Play every snapshot; then confirm the crossing, on episodes of other seeds.

    A candidate is the first of `in_a_row` snapshots at or above the threshold. If it does not confirm, the next one is
    tried.

    Parameters
    ----------
    progress
        is told the share that is done, 0 to 1.
    stop_at_goal
        snapshots are played in their order, some at a time, and no further than the crossing is confirmed, which it is where it
        would be if all were played.

    Raises
    ------
    concurrent.futures.process.BrokenProcessPool
        when a process that plays was killed.
    Exception
        what playing a snapshot raised.
    """
    e = workload.evaluation
    if not snapshots:
        return
    judges = min(len(os.sched_getaffinity(0)), math.ceil(len(snapshots) / WORTH_A_JUDGE))
    # Not forked: the runner has threads of its own.
    with forks.pool("tj-judge", judges, "spawn", partial(_begin, workload)) as pool:

        def play(
            chosen: list[Snapshot], purpose: Literal["curve", "confirm"], first_seed: int
        ) -> Iterator[tuple[Evaluation, float]]:
            files = [directory / snapshot.file for snapshot in chosen]
            for snapshot, returns in zip(chosen, pool.map(partial(_play, first_seed), files), strict=True):
                evaluation = Evaluation(time.monotonic_ns(), snapshot.steps, snapshot.version, purpose, returns)
                yield evaluation, sum(returns) / len(returns)

        means: list[float] = []
        untried = 0
        at_a_time = judges * WORTH_A_JUDGE if stop_at_goal else len(snapshots)
        for first in range(0, len(snapshots), at_a_time):
            for evaluation, mean in play(snapshots[first : first + at_a_time], "curve", e.seed):
                means.append(mean)
                yield evaluation
                progress(len(means) / len(snapshots))
            for i in streaks(means, workload.thresholds.evaluated, e.in_a_row):
                if i < untried:
                    continue
                untried = i + 1
                for evaluation, mean in play([snapshots[i]], "confirm", e.seed + e.episodes):
                    yield evaluation
                    if mean >= workload.thresholds.evaluated:
                        return


def _begin(workload: Workload) -> None:
    """In a process that plays: get ready."""
    global _player, _episodes
    threadpool_limits(1)
    _episodes = workload.evaluation.episodes
    _player = Player(workload.env, _episodes, workload.games, workload.simulator)


_player: Player
_episodes: int
"""Of this process, where it plays."""


def _play(first_seed: int, file: Path) -> list[float]:
    """Returns of a policy's greedy episodes, one from each seed."""
    returns: list[float] = _player.play(load_policy(file), range(first_seed, first_seed + _episodes)).tolist()
    return returns
