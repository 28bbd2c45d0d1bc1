"""Consuming end of the `tcp` backend: its second port, and the connections of outlets (`direct`)."""

from __future__ import annotations

import secrets
import select
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

import zmq

from tianji.channel.base import CREDIT_NS, ChannelError, EdgeSpec
from tianji.channel.pump import UNIT_BYTES
from tianji.channel.security import Security
from tianji.channel.session import Peer
from tianji.channel.stream import StreamInlet, StreamPeer
from tianji.channel.wire import Wire, WireLost
from tianji.messages import Batch, ChunkHeader, Credit, Direct, Join, Leave, OnEdge, Shared, SlotRef

TURN_BYTES = 1 << 22
"""Bytes that are read from one outlet before it is another one's turn. Longer turns mean fewer wake-ups of outlets."""
STRANGERS = 16
"""Connections beside those of the producers that may be open before they have sent a token."""


class DirectPeer(StreamPeer):
    """A session with a connection."""

    def __init__(self, route: bytes, join: Join, port: int, *, encrypted: bool = False) -> None:
        super().__init__(route, join)
        self.token = secrets.token_bytes(16)
        self.key = secrets.token_bytes(32) if encrypted else None
        self.direct = Direct(port, self.token, self.key)
        self.wire: Wire | None = None
        self.landing: deque[list[ChunkHeader]] = deque()
        """Chunks of which bodies are still coming, by message. Their slots are held."""


