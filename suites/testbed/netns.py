"""Emulated hosts: network namespaces of this machine, joined by links of a stated rate.

The namespaces have no names; only descriptors keep them alive. So the kernel removes them, their interfaces and their limits
when their process ends. The machine's own network is not affected. A process that may not make network namespaces tries to do
so in its own user namespace, which is often allowed.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tianji.launch.node import CLONE_NEWNET, Node

CLONE_NEWUSER = 0x10000000
SUBNET = "10.77.0"
HOME = f"{SUBNET}.254"
DELAYS = "delays"
"""Said by the trial where links can have them."""
LINK = "eth0"
BURST_BYTES = 1 << 18
"""Burst of the token bucket: four of the largest packets that TCP hands down."""
QUEUE_MS = 50
"""Most milliseconds that a packet waits in the bucket's queue before it is dropped."""
DELAYED_PACKETS = 100_000
"""Most packets in flight on a link with a delay."""
UNSHAPED_PACKETS = 1_000
"""Queue of a link without a rate, in packets, as for a real one."""

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
    probe = _own()
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
        _enter(probe)
    finally:
        os.close(probe)


def unavailable() -> str | None:
    """Reason why no hosts can be emulated here; None if they can. A separate process tries it."""
    if find_spec("pyroute2") is None:
        return "pyroute2 is not installed"
    tried = _trial()
    lines = tried.stderr.strip().splitlines()
    return None if tried.returncode == 0 else f"no right to emulate hosts ({lines[-1] if lines else 'it failed'})"


def delays() -> bool | None:
    """Whether links can have delays here; None if there can be no links. A separate process tries it."""
    tried = _trial()
    return tried.stdout.strip() == DELAYS if tried.returncode == 0 else None


def _trial() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "suites.testbed.netns"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@dataclass(frozen=True)
class Link:
    """Properties of a link, in either direction."""

    bits_per_s: int | None = None
    """Rate by a token bucket, which counts frames with Ethernet headers; None: unlimited."""
    delay_s: float | None = None
    """Added delay of packets that its node sends; None: no delay."""


def _own() -> int:
    """Descriptor of the network that this thread is in; it keeps it."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(descriptor: int) -> None:
    Node("", path_of(descriptor)).enter()


def path_of(descriptor: int) -> str:
    """Path by which other processes open this process's descriptor, as long as it lives."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


@contextmanager
def _back_afterwards() -> Iterator[None]:
    """However networks are changed inside, this thread is in its own one again afterwards."""
    back = _own()
    try:
        yield
    finally:
        _enter(back)
        os.close(back)


@contextmanager
def inside(node: Node) -> Iterator[None]:
    """This thread's network is the node's meanwhile; sockets made here stay the node's. Control groups are not joined."""
    with _back_afterwards():
        Node(node.address, node.namespace).enter()
        yield


def _namespace() -> int:
    """Descriptor of a new one."""
    with _back_afterwards():
        _unshare(CLONE_NEWNET)
        # Else every interface gives itself an address of version 6 and tells the others; where it may not be said, they do.
        with suppress(OSError):
            Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        return _own()


@contextmanager
def pair(link_bits_per_s: int | None = None) -> Iterator[tuple[Node, Node]]:
    """Two hosts and the link between them; this process is on the first one meanwhile.

    Parameters
    ----------
    link_bits_per_s
        of either direction; see `Link`.

    Raises
    ------
    PermissionError
        where this process may not; see `become_able`.
    """
    from pyroute2 import IPRoute

    with ExitStack() as stack:
        stack.enter_context(_back_afterwards())
        descriptors, nodes = [], []
        for number in (1, 2):
            descriptors.append(_namespace())
            stack.callback(os.close, descriptors[-1])
            nodes.append(Node(f"{SUBNET}.{number}", path_of(descriptors[-1])))
        first, second = nodes
        first.enter()
        with IPRoute() as network:
            network.link("add", ifname=LINK, kind="veth", peer={"ifname": LINK, "net_ns_fd": descriptors[-1]})
        for node in (second, first):
            node.enter()
            with IPRoute() as network:
                _bring_up(network, node.address)
                _shape(network, LINK, Link(link_bits_per_s))
        yield first, second


