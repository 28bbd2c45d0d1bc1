"""Producing end of the `tcp` backend: a ZeroMQ session, and beside it a TCP connection (`wire`).

The welcome of the inlet (`direct_inlet`) names a port and a token, and if the session is encrypted a key for this connection
alone. The outlet connects to that port and sends the token, and the inlet answers there. From then on chunks and credits go
over it, and bodies are received into the slots where they stay. A firewall may let only the edge's own port through. Then
bodies travel in messages (`stream`). A connection that ends takes its session with it: the outlet asks for a new one.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from typing import Any

import zmq

from tianji.channel.base import EdgeSpec, Inlet, log
from tianji.channel.pump import UNIT_BYTES
from tianji.channel.security import Security
from tianji.channel.stream import StreamOutlet
from tianji.channel.wire import Wire, WireLost
from tianji.channel.zmq import HEADERS_BYTES, LINGER_MS
from tianji.messages import Batch, ChunkHeader, Credit, Direct, Leave, OnEdge, SlotRef, Welcome

ANSWER_S = 30.0
"""Seconds after which an outlet does without the connection. An inlet may be at work before it answers."""
SYN_RETRIES = 2
"""Times that the kernel asks for a connection again. After 7 seconds it gives up."""


class DirectOutlet(StreamOutlet):
    """Producing end."""

    def __init__(
        self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, member: int, security: Security, upstream: Inlet | None
    ) -> None:
        self._wire: Wire | None = None
        self._ready = False
        """Whether the inlet has answered on the wire."""
        self._dialled = False
        """Whether the token was sent."""
        self._port = 0
        self._unreachable: int | None = None
        """Port to which no connection came about, so that none is tried again. A new inlet has another one."""
        self._encrypted = security.encrypts(uri)
        super().__init__(context, uri, spec, member, security, upstream)
        self._limit_bytes = UNIT_BYTES
        # The longest message is a list of all slots.
        self._largest = HEADERS_BYTES + 24 * spec.slots * spec.producers

    def _heard(self, message: OnEdge, frames: list[zmq.Frame]) -> None:
        match message:
            case Welcome(incarnation=number, direct=Direct() as direct) if number == self._incarnation and not self._open:
                if direct.port != self._unreachable and self._encrypted is (direct.key is not None):
                    self._dial(direct, str(frames[0].get("Peer-Address")))
        super()._heard(message, frames)

    def _dial(self, direct: Direct, address: str) -> None:
        """Begin to connect. Until the inlet has answered, chunks wait."""
        self._hang_up()
        self._port = direct.port
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(address, direct.port, type=socket.SOCK_STREAM)[0]
            connection = socket.socket(family, kind, protocol)
        except OSError as error:
            self._lost(str(error))
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, SYN_RETRIES)
        self._wire = wire = Wire(connection, self._largest, direct.key)
        connection.connect_ex(place)  # An error is told by the next call.
        wire.write(direct.token)
        self.due_s = time.monotonic() + ANSWER_S
        self._watch.register(wire.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._watch.unregister(self._wire.fileno())
            self._wire.close()
        self._wire, self._dialled, self._ready, self.due_s = None, False, False, None

    def _lost(self, why: str) -> None:
        """Ask for a new session, since the wire has ended. If it never stood, do without one."""
        if self._ready:
            assert self._wire is not None
            with suppress(WireLost):
                if any(isinstance(message, Leave) for message in self._wire.receive(_no_bodies)):
                    self._lose()
                    return
        else:
            self._unreachable, self._open = self._port, False
            self.counters["indirect"] += 1
            log.warning("%s: no connection beside it (%s): bodies travel in its messages, which is slower", self.uri, why)
        self._ask()

    def pending(self) -> bool:
        self._hear_wire()
        if not self._ready:
            return super().pending()
        if self._line.readable():
            self._converse()
        return bool(self._back) or self._refusal is not None

    def credits(self) -> list[SlotRef]:
        self._hear_wire()
        if not self._ready:
            return super().credits()
        back, self._back = self._back, []
        return back

    def _hear_wire(self) -> None:
        """Read credits."""
        if self._wire is None:
            return
        try:
            came = self._wire.receive(_no_bodies)
        except WireLost as error:
            self._lost(str(error))
            return
        if any(isinstance(message, Leave) for message in came):
            self._lose()
            return
        for message in came:
            assert isinstance(message, Credit)
            if self._open and message.slots:
                self._credited(message.slots)
        if came and not self._ready:
            self._ready, self.due_s = True, None
            self.flush()

    def flush(self) -> None:
        wire = self._wire
        if wire is None:
            super().flush()
            return
        try:
            if self._ready and self._open and self._queue:
                self._compose(wire)
                self._flushed = self._clock()
            elif not self._dialled and wire.connected():
                self._dialled = True
                self._watch.modify(wire.fileno(), select.EPOLLIN)
            if self._dialled:
                wire.push()
            if self.due_s is not None and time.monotonic() >= self.due_s:
                self._lost("no answer")
        except WireLost as error:
            self._lost(str(error))

    def _compose(self, wire: Wire) -> None:
        """Make messages of all chunks that wait."""
        queue, self._queue, size, self._queued_bytes = self._queue, [], self._queued_bytes, 0
        self.payload_bytes += size
        if len(queue) <= self._limit and size <= UNIT_BYTES:
            wire.send(Batch(queue), self._bodies(queue))
            return
        together: list[ChunkHeader] = []
        size = 0
        for chunk in queue:
            if together and (size + chunk.size_bytes > UNIT_BYTES or len(together) == self._limit):
                wire.send(Batch(together), self._bodies(together))
                together, size = [], 0
            together.append(chunk)
            size += chunk.size_bytes
        wire.send(Batch(together), self._bodies(together))

    def _bodies(self, chunks: list[ChunkHeader]) -> list[memoryview]:
        if self._arena is None:
            return [self._body(chunk) for chunk in chunks]
        return self._arena.pieces([chunk.slot.slot for chunk in chunks], [chunk.size_bytes for chunk in chunks])

    def _lose(self) -> None:
        self._hang_up()
        super()._lose()

    def close(self) -> None:
        if not self._watch.closed:
            self.flush()
            if self._wire is not None and self._ready and self._open:
                self._wire.send(Leave())
                self._wire.finish(LINGER_MS / 1000)
                self._open = False
            self._hang_up()  # What could not be sent this way goes in messages.
        super().close()


def _no_bodies(message: OnEdge, size: int) -> list[memoryview]:
    """Accept what an inlet says on a wire."""
    if size or not isinstance(message, Credit | Leave):
        raise WireLost(f"{type(message).__name__} with {size} bytes from an inlet")
    return []
