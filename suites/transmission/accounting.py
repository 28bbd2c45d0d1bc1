"""What moving messages costs: CPU time of all processes of a cell, and bytes that TCP carried for them, as the kernel counts.

Bytes through unix sockets and pipes are counted by nobody, so they are not in here.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec

import psutil
from msgspec import Struct

from suites.testbed.node import Node

TCP_INFO = 2
"""INET_DIAG_INFO: what `extensions` must name, as a bit, for the kernel to send its counters."""


class Account(Struct, frozen=True):
    """Totals at one moment, or between two."""

    cpu_s: float
    tcp_bytes: float | None
    """Handed to TCP by either side, headers and repetitions not counted; None where the kernel could not be asked."""

    def __sub__(self, earlier: Account) -> Account:
        both = self.tcp_bytes is not None and earlier.tcp_bytes is not None
        return Account(self.cpu_s - earlier.cpu_s, self.tcp_bytes - earlier.tcp_bytes if both else None)  # type: ignore[operator]


class Accounts:
    """Reads the accounts of this process and of all that descends from its keeper, on these nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        # Daemons leave their parents; the keeper adopts them.
        self._root = psutil.Process(os.getppid())
        self._own = os.getpid()
        self._diagnostics = []
        if find_spec("pyroute2") is not None:
            from pyroute2 import DiagSocket

            for node in nodes:
                node.enter()
                diagnostic = DiagSocket()
                diagnostic.bind()
                self._diagnostics.append(diagnostic)
            nodes[0].enter()

    def read(self) -> Account:
        """Totals by now."""
        pids = [self._own, *(p.pid for p in self._root.children(recursive=True) if p.pid != self._own)]
        return Account(sum(map(cpu_seconds, pids)), self._tcp_bytes(pids))

    def _tcp_bytes(self, pids: Sequence[int]) -> float | None:
        if not self._diagnostics:
            return None
        ours = {inode for pid in pids for inode in _sockets(pid)}
        total = 0
        for diagnostic in self._diagnostics:
            for family in (socket.AF_INET, socket.AF_INET6):
                for found in diagnostic.get_sock_stats(family=family, extensions=1 << (TCP_INFO - 1)):
                    info = found.get_attr("INET_DIAG_INFO")
                    if info is not None and found["idiag_inode"] in ours:
                        total += info["tcpi_bytes_sent"] - info["tcpi_bytes_retrans"]
        return float(total)

    def __enter__(self) -> Accounts:
        return self

    def __exit__(self, *_: object) -> None:
        for diagnostic in self._diagnostics:
            diagnostic.close()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all its threads, to the nanosecond; 0 when it is gone.

    A process's clock has the id `~pid << 3 | 2` on Linux (`clock_getcpuclockid(3)`).
    """
    with suppress(OSError):
        return time.clock_gettime(~pid << 3 | 2)
    return 0.0


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
