"""Budgets of cores: control groups with a quota, in both versions of Linux.

Groups are in a folder named after its owner process, by number and start time. A process that is killed leaves its folder
behind. The next one to start sees by the name that the owner has ended, kills left-over processes and removes the folder.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

PREFIX = "tianji-testbed"
PERIOD_US = 10_000
"""Period of a quota in microseconds. With the usual 100 ms, a fifth of a core would come in bursts of 20 ms."""
SMALLEST_QUOTA_US = 1_000
"""The least that the kernel takes."""
WEIGHTS = {1: ("cpu.shares", 1024), 2: ("cpu.weight", 100)}
"""Name of the weight setting in each version, and its value for a single process."""
MOST = 100
"""Processes that a folder of groups can count for."""
OTHERS = "others"
"""A group for processes that stood where groups were to be made; see `Hierarchy.make_room`."""
END_LIMIT_S = 10.0

_numbers = itertools.count(1)


class Used(NamedTuple):
    """Resources that processes of a group have used since it was made, those that have ended included."""

    cpu_s: float
    throttled_s: float
    """Seconds for which they were throttled because their quota was used up, summed over cores."""


@dataclass(frozen=True)
class Hierarchy:
    """Hierarchy of control groups in which groups can be made."""

    version: Literal[1, 2]
    cpu: Path
    accounting: Path
    """Folder in which CPU time is counted. With version 1 it is often a separate tree."""

    @property
    def trees(self) -> tuple[Path, ...]:
        """The folders under which groups are made."""
        return (self.cpu,) if self.cpu == self.accounting else (self.cpu, self.accounting)

    @classmethod
    def find(cls, process: Path = Path("/proc/self")) -> Hierarchy:
        """Find the hierarchy of this machine: its top or, if that is not writable, the group of this process.

        Raises
        ------
        PermissionError
            when there is no place where this process may make groups that limit CPU time.
        """
        own = _own_groups((process / "cgroup").read_text())
        places: dict[str, Path] = {}
        for line in (process / "mountinfo").read_text().splitlines():
            left, right = line.split(" - ")
            kind, _, options = right.split(" ", 2)
            root, mounted = left.split(" ")[3:5]
            if kind not in ("cgroup", "cgroup2"):
                continue
            for name in [""] if kind == "cgroup2" else {"cpu", "cpuacct"}.intersection(options.split(",")):
                inner = os.path.relpath(own.get(name, "/"), root)
                below = [] if inner == "." or inner.startswith("..") else [Path(mounted, inner)]
                for place in (Path(mounted), *below):
                    if os.access(place, os.W_OK | os.X_OK):
                        places.setdefault(name, place)
        if "cpu" in places and "cpuacct" in places:
            return cls(1, places["cpu"], places["cpuacct"])
        if "" in places and "cpu" in (places[""] / "cgroup.controllers").read_text().split():
            return cls(2, places[""], places[""])
        raise PermissionError(errno.EACCES, "no control groups for CPU time that this process may make")

    def make_room(self, folder: str, controller: str = "cpu") -> None:
        """Enable the controller for groups in a folder, as version 2 requires.

        There, a group whose members are to be limited apart must have no process of its own, unless it is the machine's top
        one. Processes that are in the way, as in a container, go to a group beside, and come back by `remove`.
        """
        if self.version == 1:
            return
        # The machine's top group has no type.
        if (self.cpu / "cgroup.type").exists() and (found := processes(self.cpu)):
            (self.cpu / folder / OTHERS).mkdir()
            _move(found, self.cpu / folder / OTHERS)
        for level in (self.cpu, self.cpu / folder):
            if controller not in (level / "cgroup.subtree_control").read_text().split():
                (level / "cgroup.subtree_control").write_text(f"+{controller}")

    def remove(self, folder: str, controller: str = "cpu") -> None:
        """Take a folder away with its groups, ending what is left in them.

        Raises
        ------
        RuntimeError
            when something in there does not end.
        """
        for tree in self.trees:
            top = tree / folder
            if not top.exists():
                continue
            others = top / OTHERS
            for group in [inner for inner in top.iterdir() if inner.is_dir() and inner != others]:
                _end(group, others if others.exists() else tree)
                _remove(group)
            if others.exists():
                for level in (top, tree):
                    (level / "cgroup.subtree_control").write_text(f"-{controller}")
                _move(processes(others), tree)
                _remove(others)
            _remove(top)


def _own_groups(text: str) -> dict[str, str]:
    """Group of each controller, as in `/proc/self/cgroup`. The empty name stands for version 2."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