class DirectInlet(StreamInlet):
    """Consuming end."""

    def __init__(self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, security: Security) -> None:
        super().__init__(context, uri, spec, security)
        self._encrypted = security.encrypts(uri)
        self._read_bytes = 0
        """Bytes that this call of `receive` has read."""
        self._turn_fd, self._turn_bytes = -1, 0
        """The wire whose turn it is, and the bytes that it may still send in it."""
        self._waste = memoryview(bytearray(min(spec.slot_bytes, UNIT_BYTES)))
        self._callers: dict[int, tuple[socket.socket, bytearray]] = {}
        """Connections that have not sent their whole token yet, oldest first."""
        self._wired: dict[int, DirectPeer] = {}
        self._expected: dict[bytes, DirectPeer] = {}
        """Peers that have not connected yet, by token."""
        self._wires = select.epoll()
        host = self.uri.removeprefix("tcp://").rpartition(":")[0].strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        try:
            self._listener = socket.create_server((host, 0), family=family, backlog=128, dualstack_ipv6=both)
        except OSError as error:
            self._wires.close()
            super().close()
            raise ChannelError(f"cannot open a second port at {self.uri}: {error.strerror}") from error
        self._listener.setblocking(False)
        self._wires.register(self._listener.fileno(), select.EPOLLIN)
        self._watch.register(self._wires.fileno(), select.EPOLLIN)

    def pending(self) -> bool:
        # It asks for all, because that leaves their order as it is.
        return super().pending() or bool(self._wires.poll(0, self._ends()))

    def _ends(self) -> int:
        """Number of sockets that may be ready."""
        return 1 + len(self._wired) + len(self._callers)

    def receive(self) -> list[ChunkHeader]:
        self._read_bytes = 0
        for _ in range(self._ends()):
            if self._read_bytes >= UNIT_BYTES:
                break
            if self._turn_bytes > 0 and (peer := self._wired.get(self._turn_fd)) is not None:
                self._hear_wire(peer)
                continue
            # One at a time, because epoll then puts it behind the others. It would report many in the same order each time.
            if not (ready := self._wires.poll(0, 1)):
                break
            ((fd, _),) = ready
            if (peer := self._wired.get(fd)) is not None:
                self._turn_fd, self._turn_bytes = fd, TURN_BYTES
                self._hear_wire(peer)
            elif fd in self._callers:
                self._identify(fd)
            elif fd == self._listener.fileno():
                self._answer_calls()
        return super().receive()

    def _answer_calls(self) -> None:
        for _ in range(STRANGERS + self._spec.producers):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors, most likely. Callers wait until one is free.
                self._wires.modify(self._listener.fileno(), 0)
                return
            connection.setblocking(False)
            if len(self._callers) >= STRANGERS + self._spec.producers:
                self._turn_away(next(iter(self._callers)))
            self._callers[connection.fileno()] = connection, bytearray()
            self._wires.register(connection.fileno(), select.EPOLLIN)
            self._identify(connection.fileno())

    def _identify(self, fd: int) -> None:
        """Read a caller's token. With a token that was given out it becomes a peer's wire."""
        connection, token = self._callers[fd]
        try:
            piece = connection.recv(16 - len(token))
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        token += piece
        if piece and len(token) < 16:
            return
        peer = self._expected.pop(bytes(token), None)
        if peer is None:
            self._turn_away(fd)
            return
        del self._callers[fd]
        peer.wire = Wire(connection, self._largest, peer.key, answers=True)
        self._wired[fd] = peer
        self._tell(peer, [])

    def _turn_away(self, fd: int) -> None:
        connection, _ = self._callers.pop(fd)
        self.counters["refused"] += 1
        self._wires.unregister(fd)
        connection.close()
        self._wires.modify(self._listener.fileno(), select.EPOLLIN)

    def _hear_wire(self, peer: DirectPeer) -> None:
        assert peer.wire is not None
        before = peer.wire.received_bytes
        try:
            came = peer.wire.receive(partial(self._place, peer))
        except WireLost:
            self._drop(peer)
            return
        got = peer.wire.received_bytes - before
        self._read_bytes += got
        # Who has nothing more to say gives way.
        self._turn_bytes = self._turn_bytes - got if got else 0
        for message in came:
            if isinstance(message, Leave):
                self._retire(peer)
                return
            self._chunks += peer.landing.popleft()

    def _place(self, peer: DirectPeer, message: OnEdge, size: int) -> list[memoryview]:
        """Where the bodies of a message go. Those of invalid chunks are thrown away."""
        if isinstance(message, Leave) and not size:
            return []
        most = self._spec.slot_bytes
        if not isinstance(message, Batch) or size > max(UNIT_BYTES, most):
            self.counters["malformed" if size <= most else "oversized"] += 1
            raise WireLost(f"{type(message).__name__} with {size} bytes from an outlet")
        good: list[ChunkHeader] = []
        peer.landing.append(good)
        if sum(chunk.size_bytes for chunk in message.chunks) != size:
            # Nobody knows where one body ends and the next one begins.
            self.counters["malformed"] += 1
            return self._discarded(size)
        if peer.member < 0:
            for number in {chunk.slot.arena for chunk in message.chunks}:
                if number < self._spec.producers:
                    peer.arenas[number] = self._land_in(number)
        self._take_in(peer, message.chunks, good)
        if good and len(good) == len(message.chunks) and peer.member >= 0:
            return peer.arenas[peer.member].pieces([chunk.slot.slot for chunk in good], [chunk.size_bytes for chunk in good])
        bodies, valid = [], iter(good)
        following = next(valid, None)
        for chunk in message.chunks:
            if chunk is following:
                body = peer.arenas[chunk.slot.arena].views[chunk.slot.slot]
                following = next(valid, None)
                bodies.append(body if chunk.size_bytes == most else body[: chunk.size_bytes])
            else:
                bodies += self._discarded(chunk.size_bytes)
        return bodies

    def _discarded(self, size: int) -> list[memoryview]:
        """Room for so many bytes that nobody reads."""
        most = len(self._waste)
        return [self._waste[: min(most, size - start)] for start in range(0, size, most)]

    def _admit(self, route: bytes, join: Join) -> tuple[Peer, Shared | None]:
        peer = DirectPeer(route, join, self._listener.getsockname()[1], encrypted=self._encrypted)
        self._expected[peer.token] = peer
        if peer.member >= 0:
            peer.arenas[peer.member] = self._land_in(peer.member)
        return peer, None

    def _tell(self, peer: DirectPeer, slots: list[SlotRef]) -> None:
        """Send credits on the wire."""
        assert peer.wire is not None
        if peer.wire.waiting > self._spec.slots * self._spec.producers + STRANGERS:
            # An outlet has no more credits to read than slots. This one does not read.
            self.counters["malformed"] += 1
            self._drop(peer)
            return
        peer.wire.send(Credit(slots))
        with suppress(WireLost):  # What it sent before it ended is still to be read, and then its end.
            peer.wire.push()

    def _credit(self, peer: Peer, *, now: bool) -> None:
        assert isinstance(peer, DirectPeer)
        if peer.wire is None:
            super()._credit(peer, now=now)
        elif now or len(peer.back) >= self._together or self._clock() - peer.credited_ns >= CREDIT_NS:
            back, peer.back = peer.back, []
            peer.credited_ns = self._clock()
            self._tell(peer, back)

    def _drop(self, peer: DirectPeer) -> None:
        """End a peer's connection, and free the slots of chunks that did not arrive whole. Its outlet will ask anew."""
        if peer.wire is not None:
            self._wires.unregister(peer.wire.fileno())
            del self._wired[peer.wire.fileno()]
            peer.wire.close()
            peer.wire = None
            self._wires.modify(self._listener.fileno(), select.EPOLLIN)
        while peer.landing:
            for chunk in peer.landing.popleft():
                self._held.pop(chunk.slot, None)

    def _retire(self, peer: Peer) -> None:
        assert isinstance(peer, DirectPeer)
        self._expected.pop(peer.token, None)
        if peer.wire is not None:
            # An outlet whose place another one took must not ask for it again.
            with suppress(WireLost):
                peer.wire.send(Leave())
                peer.wire.push()
        self._drop(peer)
        super()._retire(peer)

    def close(self) -> None:
        super().close()
        if not self._wires.closed:
            for fd in list(self._callers):
                self._callers.pop(fd)[0].close()
            self._listener.close()
            self._wires.close()
