"""A node: a place with an address on which processes are started."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CLONE_NEWNET = 0x40000000
LOOPBACK = "127.0.0.1"

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, eq=False)
class Node:
    """A host, real or emulated; two nodes are the same only if they are one object."""

    address: str
    namespace: int | None = None
    """Descriptor of its network namespace; None: that of whoever asks."""

    def enter(self) -> None:
        """Move the calling thread to this node: sockets that it opens from now on are the node's."""
        if self.namespace is not None and _libc.setns(self.namespace, CLONE_NEWNET) != 0:
            errno = ctypes.get_errno()
            raise OSError(errno, f"cannot enter the network of node {self.address}: {os.strerror(errno)}")

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program on this node; options are those of `subprocess.Popen`."""
        return subprocess.Popen(command, preexec_fn=self.enter, **options)


def here() -> Node:
    """This host."""
    return Node(LOOPBACK)
