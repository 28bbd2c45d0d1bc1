"""Weights edges: on one host a shared board for all readers, between hosts a copy of the newest vector for each reader.

A reader has credit for one vector. After each vector it asks for the next one, and gets the newest as soon as there is one. So
nothing is queued, a slow reader skips versions, and the publisher never waits.
"""

from __future__ import annotations

import os
import secrets
import select
from abc import abstractmethod
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from tianji.channel.arena import anonymous_file, open_file_of, open_of
from tianji.channel.base import ChannelError, WeightsInlet, WeightsOutlet, log, rising
from tianji.channel.board import WeightBoard
from tianji.channel.ring import Bell
from tianji.channel.security import Security
from tianji.channel.zmq import HEADERS_BYTES, BoundEnd, Connected, messages, readable
from tianji.messages import (
    PROTOCOL,
    Board,
    Leave,
    OnEdge,
    ProtocolError,
    Ready,
    Refused,
    Shared,
    Subscribe,
    Weights,
    decode_edge,
    encode,
)


class _Publisher(BoundEnd, WeightsOutlet):
    """Base of publishers: admission of readers."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        super().__init__(context, uri, security)
        self._parameters = parameters
        self._latest: int | None = None
        self._readers: set[bytes] = set()
        # A reader that vanished is noticed at the next send to it.
        self._socket.router_mandatory = 1

    def readers(self) -> int:
        """Number of readers."""
        return len(self._readers)

    def serve(self) -> None:
        if not readable(self._socket):
            return
        for route, header, *_ in messages(self._socket):
            try:
                message = decode_edge(header.bytes)
            except ProtocolError:
                self.counters["malformed"] += 1
                continue
            if isinstance(message, Subscribe):
                self._subscribed(route.bytes, message)
            elif route.bytes not in self._readers:
                self.counters["late"] += 1
            elif isinstance(message, Leave):
                self._readers.discard(route.bytes)
                self._left(route.bytes)
            elif isinstance(message, Ready):
                self._ready(route.bytes)
            else:
                self.counters["malformed"] += 1

    def _subscribed(self, route: bytes, message: Subscribe) -> None:
        reason = None
        if message.protocol != PROTOCOL:
            reason = f"it speaks protocol {message.protocol}, the publisher {PROTOCOL}"
        elif message.parameters != self._parameters:
            reason = f"it expects {message.parameters} parameters where there are {self._parameters}: configurations differ"
        if reason is not None:
            self.counters["refused"] += 1
            log.error("%s: refused a reader: %s", self.uri, reason)
            self._tell(route, Refused(message.incarnation, reason))
            return
        self._readers.add(route)
        self._admitted(route, message.incarnation)

    def _tell(self, route: bytes, message: OnEdge, *payload: Any) -> None:
        try:
            self._socket.send_multipart([route, encode(message), *payload], zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._readers.discard(route)
            self._left(route)

    @abstractmethod
    def _admitted(self, route: bytes, incarnation: int) -> None:
        """Handle a new reader."""

    def _left(self, route: bytes) -> None:
        """Handle a reader that closed."""

    def _ready(self, route: bytes) -> None:
        """Handle a reader that has room for a vector."""
        self.counters["malformed"] += 1

    def close(self) -> None:
        if not self._watch.closed:
            self._unbind_at_once()
            for route in list(self._readers):
                self._tell(route, Leave())
            self._readers.clear()
            super().close()


class BoardOutlet(_Publisher):
    """Publishing end of the `shm` backend: one copy to the board and one ring of a bell, for any number of readers."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        super().__init__(context, uri, parameters, security)
        self._fd = anonymous_file("weights", WeightBoard.size_bytes(parameters))
        self._board = WeightBoard(self._fd, parameters)
        self._bell = Bell()

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        rising(version, self._latest)
        self._board.write(version, weights)
        self._latest = version
        self._bell.ring_everybody()
        self.serve()

    def _admitted(self, route: bytes, incarnation: int) -> None:
        self._tell(route, Board(incarnation, Shared(os.getpid(), self._fd, self._bell.reading_fd)))

    def close(self) -> None:
        if not self._watch.closed:
            super().close()
            self._bell.close()
            os.close(self._fd)
            del self._board