@dataclass(frozen=True)
class Group:
    """Processes with one budget."""

    hierarchy: Hierarchy
    name: str

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders for `tianji.launch.node.Node`."""
        return tuple(str(tree / self.name) for tree in self.hierarchy.trees)

    def limit(self, cores: float | None) -> None:
        """Limit all processes together to `cores` cores from now on; None: no limit."""
        folder = self.hierarchy.cpu / self.name
        # Of less than a tenth of a core the least quota is a longer period's.
        period = PERIOD_US if cores is None else max(PERIOD_US, math.ceil(SMALLEST_QUOTA_US / cores))
        quota = None if cores is None else max(SMALLEST_QUOTA_US, round(cores * period))
        if self.hierarchy.version == 2:
            (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
            return
        (folder / "cpu.cfs_quota_us").write_text("-1")
        (folder / "cpu.cfs_period_us").write_text(str(period))
        if quota is not None:
            (folder / "cpu.cfs_quota_us").write_text(str(quota))

    def used(self) -> Used:
        """Resources used so far."""
        lines = (self.hierarchy.cpu / self.name / "cpu.stat").read_text().splitlines()
        statistics = {name: int(value) for name, value in (line.split() for line in lines)}
        if self.hierarchy.version == 2:
            return Used(statistics["usage_usec"] / 1e6, statistics.get("throttled_usec", 0) / 1e6)
        used_ns = int((self.hierarchy.accounting / self.name / "cpuacct.usage").read_text())
        return Used(used_ns / 1e9, statistics["throttled_time"] / 1e9)

    def processes(self) -> list[int]:
        """Process ids in it."""
        return processes(self.hierarchy.cpu / self.name)

    def add(self, pids: list[int]) -> None:
        """Move processes here; those that have ended meanwhile are passed over."""
        for tree in self.hierarchy.trees:
            _move(pids, tree / self.name)


class ControlGroups:
    """The groups that this process owns, and no leftovers of owners that are gone; a context manager.

    Raises
    ------
    PermissionError
        where this process may not make such groups.
    """

    def __init__(self, hierarchy: Hierarchy | None = None) -> None:
        self.hierarchy = hierarchy or Hierarchy.find()
        own = os.getpid()
        self._folder = f"{PREFIX}-{own}-{_started(own)}-{next(_numbers)}"

    def create(self, name: str) -> Group:
        """A group without a quota."""
        for tree in self.hierarchy.trees:
            (tree / self._folder / name).mkdir()
        return Group(self.hierarchy, f"{self._folder}/{name}")

    def weigh(self, count: int) -> None:
        """Have all groups together count for so many processes, at most `MOST`, where others of the machine want the cores too.

        Otherwise it is one. Where quotas leave cores over, weight makes them hold whatever else runs; without quotas it
        starves the rest of the machine.
        """
        name, one = WEIGHTS[self.hierarchy.version]
        (self.hierarchy.cpu / self._folder / name).write_text(str(one * count))

    def __enter__(self) -> ControlGroups:
        for folder in leftovers(self.hierarchy):
            # Not there any longer: another start is at it too.
            with suppress(FileNotFoundError):
                self.hierarchy.remove(folder)
        try:
            for tree in self.hierarchy.trees:
                (tree / self._folder).mkdir()
            self.hierarchy.make_room(self._folder)
        except BaseException:
            self.hierarchy.remove(self._folder)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.hierarchy.remove(self._folder)


def leftovers(hierarchy: Hierarchy) -> list[str]:
    """Folders whose owners are gone."""
    found = set()
    for folder in itertools.chain.from_iterable(tree.glob(f"{PREFIX}-*") for tree in hierarchy.trees):
        pid, started, _ = folder.name.removeprefix(f"{PREFIX}-").split("-")
        if _started(int(pid)) != int(started):
            found.add(folder.name)
    return sorted(found)


def _started(pid: int) -> int | None:
    """Start time of a process, in ticks since the machine's start. None: there is no such process."""
    with suppress(FileNotFoundError, ProcessLookupError):
        # What is in brackets is the process's own choice, and may hold anything.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def processes(folder: Path) -> list[int]:
    """Process ids of one group."""
    return [int(line) for line in (folder / "cgroup.procs").read_text().split()]


def _move(pids: list[int], folder: Path) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid))


def _end(group: Path, refuge: Path) -> None:
    """End what is in a group; this process itself goes elsewhere."""
    own = os.getpid()
    if own in processes(group):
        _move([own], refuge)
    deadline = time.monotonic() + END_LIMIT_S
    while left := processes(group):
        if time.monotonic() > deadline or 0 in left:
            raise RuntimeError(f"control group {group.name}: process {left[0]} cannot be ended")
        for descriptor in list(_kill(left)):
            # Readable once the process has ended, though its parent may not have asked yet.
            select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            os.close(descriptor)


def _kill(pids: list[int]) -> Iterator[int]:
    """Kills processes; yields descriptors to wait for their ends by."""
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            yield descriptor


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + END_LIMIT_S
    while True:
        try:
            return folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            # A process that has ended leaves its group a moment later, and version 1 has nothing to wait for that by.
            time.sleep(0.001)
