"""Parallel work in forked processes on all cores, which clean up after themselves.

Forked processes inherit their data, so that it is never serialised.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from typing import Literal

from programs.process import die_with_parent, name_process

_inherited: list[Callable[[], None]] = []
"""The jobs, for the processes that are forked meanwhile."""


def at_once(jobs: Sequence[Callable[[], None]]) -> None:
    """Do every job, each in one of as many processes as there are cores; what a job changes in memory is lost.

    To be called by the main thread: a process also dies with the thread that started it. With one core or one job nothing is
    forked.

    Raises
    ------
    concurrent.futures.process.BrokenProcessPool
        when one of the processes was killed.
    Exception
        what the first job that failed, in their order, raised; those not begun by then are left out.
    KeyboardInterrupt
        at once: jobs that are begun are not waited for.
    """
    processes = min(len(os.sched_getaffinity(0)), len(jobs))
    if processes < 2:
        for job in jobs:
            job()
        return
    _inherited[:] = jobs
    try:
        # Python >= 3.12 warns of a fork beside other threads. Ours are those of numpy's linear algebra, made for it.
        with pool("tj-fork", processes, "fork") as workers, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for _ in workers.map(_do, range(len(jobs))):
                pass
    finally:
        _inherited.clear()


def _do(index: int) -> None:
    _inherited[index]()


@contextmanager
def pool(
    name: str, number: int, method: Literal["fork", "spawn"], begin: Callable[[], object] | None = None
) -> Iterator[ProcessPoolExecutor]:
    """Processes that work for this one, to be made and used by the main thread: a process also dies with the thread that
    started it.

    What they have not begun when the block is left is left out. They end at once on an interrupt, or when nobody listens any
    longer.

    Parameters
    ----------
    name
        of each process.
    begin
        what each of them calls first, if anything.
    """
    others = set(active_children())
    workers = ProcessPoolExecutor(number, get_context(method), partial(_begin, os.getpid(), name, begin))
    try:
        yield workers
    except (KeyboardInterrupt, GeneratorExit, BrokenProcessPool):
        # A pool that breaks terminates the others, but a process that has just been forked may miss that signal.
        for process in set(active_children()) - others:
            process.kill()
        raise
    finally:
        workers.shutdown(cancel_futures=True)


def _begin(parent: int, name: str, begin: Callable[[], object] | None) -> None:
    """In a process of a pool: get ready."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent's business.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    name_process(name)
    if begin is not None:
        begin()
