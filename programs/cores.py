"""Cores that this process may use: those of its affinity, or fewer where its control groups have a quota."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

GROUPS, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable() -> float:
    """Cores that this process may use at a time. A quota may be a fraction of one."""
    affinity, granted = float(len(os.sched_getaffinity(0))), quota()
    return affinity if granted is None else min(affinity, granted)


def quota(groups: Path = GROUPS, mount: Path = MOUNT) -> float | None:
    """Cores that the control groups of this process grant: the least of its own and of those above; None: no limit.

    Parameters
    ----------
    groups
        the file that names the groups of this process (control groups v2 or v1, cgroups(7)).
    mount
        where they are mounted. In a container this may be the process's own group.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return None
    return min((limit for line in lines for limit in _limits(line, mount)), default=None)


def _limits(line: str, mount: Path) -> Iterator[float]:
    """Limits of a group and of those above it."""
    _, controllers, path = line.split(":", 2)
    second = not controllers
    if not second and "cpu" not in controllers.split(","):
        return
    top = mount if second else mount / "cpu"
    inner = top / path.lstrip("/")
    for folder in (inner, *inner.parents):
        if not folder.is_relative_to(top):
            return
        try:
            if second:
                granted, period = (folder / "cpu.max").read_text().split()
            else:
                granted, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        except OSError:
            continue  # The mount shows no such group, or it is the machine's root, which has no limit.
        if granted not in ("max", "-1"):
            yield int(granted) / int(period)