class Star:
    """Nodes round a switch, and the launcher's home beside them, whose link is as fast as the machine.

    The switch is a bridge in its own network. Every link is shaped at both ends, so that both directions have the same limit.
    Delay is added only at the node's end, in the direction of the switch.

    Raises
    ------
    PermissionError
        where this process may not; see `become_able`.
    """

    def __init__(self, nodes: int, link: Link) -> None:
        from pyroute2 import IPRoute

        with ExitStack() as stack, _back_afterwards():
            self._switch = self._keep(stack)
            descriptors = [self._keep(stack) for _ in range(nodes + 1)]
            addresses = [*(f"{SUBNET}.{number}" for number in range(1, nodes + 1)), HOME]
            *self.nodes, self.home = map(Node, addresses, map(path_of, descriptors))
            _enter(self._switch)
            self.delays = delays_can_be_made()
            with IPRoute() as network:
                network.link("add", ifname="switch", kind="bridge", br_mcast_snooping=0)
                (switch,) = network.link_lookup(ifname="switch")
                network.link("set", index=switch, state="up")
                for number, descriptor in enumerate(descriptors, 1):
                    port = f"port{number}"
                    network.link("add", ifname=port, kind="veth", peer={"ifname": LINK, "net_ns_fd": descriptor})
                    (index,) = network.link_lookup(ifname=port)
                    network.link("set", index=index, master=switch, state="up")
                    _shape(network, port, Link(link.bits_per_s) if number <= nodes else Link(), counted=True)
            self.ports = [socket.if_nametoindex(f"port{number}") for number in range(1, nodes + 1)]
            for node, descriptor in zip((*self.nodes, self.home), descriptors, strict=True):
                _enter(descriptor)
                with IPRoute() as network:
                    _bring_up(network, node.address)
                    if node is not self.home:
                        _shape(network, LINK, link if self.delays else Link(link.bits_per_s), counted=True)
            self._kept = stack.pop_all()

    @staticmethod
    def _keep(stack: ExitStack) -> int:
        descriptor = _namespace()
        stack.callback(os.close, descriptor)
        return descriptor

    @property
    def switch(self) -> Node:
        """The switch's own network; `ports` are its interfaces' indices, node by node."""
        return Node("", path_of(self._switch))

    def close(self) -> None:
        """Let go of it; the kernel takes it down when no process is in it either."""
        self._kept.close()


def delays_can_be_made() -> bool:
    """Whether this kernel has `netem`; to be asked in a network of one's own, whose loopback is tried on."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as network:
        try:
            network.tc("add", "netem", socket.if_nametoindex("lo"), delay=1)
        except NetlinkError:
            return False
        network.tc("del", "netem", socket.if_nametoindex("lo"))
    return True


def _bring_up(network: Any, address: str) -> None:
    for name in ("lo", LINK):
        index = socket.if_nametoindex(name)
        if name == LINK:
            network.addr("add", index=index, address=address, prefixlen=24)
        network.link("set", index=index, state="up")


def _shape(network: Any, name: str, link: Link, *, counted: bool = False) -> None:
    """Give an interface its queues; `counted`: one at least, which counts frames (see `suites.testbed.counters`)."""
    index = socket.if_nametoindex(name)
    handle = 1 << 16
    inner: dict[str, int] = {}
    if link.bits_per_s is not None:
        rate = link.bits_per_s // 8
        network.tc("add", "tbf", index, handle=handle, rate=rate, burst=BURST_BYTES, latency=f"{QUEUE_MS}ms")
        inner = {"parent": handle | 1}
    if link.delay_s is not None:
        network.tc("add", "netem", index, handle=2 * handle, delay=round(link.delay_s * 1e6), limit=DELAYED_PACKETS, **inner)
    elif counted and not inner:
        network.tc("add", "pfifo", index, handle=handle, limit=UNSHAPED_PACKETS)


if __name__ == "__main__":
    # The trial: whether hosts can be emulated by such a process.
    try:
        become_able()
        with pair(10**9):
            print(DELAYS if delays_can_be_made() else "")
    except Exception as error:  # Whatever it is, it is the reason.
        with suppress(BrokenPipeError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
