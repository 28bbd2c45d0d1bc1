"""A TCP connection that carries messages with bodies both ways: bodies leave from their slots, and land in theirs.

ZeroMQ copies a body into a message, and out of one. Here the kernel does both copies. A message is sent as the sizes of its
header and of its bodies together, the header, and the bodies. No call blocks. What the kernel has no room for goes to a thread,
so that it is sent while the process works.

With a key, all of this is the text of records (`seal`). A message begins with a record. A large body has records of its own, so
that it is encrypted from its slot and decrypted into its slot.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import termios
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

from tianji.channel.pump import MOST_BUFFERS, UNIT_BYTES, Buffer, Outgoing, Pump, send, texts
from tianji.messages import OnEdge, ProtocolError, decode_edge, encode

if TYPE_CHECKING:
    from tianji.channel.seal import Seal


SIZES = Struct("<IQ")
"""Bytes of the header, bytes of all bodies."""
AHEAD_BYTES = 4096
"""Bytes that are read beyond a body, in the hope of the next header. What belongs to the next body is copied once more."""
KEEPALIVE_S = 10
"""Seconds of silence after which the kernel asks whether the other host is still there."""

Place = Callable[[OnEdge, int], list[memoryview]]
"""Where so many bytes of bodies of a message go, piece by piece."""


class WireLost(Exception):
    """Error: the connection has ended, or what came is not of this protocol."""


class Wire:
    """One end of a connection.

    Parameters
    ----------
    connection
        a TCP socket. The wire owns it, and makes it non-blocking.
    header_bytes
        most bytes of a header that may come. A longer one ends the connection.
    key
        encrypts what goes over it. It must never have been used for another connection.
    answers
        with a key: whether this is the end that was called.
    """

    def __init__(
        self, connection: socket.socket, header_bytes: int, key: bytes | None = None, *, answers: bool = False
    ) -> None:
        self._socket = connection
        self._header_bytes = header_bytes
        self._out: Outgoing = []
        self._pump: Pump | None = None
        self._seal: Seal | None = None
        ahead = AHEAD_BYTES
        if key is not None:
            # Imported late, because most runs stay on one host and need no library for it.
            from tianji.channel.seal import Seal

            ahead = SIZES.size + header_bytes + UNIT_BYTES
            self._seal = Seal(key, answers=answers, most_bytes=ahead)
        self._ahead = memoryview(bytearray(ahead))
        self._kept = 0
        """Bytes at the start of `_ahead` that were not yet read as a header."""
        self.received_bytes = 0
        self._message: OnEdge | None = None
        """Message whose bodies are still coming."""
        self._wanted: list[memoryview] = []
        self._missing = 0
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)

    def fileno(self) -> int:
        """Descriptor for a poller."""
        return self._socket.fileno()

    def connected(self) -> bool:
        """Whether the connection stands.

        Raises
        ------
        WireLost
            if it cannot be made.
        """
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise WireLost(os.strerror(error))
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def send(self, message: OnEdge, bodies: Sequence[memoryview] = ()) -> None:
        """Queue a message. `push` sends it. Bodies must not change until the other side is known to have them."""
        header = encode(message)
        start = SIZES.pack(len(header), sum(map(len, bodies))) + header
        self._out += (start, *bodies) if self._seal is None else texts(start, bodies)

    def write(self, *buffers: Buffer) -> None:
        """Queue bytes as they are, in front of all messages."""
        self._out += buffers

    def push(self) -> None:
        """Send what is queued.

        Raises
        ------
        WireLost
            if the connection has ended.
        """
        if not self._out:
            return
        out, self._out = self._out, []
        if self._pump is not None and self._pump.takes(out):
            return
        try:
            whole = send(self._socket, out, self._seal)
        except OSError as error:
            raise WireLost(error.strerror) from error
        if not whole:
            if self._pump is None:
                self._pump = Pump(self._socket, self._seal)
            self._pump.begin(out)

    @property
    def waiting(self) -> int:
        """Number of buffers for which the kernel has no room, about."""
        return 0 if self._pump is None else self._pump.waiting

    def finish(self, timeout_s: float) -> None:
        """Send what is queued, and wait until the other host has all of it, or has closed.

        A socket that is closed with unread credits in it would drop what is still under way.
        """
        until = time.monotonic() + timeout_s
        with suppress(WireLost, OSError):
            self.push()
            if self._pump is not None:
                self._pump.idle.wait(timeout_s)
            readable = select.poll()
            readable.register(self._socket, select.POLLIN)
            while self._unacknowledged() and (left := until - time.monotonic()) > 0:
                if readable.poll(min(left, 0.005) * 1000) and not self._socket.recv(UNIT_BYTES):
                    return

    def _unacknowledged(self) -> int:
        """Bytes that the other host has not confirmed."""
        count = array("i", [0])
        fcntl.ioctl(self._socket, termios.TIOCOUTQ, count)
        return count[0]

    def receive(self, place: Place) -> list[OnEdge]:
        """Messages that have arrived whole, with their bodies.

        Raises
        ------
        WireLost
            if the connection has ended, or if a header cannot be read.
        """
        came: list[OnEdge] = []
        budget = UNIT_BYTES
        while budget > 0:
            buffers = self._room() if self._seal is None else [self._seal.room()]
            try:
                got = self._socket.recvmsg_into(buffers)[0]
            except BlockingIOError:
                break
            except OSError as error:
                if came:
                    break  # The next call meets the end, too.
                raise WireLost(error.strerror) from error
            if not got:
                if came:
                    break
                raise WireLost("the other side has closed it")
            budget -= got
            self.received_bytes += got
            if self._seal is not None:
                self._unseal(self._seal, got, place, came)
            elif got < self._missing:
                self._fill(got)
            else:
                over = got - self._missing
                if self._message is not None:
                    came.append(self._message)
                    self._message, self._wanted, self._missing = None, [], 0
                self._parse(0, self._kept + over, place, came)
            if got < sum(map(len, buffers)):
                break  # Nothing more is there.
        return came

    def _room(self) -> list[memoryview]:
        """Where the next bytes are to be put: into bodies, and what follows is read ahead."""
        return [*self._wanted, self._ahead[self._kept :]][:MOST_BUFFERS]

    def _fill(self, got: int) -> None:
        """Record that so many bytes of the wanted ones came."""
        wanted, done = self._wanted, 0
        self._missing -= got
        while got >= len(wanted[done]):
            got -= len(wanted[done])
            done += 1
        del wanted[:done]
        wanted[0] = wanted[0][got:]

    def _unseal(self, seal: Seal, got: int, place: Place, came: list[OnEdge]) -> None:
        """Read records."""
        from tianji.channel.seal import TAG_BYTES, Forged

        try:
            for record in seal.records(got):
                size = len(record) - TAG_BYTES
                if self._message is not None and size < self._missing and size <= len(self._wanted[0]):
                    seal.open(record, self._wanted[0][:size])
                    self._fill(size)
                    continue
                if self._message is not None and len(self._wanted) == 1 and size == self._missing:
                    seal.open(record, self._wanted[0])
                    came.append(self._message)
                    self._message, self._wanted, self._missing = None, [], 0
                    continue
                seal.open(record, self._ahead[:size])
                at = 0
                if self._message is not None:
                    at = self._pour(0, size)
                    if self._missing:
                        continue
                    came.append(self._message)
                    self._message = None
                self._parse(at, size, place, came)
                if self._kept:
                    raise WireLost("a record that ends within a header")
        except Forged as error:
            raise WireLost(str(error)) from error

    def _pour(self, at: int, end: int) -> int:
        """Copy what was read ahead to where it is wanted. Where the rest of it begins."""
        view, wanted = self._ahead, self._wanted
        for number, piece in enumerate(wanted):
            here = min(len(piece), end - at)
            piece[:here] = view[at : at + here]
            at += here
            if here < len(piece):
                self._wanted = [piece[here:], *wanted[number + 1 :]]
                self._missing = sum(map(len, self._wanted))
                return at
        self._wanted, self._missing = [], 0
        return at

    def _parse(self, at: int, end: int, place: Place, came: list[OnEdge]) -> None:
        """Read messages from what was read ahead. The last one may still lack bodies."""
        view, begun = self._ahead, at
        while end - at >= SIZES.size:
            size, body_bytes = SIZES.unpack_from(view, at)
            if size > self._header_bytes:
                raise WireLost(f"a header of {size} bytes")
            begin = at + SIZES.size
            if end - begin < size:
                if begin - at + size > len(view):
                    # Only headers of very many chunks are longer than what is read ahead.
                    self._ahead = memoryview(bytearray(SIZES.size + self._header_bytes))
                break
            try:
                message = decode_edge(view[begin : begin + size])
            except ProtocolError as error:
                raise WireLost(str(error)) from error
            self._wanted = place(message, body_bytes)
            at = self._pour(begin + size, end)
            if self._missing:
                self._message, self._kept = message, 0
                return
            came.append(message)
        self._kept = end - at
        if at > begun or self._ahead is not view:
            self._ahead[: self._kept] = bytes(view[at:end])

    def close(self) -> None:
        """Close the connection. The kernel still delivers what it took."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None
        self._socket.close()
        self._out, self._wanted, self._message = [], [], None
