"""Work of our own on all cores at once, by forked processes: what they work on they inherit, and it is never packed up."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context

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
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, get_context("fork"), _begin, (os.getpid(),))
    try:
        with warnings.catch_warnings():
            # Python >= 3.12 warns of a fork beside other threads. Ours are those of numpy's linear algebra, made for it.
            warnings.simplefilter("ignore", DeprecationWarning)
            done = pool.map(_do, range(len(jobs)))
        for _ in done:
            pass
    except KeyboardInterrupt:
        for process in set(active_children()) - others:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _inherited.clear()


def _begin(parent: int) -> None:
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent's business.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    name_process("tj-fork")


def _do(index: int) -> None:
    _inherited[index]()
