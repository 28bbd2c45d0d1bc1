"""Sending on a connection without waiting: bytes as they are, or as records that are encrypted just before they leave."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tianji.channel.seal import Seal

Buffer = bytes | memoryview
Text = tuple[Buffer, ...]
"""A record that is not encrypted yet."""
Outgoing = list[Buffer | Text]

UNIT_BYTES = 1 << 18
"""Bytes of bodies in one message, unless one body is larger. A reader hands over what it has after as many, while they are in
the cache."""
MOST_BUFFERS = 1024
"""Buffers of one system call (IOV_MAX of Linux)."""
ALONE_BYTES = 1 << 14
"""Smallest body that has records of its own. Smaller ones share one, and are copied once more on both sides."""


def texts(start: bytes, bodies: Sequence[memoryview]) -> Iterator[Text]:
    """Records of a message."""
    together: list[Buffer] = [start]
    size = 0
    for body in bodies:
        if together and (len(body) >= ALONE_BYTES or size + len(body) > UNIT_BYTES):
            yield tuple(together)
            together, size = [], 0
        if len(body) >= ALONE_BYTES:
            for at in range(0, len(body), UNIT_BYTES):
                yield (body[at : at + UNIT_BYTES],)
        else:
            together.append(body)
            size += len(body)
    if together:
        yield tuple(together)


def _sealed(out: Outgoing, seal: Seal | None) -> list[Buffer]:
    """The first buffers of `out`, encrypted no earlier than now: what the kernel takes next is still in the cache."""
    some: list[Buffer] = []
    done = size = 0
    for item in out:
        if isinstance(item, tuple):
            assert seal is not None
            some += seal.seal(item)
        else:
            some.append(item)
        done += 1
        size += len(some[-1])
        if size >= UNIT_BYTES or len(some) >= MOST_BUFFERS - 1:
            break
    out[:done] = some
    return some


def send(connection: socket.socket, out: Outgoing, seal: Seal | None) -> bool:
    """Send as much as the kernel takes, and remove it from `out`. True if that is everything."""
    while out:
        some: list[Buffer] = out[:MOST_BUFFERS] if seal is None else _sealed(out, seal)  # type: ignore[assignment]
        try:
            sent = connection.sendmsg(some)
        except BlockingIOError:
            return False
        if sent == sum(map(len, some)):
            del out[: len(some)]
            continue
        done = 0
        while sent >= (size := len(some[done])):
            sent -= size
            done += 1
        del out[:done]
        out[0] = memoryview(some[done])[sent:]
    return True


class Pump:
    """A thread that sends what the kernel had no room for."""

    def __init__(self, connection: socket.socket, seal: Seal | None) -> None:
        self._socket, self._seal = connection, seal
        self._lock = threading.Lock()
        self._rest: Outgoing = []
        self._work = threading.Event()
        self._closing = False
        self.idle = threading.Event()
        """Set while there is nothing to send, or nobody to send it to."""
        self.idle.set()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def begin(self, out: Outgoing) -> None:
        """Send this from now on."""
        self._rest = out
        self.idle.clear()
        self._work.set()

    def takes(self, out: Outgoing) -> bool:
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
        out: Outgoing = []
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
                send(self._socket, out, self._seal)
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
