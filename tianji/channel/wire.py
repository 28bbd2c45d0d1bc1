"""A TCP connection that carries messages with bodies both ways: bodies leave from their slots, and land in theirs.

ZeroMQ copies a body into a message, and out of one. Here the kernel does both copies. A message is sent as the sizes of its
header and of its bodies together, the header, and the bodies. No call blocks. What the kernel has no room for goes to a thread,
so that it is sent while the process works.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import termios
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct

from tianji.messages import OnEdge, ProtocolError, decode_edge, encode

Buffer = bytes | memoryview

SIZES = Struct("<IQ")
"""Bytes of the header, bytes of all bodies."""
AHEAD_BYTES = 4096
"""Bytes that are read beyond a body, in the hope of the next header. What belongs to the next body is copied once more."""
UNIT_BYTES = 1 << 18
"""Bytes of bodies in one message, unless one body is larger. A reader hands over what it has after as many, while they are in
the cache."""
MOST_BUFFERS = 1024
"""Buffers of one system call (IOV_MAX of Linux)."""
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
    """

    def __init__(self, connection: socket.socket, header_bytes: int) -> None:
        self._socket = connection
        self._header_bytes = header_bytes
        self._out: list[Buffer] = []
        self._pump: _Pump | None = None
        self._ahead = memoryview(bytearray(AHEAD_BYTES))
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
        self.write(SIZES.pack(len(header), sum(map(len, bodies))) + header, *bodies)

    def write(self, *buffers: Buffer) -> None:
        """Queue bytes as they are."""
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
            whole = _send(self._socket, out)
        except OSError as error:
            raise WireLost(error.strerror) from error
        if not whole:
            if self._pump is None:
                self._pump = _Pump(self._socket)
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
            buffers = [*self._wanted, self._ahead[self._kept :]][:MOST_BUFFERS]
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
            if got < self._missing:
                self._fill(got)
            else:
                over = got - self._missing
                if self._message is not None:
                    came.append(self._message)
                    self._message, self._wanted, self._missing = None, [], 0
                self._parse(self._kept + over, place, came)
            if got < sum(map(len, buffers)):
                break  # Nothing more is there.
        return came

    def _fill(self, got: int) -> None:
        """Record that so many bytes of the wanted ones came."""
        wanted, done = self._wanted, 0
        self._missing -= got
        while got >= len(wanted[done]):
            got -= len(wanted[done])
            done += 1
        del wanted[:done]
        wanted[0] = wanted[0][got:]

    def _parse(self, end: int, place: Place, came: list[OnEdge]) -> None:
        """Read messages from what was read ahead. The last one may still lack bodies."""
        view, at = self._ahead, 0
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
            at = begin + size
            bodies = place(message, body_bytes)
            for number, body in enumerate(bodies):
                here = min(len(body), end - at)
                body[:here] = view[at : at + here]
                at += here
                if here < len(body):
                    self._wanted = [body[here:], *bodies[number + 1 :]]
                    self._missing = sum(map(len, self._wanted))
                    self._message = message
                    self._kept = 0
                    return
            came.append(message)
        self._kept = end - at
        if at or self._ahead is not view:
            self._ahead[: self._kept] = bytes(view[at:end])

    def close(self) -> None:
        """Close the connection. The kernel still delivers what it took."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None
        self._socket.close()
        self._out, self._wanted, self._message = [], [], None


def _send(connection: socket.socket, out: list[Buffer]) -> bool:
    """Send as much as the kernel takes, and remove it from `out`. True if that is everything."""
    while out:
        some = out[:MOST_BUFFERS]
        try:
            sent = connection.sendmsg(some)
        except BlockingIOError:
            return False
        if sent == sum(map(len, some)):
            del out[: len(some)]
            continue
        done = 0
        while sent >= (size := len(out[done])):
            sent -= size
            done += 1
        del out[:done]
        out[0] = out[0][sent:]
    return True


class _Pump:
    """A thread that sends what the kernel had no room for."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._rest: list[Buffer] = []
        self._work = threading.Event()
        self._closing = False
        self.idle = threading.Event()
        """Set while there is nothing to send, or nobody to send it to."""
        self.idle.set()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def begin(self, out: list[Buffer]) -> None:
        """Send this from now on."""
        self._rest = out
        self.idle.clear()
        self._work.set()

    def takes(self, out: list[Buffer]) -> bool:
        """Append this to what is being sent. False if there is nothing: then it may be sent directly."""
        with self._lock:
            if self.idle.is_set():
                return False
            self._rest += out
            return True

    @property
    def waiting(self) -> int:
        """Number of buffers that were appended since the last ones were sent."""
        return len(self._rest)

    def _run(self) -> None:
        writable = select.poll()
        writable.register(self._socket, select.POLLOUT)
        out: list[Buffer] = []
        while self._work.wait() and not self._closing:
            with self._lock:
                out += self._rest
                self._rest = []
                if not out and not self._closing:
                    self._work.clear()
                    self.idle.set()
                    continue
            writable.poll()
            try:
                _send(self._socket, out)
            except OSError:
                break
        # Something may be missing in what was sent, so nothing may follow it. The reader of this connection sees its end.
        self._shut()
        self.idle.set()

    def _shut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the thread, and with it the connection."""
        with self._lock:
            self._closing = True
            self._work.set()
        self._shut()
        self._thread.join()
