"""Processes below another one, by name."""

import os
import signal

import psutil

GONE_WITHIN_S = 20
"""Ray is told to end a process; when it has, it does not say."""


def named(name, root):
    """Descendants of `root` with this name, of which Linux keeps 15 characters."""
    return [child for child in psutil.Process(root).children(recursive=True) if _name(child) == name[:15]]


def kill(name, root):
    """Whether there was one to kill."""
    found = named(name, root)
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    return bool(found)


def left(names, root):
    """Those of these names that do not end."""
    return [name for name in names if psutil.wait_procs(named(name, root), timeout=GONE_WITHIN_S)[1]]


def _name(process):
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return None
