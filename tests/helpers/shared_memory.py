"""Files in /dev/shm and their owners, to find those that tests left behind. Files of other programs are ignored."""

import gc
import os
import time
from pathlib import Path

PLACE = Path("/dev/shm")
GONE_WITHIN_S = 5.0
"""Another program's file may have no holder for a moment, while it is made or unlinked."""


def names():
    return set(os.listdir(PLACE))


def left_behind(before):
    """New names there that this process holds, or nobody: its children are gone, and others hold what is theirs."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while found := {name for name in names() - before if _ours(PLACE / name)}:
        if time.monotonic() > deadline:
            return found
        gc.collect()  # A semaphore of this process may be garbage, and goes with it.
        time.sleep(0.1)
    return set()


def _ours(path):
    holders = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _holds(pid, str(path))]
    return path.exists() and (not holders or os.getpid() in holders)


def _holds(pid, path):
    """Whether a process has mapped or opened a file, as far as one may look."""
    try:
        if path in Path(f"/proc/{pid}/maps").read_text():
            return True
        return any(os.readlink(entry) == path for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
