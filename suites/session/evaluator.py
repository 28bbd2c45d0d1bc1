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

from threadpoolctl import threadpool_limits

from baselines.workload import Workload
from programs.cli import ConfigError
from programs.process import adopt_orphans
from suites.records.events import Evaluation, Snapshot
from suites.session import forks, players
from suites.statistics.curves import crossing
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
    """Play every snapshot.

    Parameters
    ----------
    progress
        is told the share that is done, 0 to 1.
    stop_at_goal
        snapshots are played in their order, some at a time, and not far beyond the crossing, which is where it would be if all
        were played.
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
        means: list[float] = []
        at_a_time = judges * WORTH_A_JUDGE if stop_at_goal else len(snapshots)
        for first in range(0, len(snapshots), at_a_time):
            some = snapshots[first : first + at_a_time]
            played = pool.map(partial(_play, e.seed), [directory / snapshot.file for snapshot in some])
            for snapshot, returns in zip(some, played, strict=True):
                means.append(sum(returns) / len(returns))
                yield Evaluation(time.monotonic_ns(), snapshot.steps, snapshot.version, "curve", returns)
                progress(len(means) / len(snapshots))
            if stop_at_goal and crossing(means, workload.thresholds.evaluated, e.averaged) is not None:
                return


def _begin(workload: Workload, command: Sequence[str] | None) -> None:
    """In a process that plays: get ready."""
    global _player, _workload, _command
    # Before torch is imported, which plays pictures: all cores have a process of their own.
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)
    adopt_orphans()
    _workload, _command = workload, command
    _player = Player(workload.env, workload.evaluation.episodes, workload.games, workload.simulator)


_player: Player
_workload: Workload
_command: Sequence[str] | None
"""Of this process, where it plays."""


def _play(first_seed: int, file: Path) -> list[float]:
    """Returns of a policy's episodes, one from each seed."""
    episodes = _workload.evaluation.episodes
    if file.suffix != FLAT:
        if _command is None:
            raise ConfigError(f"{file}: is no {FLAT} file, and its system has no player")
        return players.play(_command, file, _workload.env, first_seed, episodes)
    policy = load_policy(file)
    try:
        _player.fits(policy)
    except ConfigError:
        raise ConfigError(f"{file}: its network is not for {_workload.env}") from None
    seeds, sampled = range(first_seed, first_seed + episodes), _workload.evaluation.sampled
    returns: list[float] = _player.play(policy, seeds, sampled=sampled).tolist()
    return returns
