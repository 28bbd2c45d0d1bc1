"""Judges a finished run's snapshots: the same player, episodes and threshold rule for every system.

Nothing is measured meanwhile, so snapshots are played on all cores at once: what a snapshot's episodes return does not depend
on who plays it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, Self

import msgspec

from baselines.workload import Workload
from suites.records.events import Evaluation, Snapshot
from suites.session.judge import Order
from suites.statistics.intervals import streaks
from tianji.launch.children import ONE_THREAD

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
    ChildProcessError
        when a process that plays ended before it was done; what it printed says why.
    """
    e = workload.evaluation
    if not snapshots:
        return
    judges = min(len(os.sched_getaffinity(0)), math.ceil(len(snapshots) / WORTH_A_JUDGE))
    with _Judges(workload, judges) as panel:

        def play(
            chosen: list[Snapshot], purpose: Literal["curve", "confirm"], first_seed: int
        ) -> Iterator[tuple[Evaluation, float]]:
            orders = [Order(str(directory / snapshot.file), first_seed) for snapshot in chosen]
            for snapshot, returns in zip(chosen, panel.play(orders), strict=True):
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


class _Judges:
    """Processes that play (see `suites.session.judge`), each asked by a thread of its own.

    To be entered and left by the main thread, for a process also dies with the thread that started it.
    """

    def __init__(self, workload: Workload, number: int) -> None:
        self._workload, self._number = workload, number
        self._threads = ThreadPoolExecutor(number)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def __enter__(self) -> Self:
        command, pipe = [sys.executable, "-m", "suites.session.judge", str(os.getpid())], subprocess.PIPE
        try:
            for _ in range(self._number):
                process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, **ONE_THREAD})
                self._processes.append(process)
                self._free.put(process)
                _say(process, self._workload)
        except BaseException:
            self.__exit__()
            raise
        return self

    def play(self, orders: Iterable[Order]) -> Iterator[list[float]]:
        """Returns of each order, in its place."""
        return self._threads.map(self._play, orders)

    def _play(self, order: Order) -> list[float]:
        process = self._free.get()
        try:
            _say(process, order)
            assert process.stdout is not None
            answer = process.stdout.readline()
        finally:
            self._free.put(process)
        if not answer:
            raise ChildProcessError(f"a process that plays snapshots ended, asked for {Path(order.file).name}")
        return msgspec.json.decode(answer, type=list[float])

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            with process:  # Closes its pipes and waits for it.
                process.wait()


def _say(process: subprocess.Popen[bytes], what: Workload | Order) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # It has ended: whoever reads its answer finds out.
        os.write(process.stdin.fileno(), msgspec.json.encode(what) + b"\n")