class StreamWeightsOutlet(_Publisher):
    """Publishing end of `tcp`, `ipc` and `inproc`: one copy, which libzmq sends to each reader that has room."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        super().__init__(context, uri, parameters, security)
        self._vector: NDArray[np.float32] | None = None
        self._hungry: set[bytes] = set()
        """Readers that have the newest vector and room for another."""
        self._has: dict[bytes, int] = {}

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        rising(version, self._latest)
        # A new copy each time, because libzmq may still be sending the one before.
        self._vector = np.array(weights, "<f4")
        self._latest = version
        self.serve()
        hungry, self._hungry = self._hungry, set()
        for route in hungry:
            self._ready(route)

    def _admitted(self, route: bytes, incarnation: int) -> None:
        self._has[route] = -1

    def _ready(self, route: bytes) -> None:
        if self._latest is None or self._latest <= self._has[route]:
            self._hungry.add(route)
        else:
            assert self._vector is not None
            self._has[route] = self._latest
            # libzmq keeps the vector until it is sent, and it is never written again.
            self._tell(route, Weights(self._latest), self._vector.data.cast("B"))

    def _left(self, route: bytes) -> None:
        self._hungry.discard(route)
        self._has.pop(route, None)

    def close(self) -> None:
        super().close()
        self._vector = None


class _Reader(Connected, WeightsInlet):
    """Base of readers: the connection to the publisher."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        self._parameters = parameters
        super().__init__(context, uri, security, max(HEADERS_BYTES, parameters * 4))

    def _hear(self) -> None:
        """Read all messages. Raises the publisher's reason if it refused this reader."""
        self._converse()
        if self._refusal is not None:
            raise ChannelError(self._refusal)

    def _ask(self) -> None:
        self._lose()
        self._incarnation = secrets.randbits(62)
        self._line.say(encode(Subscribe(PROTOCOL, self._incarnation, self._parameters)))


class BoardInlet(_Reader):
    """Reading end of the `shm` backend, which wakes on the common bell and copies once from the board."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        self._board: WeightBoard | None = None
        self._seen: int | None = None
        self._bell_fd = -1
        super().__init__(context, uri, parameters, security)
        # Edge-triggered: the bell stays readable, and each ring wakes each reader once.
        self._heard_bell = select.epoll()
        self._watch.register(self._heard_bell.fileno(), select.EPOLLIN)

    def pending(self) -> bool:
        return (self._board is not None and self._board.version != self._seen) or super().pending()

    def disarm(self) -> None:
        self._heard_bell.poll(0)

    def latest(self, out: NDArray[np.float32]) -> int | None:
        board = self._board
        if board is None or board.version == self._seen:
            self._hear()
            board = self._board
            if board is None or board.version == self._seen:
                return None
        self._seen = board.read(out)
        return self._seen

    def _heard(self, message: OnEdge, frames: list[zmq.Frame]) -> None:
        if not isinstance(message, Board):
            self.counters["malformed"] += 1
        elif message.incarnation != self._incarnation:
            self.counters["late"] += 1
        else:
            self._look_at(message.shared)

    def _look_at(self, shared: Shared) -> None:
        """Map the board and watch its bell."""
        try:
            fd = open_file_of(shared.pid, shared.memory_fd, WeightBoard.size_bytes(self._parameters), writable=False)
            try:
                board = WeightBoard(fd, self._parameters, writable=False)
            finally:
                os.close(fd)
            self._bell_fd = open_of(shared.pid, shared.bell_fd, os.O_RDONLY | os.O_NONBLOCK)
        except ChannelError as error:
            self._out_of_reach(shared.pid, error)
            return
        self._unreached = None
        self._heard_bell.register(self._bell_fd, select.EPOLLIN | select.EPOLLET)
        self._board, self._seen, self._open = board, None, True

    def _lose(self) -> None:
        super()._lose()
        self._board = None
        if self._bell_fd >= 0:
            os.close(self._bell_fd)
            self._bell_fd = -1

    def close(self) -> None:
        super().close()
        self._lose()
        self._heard_bell.close()


class StreamWeightsInlet(_Reader):
    """Reading end of `tcp`, `ipc` and `inproc`."""

    def __init__(self, context: zmq.Context[Any], uri: str, parameters: int, security: Security) -> None:
        self._newest: tuple[int, zmq.Frame] | None = None
        super().__init__(context, uri, parameters, security)

    def latest(self, out: NDArray[np.float32]) -> int | None:
        self._hear()
        if self._newest is None:
            return None
        (version, frame), self._newest = self._newest, None
        # Asks for the next vector before this one is read, so that it is sent meanwhile.
        self._line.say(encode(Ready()))
        out[...] = np.frombuffer(frame.buffer, "<f4")
        return version

    def settle(self) -> None:
        self._converse()

    def _ask(self) -> None:
        super()._ask()
        self._open = True
        self._line.say(encode(Ready()))

    def _heard(self, message: OnEdge, frames: list[zmq.Frame]) -> None:
        if not isinstance(message, Weights) or len(frames) != 2 or len(frames[1].buffer) != self._parameters * 4:
            self.counters["malformed"] += 1
        else:
            # Counts also a vector whose publisher has ended and that will not be read.
            self.payload_bytes += self._parameters * 4
            if self._open:
                self._newest = message.version, frames[1]

    def _lose(self) -> None:
        super()._lose()
        self._newest = None
