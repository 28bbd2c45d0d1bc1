"""Cores that this process may use, by affinity and quota, and variables that tell libraries which kernels to take on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

GROUPS, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

KERNELS = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
)
"""Variables by which libraries of one kind alone take other kernels than they would choose for the processor."""


def choosing_freely(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without `KERNELS`: each library chooses its kernels for the processor, as all others do."""
    return {name: value for name, value in environ.items() if name not in KERNELS}


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
