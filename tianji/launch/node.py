"""A node: a place with an address on which processes are started; and several of them, that one run is spread over."""

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
    """A host: this one, or one that is emulated on it. Plain data, so that a process can be told of it."""

    address: str
    namespace: str | None = None
    """Path of its network namespace; None: that of whoever asks."""
    control_groups: tuple[str, ...] = ()
    """Folders of the control groups that its processes belong to."""
    cores: float | None = None
    """That its processes have together; None: as many as there are."""

    def enter(self) -> None:
        """Move to this node: the calling thread's sockets are the node's from now on, and its process counts as one of it.

        Raises
        ------
        OSError
            when its network cannot be entered, or a control group is not there.
        """
        for group in self.control_groups:
            # 0 is whoever writes.
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
        """Start a program on this node; options are those of `subprocess.Popen`."""
        return subprocess.Popen(command, preexec_fn=self.enter, **options)


class Cluster(Struct, frozen=True):
    """Nodes that one run is spread over, and where they find whoever starts processes on them."""

    nodes: tuple[Node, ...]
    home: str = LOOPBACK
    """Address of the launcher, as the nodes see it: outside all of them, so that what it costs is not theirs."""
    ray_address: str | None = None
    """Of a Ray cluster of just these nodes; None where there is none."""


def here() -> Node:
    """This host."""
    return Node(LOOPBACK)
