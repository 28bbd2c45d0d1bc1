"""Evaluates the snapshots of a finished run, with the same episodes and threshold rule for every system.

Nothing is measured meanwhile, so all cores play snapshots at once. Returns do not depend on which process plays.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from threadpoolctl import threadpool_limits

from baselines.workload import Workload
from programs.cli import ConfigError
from programs.process import adopt_orphans
from suites.records.events import Evaluation, Snapshot
from suites.session import forks, players
from suites.statistics.curves import streaks
from tianji.policy import load_policy
from tianji.run.play import Player

FLAT = ".safetensors"
"""Ending of snapshots that are the flat vector of a network of `tianji.algorithms.networks`."""
WORTH_A_JUDGE = 4
"""Snapshots for which one more process pays: it takes about half a second to start."""


def evaluate(
    directory: Path,
    workload: Workload,
    snapshots: list[Snapshot],
    progress: Callable[[float], None],
    *,
    stop_at_goal: bool = False,
    player: Sequence[str] | None = None,
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
    player
        command that plays snapshots that are no flat vectors (`System.player`).

    Raises
    ------
    PlayerFailed
        when the player did not play a snapshot.
    ConfigError
        for a flat vector that is damaged or of another network, or a snapshot that needs a player if there is none.
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
    with forks.pool("tj-judge", judges, "spawn", partial(_begin, workload, player)) as pool:

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


def _begin(workload: Workload, command: Sequence[str] | None) -> None:
    """In a process that plays: get ready."""
    global _player, _workload, _command
    threadpool_limits(1)
    adopt_orphans()
    _workload, _command = workload, command
    _player = Player(workload.env, workload.evaluation.episodes, workload.games, workload.simulator)


_player: Player
_workload: Workload
_command: Sequence[str] | None
"""Of this process, where it plays."""


def _play(first_seed: int, file: Path) -> list[float]:
    """Returns of a policy's greedy episodes, one from each seed."""
    episodes = _workload.evaluation.episodes
    if file.suffix != FLAT:
        if _command is None:
            raise ConfigError(f"{file}: is no {FLAT} file, and its system has no player")
        return players.play(_command, file, _workload.env, first_seed, episodes)
    policy, seen = load_policy(file), _player.describe
    if (policy.network.features, policy.network.actions) != (seen.features, seen.actions):
        raise ConfigError(f"{file}: its network is not for {_workload.env}")
    returns: list[float] = _player.play(policy, range(first_seed, first_seed + episodes)).tolist()
    return returns
