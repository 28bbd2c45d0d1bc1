"""Emulated hosts: network namespaces of this machine, joined by a link of a stated rate.

The namespaces have no names. Descriptors alone keep them, so however their process ends, the kernel takes them down, their
interfaces and limits with them, and the machine's own network never sees any of it. Where a process may not make network
namespaces, it may often do so in a user namespace of its own; that is tried.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tianji.launch.node import CLONE_NEWNET, Node

CLONE_NEWUSER = 0x10000000
SUBNET = "10.77.0"
LINK = "eth0"
BURST_BYTES = 1 << 18
"""Of the token bucket: four of the largest packets that TCP hands down."""
QUEUE_MS = 50
"""Of the longest that a packet waits in the bucket's queue before it is dropped."""

_libc = ctypes.CDLL(None, use_errno=True)


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        errno = ctypes.get_errno()
        raise PermissionError(errno, os.strerror(errno))


def become_able() -> None:
    """Get the right to make networks, in a user namespace where this process has it not; it then leaves the machine's network
    for an empty one. Only a process of one thread may ask.

    Raises
    ------
    PermissionError
        when the kernel does not allow either.
    """
    uid, gid = os.geteuid(), os.getegid()
    probe = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            _unshare(CLONE_NEWNET)
        except PermissionError:
            try:
                # With a network of its own to come home to: the one it leaves is not its to enter again.
                _unshare(CLONE_NEWUSER | CLONE_NEWNET)
            except PermissionError as error:
                raise PermissionError(error.errno, "neither root's capabilities nor user namespaces") from error
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
            return
        Node("", path_of(probe)).enter()
    finally:
        os.close(probe)


def unavailable() -> str | None:
    """Why no hosts can be emulated here, in a few words; None when they can. Tried out in a process of its own."""
    if find_spec("pyroute2") is None:
        return "pyroute2 is not installed"
    tried = subprocess.run(
        [sys.executable, "-m", "suites.testbed.netns"], capture_output=True, text=True, timeout=60, check=False
    )
    lines = tried.stderr.strip().splitlines()
    return None if tried.returncode == 0 else f"no right to emulate hosts ({lines[-1] if lines else 'it failed'})"


def _namespace() -> int:
    """A new one, which this thread is in then; the descriptor keeps it."""
    _unshare(CLONE_NEWNET)
    return _own()


def _own() -> int:
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def path_of(descriptor: int) -> str:
    """Where other processes find what this one has open, as long as it lives."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


@contextmanager
def pair(link_bits_per_s: int | None = None) -> Iterator[tuple[Node, Node]]:
    """Two hosts and the link between them; this process is on the first one meanwhile.

    Parameters
    ----------
    link_bits_per_s
        of either direction, by a token bucket, frames counted with their Ethernet headers; None: as fast as the machine.

    Raises
    ------
    PermissionError
        where this process may not; see `become_able`.
    """
    from pyroute2 import IPRoute

    descriptors = [_own()]
    home = Node("", path_of(descriptors[0]))
    nodes: list[Node] = []
    try:
        for number in (1, 2):
            descriptors.append(_namespace())
            nodes.append(Node(f"{SUBNET}.{number}", path_of(descriptors[-1])))
        first, second = nodes
        first.enter()
        with IPRoute() as network:
            network.link("add", ifname=LINK, kind="veth", peer={"ifname": LINK, "net_ns_fd": descriptors[-1]})
        for node in (second, first):
            node.enter()
            with IPRoute() as network:
                _bring_up(network, node.address, link_bits_per_s)
        yield first, second
    finally:
        home.enter()
        for descriptor in descriptors:
            os.close(descriptor)


def _bring_up(network: Any, address: str, link_bits_per_s: int | None) -> None:
    for name in ("lo", LINK):
        (index,) = network.link_lookup(ifname=name)
        if name == LINK:
            network.addr("add", index=index, address=address, prefixlen=24)
            if link_bits_per_s is not None:
                rate = link_bits_per_s // 8
                network.tc("add", "tbf", index, rate=rate, burst=BURST_BYTES, latency=f"{QUEUE_MS}ms")
        network.link("set", index=index, state="up")


if __name__ == "__main__":
    # The trial: whether hosts can be emulated by such a process.
    try:
        become_able()
        with pair(10**9):
            pass
    except Exception as error:  # Whatever it is, it is the reason.
        with suppress(BrokenPipeError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
