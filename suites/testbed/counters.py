"""Network counters of a node's kernel: bytes handed to TCP, and frames sent over a link."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from suites.testbed.netlink import NETLINK_ROUTE, NETLINK_SOCK_DIAG, Netlink, attribute

_SOCK_DIAG_BY_FAMILY = 20
_INET_DIAG_INFO = 2
_TCP_DESTROYED = 1 << 0 | 1 << 2
"""Announcement of a socket's last counters, of either family, when it is gone."""
_STATES = 0xFFF & ~(1 << 3 | 1 << 6 | 1 << 10)
"""Of a connection's socket: not one that is only asked for, that only waits for stray packets, or that listens."""
_REQUEST = struct.Struct("=BBBxI48x")
"""Family, protocol, what is asked for beside, states; any address."""
_INODE_AT, _ATTRIBUTES_AT = 68, 72
_SENT_AT = 200
"""In `struct tcp_info`: bytes sent, and after them those that were sent again; Linux 4.19 has them."""
_MAPPED = bytes(10) + b"\xff\xff"
_LOOPBACK_V6 = bytes(15) + b"\x01"

_RTM_GETQDISC = 38
_TCA_STATS2, _TCA_STATS_BASIC = 7, 1
_TC_MESSAGE = struct.Struct("=BxxxiIII")
"""Family, interface, handle, parent, info."""
_TC_ROOT = 0xFFFFFFFF


class Connection(NamedTuple):
    """One end of a TCP connection."""

    cookie: int
    """Its number, of which there is never a second one until the machine starts again."""
    inode: int
    """0: no process has it any longer."""
    local: bytes
    """Addresses, 4 or 16 bytes."""
    remote: bytes
    sent_bytes: int
    """Handed to TCP and sent; headers and repetitions not counted."""


class Connections:
    """All TCP connections of the network that the calling thread is in when this is made."""

    def __init__(self, *, ended: bool = False) -> None:
        self._asked = Netlink(NETLINK_SOCK_DIAG)
        self._told = Netlink(NETLINK_SOCK_DIAG, _TCP_DESTROYED) if ended else None

    def now(self) -> Iterator[Connection]:
        """Those that there are."""
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES)
            for body in self._asked.dump(_SOCK_DIAG_BY_FAMILY, request):
                if (found := _connection(body)) is not None:
                    yield found

    def ended(self) -> Iterator[Connection]:
        """Those that have ended since the last time, with their last counters; needs `ended`."""
        assert self._told is not None
        for body in self._told.heard():
            if (found := _connection(body)) is not None:
                yield found

    def close(self) -> None:
        """Close the sockets to the kernel."""
        self._asked.close()
        if self._told is not None:
            self._told.close()


def _connection(body: bytes) -> Connection | None:
    """None: it has no counters."""
    info = attribute(_INET_DIAG_INFO, body, _ATTRIBUTES_AT)
    if info is None or len(info) < _SENT_AT + 16:
        return None
    sent, again = struct.unpack_from("=QQ", info, _SENT_AT)
    cookie = int.from_bytes(body[44:52], "little")
    (inode,) = struct.unpack_from("=I", body, _INODE_AT)
    return Connection(cookie, inode, _address(body[0], body[8:24]), _address(body[0], body[24:40]), sent - again)


def _address(family: int, field: bytes) -> bytes:
    if family == socket.AF_INET:
        return field[:4]
    return field[12:] if field.startswith(_MAPPED) else field


class NodeTraffic:
    """Totals of what processes of one node handed to TCP, for other nodes and for the launcher.

    Every connection counts with all that it sent, those that came and went between two looks too: the kernel announces a
    socket's last counters. Connections within the node do not count.

    Parameters
    ----------
    home
        the launcher's address.
    """

    def __init__(self, home: str) -> None:
        self._home = socket.inet_aton(home)
        self._connections = Connections(ended=True)
        self._sent: dict[int, tuple[bool, int]] = {}
        """By cookie, of those that are not known to have ended: whether they are the launcher's, and bytes."""
        self._past = [0, 0]
        """Of those that have: for other nodes, for the launcher."""
        self._ignored: set[int] = set()

    def ignore(self, cookies: Iterable[bytes]) -> None:
        """Never count these connections (`SO_COOKIE` of a socket): the kernel may tell of an end long after it came."""
        self._ignored.update(int.from_bytes(cookie, sys.byteorder) for cookie in cookies)

    def read(self) -> tuple[int, int]:
        """Bytes for other nodes, and for the launcher."""
        for found in self._connections.ended():
            self._sent.pop(found.cookie, None)
            if self._leaves(found):
                self._past[found.remote == self._home] += found.sent_bytes
        for found in self._connections.now():
            if self._leaves(found):
                self._sent[found.cookie] = found.remote == self._home, found.sent_bytes
        totals = list(self._past)
        for control, sent in self._sent.values():
            totals[control] += sent
        return totals[0], totals[1]

    def _leaves(self, found: Connection) -> bool:
        if found.cookie in self._ignored:
            return False
        return found.remote not in (found.local, _LOOPBACK_V6) and (len(found.remote) != 4 or found.remote[0] != 127)

    def close(self) -> None:
        """Stop counting."""
        self._connections.close()


class LinkCounters:
    """Bytes sent over the links of the calling thread's network at construction.

    They are counted by the queueing discipline, with the headers of every frame. An interface's own counter takes a piece of
    64 KiB from TCP for one frame, with one header.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_ROUTE)

    def read(self) -> dict[int, int]:
        """By the interface's index."""
        found = {}
        for body in self._netlink.dump(_RTM_GETQDISC, _TC_MESSAGE.pack(0, 0, 0, 0, 0)):
            _, index, _, parent, _ = _TC_MESSAGE.unpack_from(body)
            statistics = attribute(_TCA_STATS2, body, _TC_MESSAGE.size)
            basic = attribute(_TCA_STATS_BASIC, statistics, 0) if statistics is not None else None
            if parent == _TC_ROOT and basic is not None:
                found[index] = int.from_bytes(basic[:8], "little")
        return found

    def close(self) -> None:
        """Close the socket to the kernel."""
        self._netlink.close()
