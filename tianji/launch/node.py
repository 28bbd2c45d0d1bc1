"""Nodes on which processes are started, and clusters of nodes over which a run is spread."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

CLONE_NEWNET = 0x40000000
LOOPBACK = "127.0.0.1"

_libc = ctypes.CDLL(None, use_errno=True)


class Node(Struct, frozen=True):
    """A host: this one, or one that is emulated on it. It is plain data that can be sent to processes."""

    address: str
    namespace: str | None = None
    """Path of its network namespace; None: that of the calling process."""
    control_groups: tuple[str, ...] = ()
    """Folders of its processes' control groups."""
    cores: float | None = None
    """Cores that its processes share; None: all of the host."""

    def enter(self) -> None:
        """Move the calling thread's network and its process's budget of cores to this node.

        Raises
        ------
        OSError
            if its network cannot be entered, or a control group is missing.
        """
        for group in self.control_groups:
            # 0 is the process that writes.
            (Path(group) / "cgroup.procs").write_text("0")
        if self.namespace is None:
            return
        descriptor = os.open(self.namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(descriptor, CLONE_NEWNET) != 0:
                errno = ctypes.get_errno()
                raise OSError(errno, f"cannot enter the network of node {self.address}: {os.strerror(errno)}")
        finally:
            os.close(descriptor)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program on this node, with the options of `subprocess.Popen`."""
        return subprocess.Popen(command, preexec_fn=self.enter, **options)


class Cluster(Struct, frozen=True):
    """Nodes over which a run is spread, and the address of their launcher."""

    nodes: tuple[Node, ...]
    home: str = LOOPBACK
    """Address of the launcher, as the nodes see it. The launcher runs outside every node's budget."""
    ray_address: str | None = None
    """Address of a Ray cluster of exactly these nodes; None if there is none."""


def here() -> Node:
    """This host."""
    return Node(LOOPBACK)
