"""Cost of moving messages: CPU time of all processes of a cell, and their TCP bytes, as the kernel counts.

The kernel does not count bytes through unix sockets and pipes, so they are not included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
from msgspec import Struct

from suites.testbed.counters import Connections
from tianji.launch.node import Node


class Used(Struct, frozen=True):
    """Resources used between two moments."""

    cpu_s: float
    tcp_bytes: float | None
    """Handed to TCP by either side, headers and repetitions not counted; None where the kernel could not be asked."""


class Account(Struct, frozen=True):
    """Totals at one moment, of each process and each connection: one that ends takes its total away with it."""

    cpu_s: dict[int, float]
    """CPU seconds by process."""
    tcp_bytes: dict[int, int] | None
    """TCP bytes by the inode of a socket."""

    def since(self, earlier: Account) -> Used:
        """Resources that the current processes have used since then. Those of processes that ended are unknown."""
        cpu_s = sum(total - earlier.cpu_s.get(pid, 0.0) for pid, total in self.cpu_s.items())
        if self.tcp_bytes is None or earlier.tcp_bytes is None:
            return Used(cpu_s, None)
        before = earlier.tcp_bytes
        return Used(cpu_s, float(sum(total - before.get(inode, 0) for inode, total in self.tcp_bytes.items())))


class Accounts:
    """Reads the accounts of this process and of all that descends from its keeper, on these nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        # Daemons leave their parents; the keeper adopts them.
        self._root = psutil.Process(os.getppid())
        self._own = os.getpid()
        self._connections = []
        for node in nodes:
            node.enter()
            self._connections.append(Connections())
        nodes[0].enter()

    def read(self) -> Account:
        """Totals by now."""
        pids = [self._own, *(p.pid for p in self._root.children(recursive=True) if p.pid != self._own)]
        return Account({pid: used for pid in pids if (used := cpu_seconds(pid)) is not None}, self._tcp_bytes(pids))

    def _tcp_bytes(self, pids: Sequence[int]) -> dict[int, int] | None:
        ours = {inode for pid in pids for inode in _sockets(pid)}
        try:
            found = [end for connections in self._connections for end in connections.now()]
        except OSError:  # A kernel without `sock_diag`.
            return None
        return {end.inode: end.sent_bytes for end in found if end.inode in ours}

    def __enter__(self) -> Accounts:
        return self

    def __exit__(self, *_: object) -> None:
        for connections in self._connections:
            connections.close()


def cpu_seconds(pid: int) -> float | None:
    """CPU time of a process, all its threads, to the nanosecond; None when it is gone.

    A process's clock has the id `~pid << 3 | 2` on Linux (`clock_getcpuclockid(3)`).
    """
    with suppress(OSError):
        return time.clock_gettime(~pid << 3 | 2)
    return None


def _sockets(pid: int) -> list[int]:
    """Inodes of the sockets that a process has open."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    found.append(int(target[8:-1]))
    return found
