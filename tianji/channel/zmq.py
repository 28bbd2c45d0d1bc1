"""ZeroMQ sockets as the edges use them: bounded, authenticated where they must be, and aware of their peers.

An edge is DEALER (whoever comes) to ROUTER (whoever is there). A `Line` is the DEALER: libzmq connects it again by itself
after a failure, and its monitor says when, so that the edge can open a new session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from tianji.channel.base import ChannelError, Endpoint
from tianji.channel.security import Security

LINGER_MS = 1000
"""How long a closing socket tries to deliver what was sent."""
HEADERS_BYTES = 1 << 16
"""A message without a body is never larger; what is, is refused by libzmq before it is allocated."""
RECONNECT_MS = 20
RECONNECT_MAX_MS = 500
HEARTBEAT_MS = 5000
"""Between hosts a vanished peer sends no farewell: two silent intervals end its connection."""

UP, DOWN, REJECTED = "up", "down", "rejected"

_EVENTS = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: UP,
    zmq.EVENT_DISCONNECTED: DOWN,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: REJECTED,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: REJECTED,
}


def listen(
    context: zmq.Context[Any], uri: str, security: Security, largest_bytes: int = HEADERS_BYTES, queue: int = 1000
) -> zmq.Socket[bytes]:
    """A bound ROUTER.

    Parameters
    ----------
    largest_bytes
        of a frame; the connection of a peer that announces a larger one is ended before memory is allocated for it.
    queue
        messages of one peer that wait here at most.

    Raises
    ------
    ChannelError
        when the address cannot be bound.
    """
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    try:
        socket.linger = LINGER_MS
        socket.maxmsgsize = largest_bytes
        socket.rcvhwm = queue
        socket.sndhwm = 0  # Answers and credits: as many as the peer has slots.
        if uri.startswith("tcp://"):
            socket.heartbeat_ivl = HEARTBEAT_MS
            socket.ipv6 = "[" in uri
        security.bind_side(socket, uri)
        socket.bind(uri)
    except zmq.ZMQError as error:
        socket.close(linger=0)
        raise ChannelError(f"cannot bind {uri}: {error.strerror}") from error
    except BaseException:
        socket.close(linger=0)
        raise
    return socket


def readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message has come. Reading this also rearms the descriptor of the socket."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


def descriptor(socket: zmq.Socket[bytes]) -> int:
    """What a poller watches; when it is readable, look with `readable`."""
    return int(socket.getsockopt(zmq.FD))


def address(socket: zmq.Socket[bytes]) -> str:
    """Where a socket is bound."""
    bound = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return bound.rstrip(b"\0").decode()


def messages(socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame]]:
    """Messages that have come."""
    while True:
        try:
            yield socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return


class Line:
    """A DEALER and what happens to its connection."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security, largest_bytes: int = HEADERS_BYTES) -> None:
        self.uri = uri
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._monitor: zmq.Socket[bytes] | None = None
        self._told = False
        try:
            self.socket.linger = LINGER_MS
            self.socket.maxmsgsize = largest_bytes
            # Slots bound what is in flight; the socket's own limits must not bite first.
            self.socket.sndhwm = self.socket.rcvhwm = 0
            self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = RECONNECT_MS, RECONNECT_MAX_MS
            if uri.startswith("tcp://"):
                self.socket.heartbeat_ivl = HEARTBEAT_MS
                self.socket.ipv6 = "[" in uri
            security.connect_side(self.socket, uri)
            if not uri.startswith("inproc://"):
                self._monitor = self.socket.get_monitor_socket(sum(_EVENTS))
            self.socket.connect(uri)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelError(f"cannot connect to {uri}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Of the socket and its monitor."""
        sockets = [self.socket] if self._monitor is None else [self.socket, self._monitor]
        return tuple(descriptor(socket) for socket in sockets)

    def readable(self) -> bool:
        """Whether a message has come, or something has happened to the connection."""
        if self._monitor is None:
            return not self._told or readable(self.socket)
        return readable(self.socket) or readable(self._monitor)

    def changes(self) -> Iterator[str]:
        """What has happened to the connection: `up`, `down`, or `rejected` by the other side's security."""
        if self._monitor is None:
            # Within a process there is no connection to lose.
            if not self._told:
                self._told = True
                yield UP
            return
        while readable(self._monitor):
            yield _EVENTS[zmq.Event(recv_monitor_message(self._monitor)["event"])]

    def say(self, *frames: bytes | memoryview) -> bool:
        """Send a message; False when nobody is there, which only ends within a process can know."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True

    def close(self, linger_ms: int | None = None) -> None:
        """Close both sockets."""
        if not self.socket.closed:
            if self._monitor is not None:
                self.socket.disable_monitor()
                self._monitor.close()
            self.socket.close(linger_ms)


class Control(Endpoint):
    """A process's line to its launcher: what was said before it closes is delivered."""

    def __init__(self, context: zmq.Context[Any], uri: str) -> None:
        super().__init__()
        self.uri = uri
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = LINGER_MS
        self._socket.sndhwm = 0
        self._socket.connect(uri)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (descriptor(self._socket),)

    def pending(self) -> bool:
        return readable(self._socket)

    def send(self, frame: bytes) -> None:
        """Say something."""
        self._socket.send(frame)

    def receive(self) -> list[bytes]:
        """What the launcher has said since the last call."""
        return [frames[0].bytes for frames in messages(self._socket)] if readable(self._socket) else []

    def close(self) -> None:
        self._socket.close()
