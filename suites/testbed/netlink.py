"""Minimal netlink client for a meter: dumps and announcements, decoded only as far as needed.

A general library decodes every attribute of every message, which takes five to ten times as long
(docs/notebook/2026-11-speed.md).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
ROOM_BYTES = 1 << 22
"""Buffer for announcements that were not read yet."""

_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_ATTRIBUTE = struct.Struct("=HH")
"""Length, type."""
_REQUEST_DUMP = 0x1 | 0x300
_ERROR, _DONE = 2, 3
_LARGEST = 1 << 18
_SO_RCVBUFFORCE = 33


class Netlink:
    """A socket to the kernel, in the network that the calling thread is in when it is made.

    Parameters
    ----------
    protocol
        `NETLINK_ROUTE` or `NETLINK_SOCK_DIAG`.
    groups
        of announcements to be heard, as bits.
    """

    def __init__(self, protocol: int, groups: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        if groups:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, ROOM_BYTES)
        self._socket.bind((0, groups))
        self._sequence = 0

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Bodies of all messages with which the kernel answers.

        Raises
        ------
        OSError
            when it refuses.
        """
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST_DUMP, self._sequence, 0)
        self._socket.send(header + body)
        while True:
            for answer, sequence, found in _split(self._socket.recv(_LARGEST)):
                if sequence != self._sequence:
                    continue  # Of a dump that nobody read to its end.
                if answer == _DONE:
                    return
                if answer == _ERROR:
                    errno = -int.from_bytes(found[:4], "little", signed=True)
                    raise OSError(errno, f"the kernel refuses to tell: {os.strerror(errno)}")
                yield found

    def heard(self) -> Iterator[bytes]:
        """Bodies of all that was announced since the last time.

        Raises
        ------
        OSError
            when there was more than there is room for.
        """
        while True:
            try:
                data = self._socket.recv(_LARGEST, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            for _, _, found in _split(data):
                yield found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, sequence number and body of each message."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
        yield kind, sequence, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def attribute(wanted: int, data: bytes, at: int) -> bytes | None:
    """The first attribute of a type among those that begin at an offset; None: it is not there."""
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        # The upper two bits say how to read it.
        if kind & 0x3FFF == wanted:
            return data[at + _ATTRIBUTE.size : at + length]
        at += max(length + 3 & ~3, _ATTRIBUTE.size)
    return None
