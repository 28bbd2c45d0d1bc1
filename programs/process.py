"""Linux process settings: a readable name, and death with the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from programs.cli import DONE, FAILED, INTERRUPTED

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
KEPT_BELOW, KEPT_BELOW_BEFORE, NEVER = 256 << 20, 32 << 20, 2**31 - 1
"""Bytes of an array that is kept, the most that older C libraries take, and a threshold that is not reached."""

_libc = ctypes.CDLL(None, use_errno=True)


BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """Identity of this host's monotonic clock: all processes since one start of a kernel share it."""
    return BOOT.read_text(encoding="ascii").strip()


def _prctl(option: int, argument: int | bytes) -> None:
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))


def keep_freed_memory() -> None:
    """Have the C library keep the memory of freed arrays for the next ones, in place of returning it to the kernel.

    A loop that makes and frees the same large arrays over and over would fault every page in again, each time. Memory that is
    mapped already stays as it is. A C library without `mallopt` does as it does.
    """
    if (mallopt := getattr(_libc, "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BELOW) or mallopt(M_MMAP_THRESHOLD, KEPT_BELOW_BEFORE)
        mallopt(M_TRIM_THRESHOLD, NEVER)


def name_process(name: str) -> None:
    """Name this process as `top` and `ps -o comm` show it; Linux keeps 15 characters.

    Not `prctl`, which names a thread: the caller need not be the first one.
    """
    Path("/proc/self/comm").write_bytes(name.encode()[:15])


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, and end at once if it already has."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(f"parent process {parent} is gone")


def serve_a_runner(parent: int, cores: Collection[int], name: str) -> None:
    """Set up a process that a runner controls.

    It dies with its parent and runs on these cores. Only SIGTERM interrupts it, by raising `KeyboardInterrupt`.
    """
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.sched_setaffinity(0, cores)
    name_process(name)


def status_of(work: Callable[[], object], known: type[Exception] | tuple[()] = ()) -> int:
    """Do the work of a measured process; its exit status.

    Any failure is the process's result: the last line on standard error says what it was, after a traceback.

    Parameters
    ----------
    known
        a failure that says all by itself: without a traceback.
    """
    try:
        work()
    except KeyboardInterrupt:
        return INTERRUPTED
    except known as error:
        print(error, file=sys.stderr)
        return FAILED
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    return DONE


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be found and ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt orphans for a while."""
    adopt_orphans()
    try:
        yield
    finally:
        _prctl(PR_SET_CHILD_SUBREAPER, 0)
