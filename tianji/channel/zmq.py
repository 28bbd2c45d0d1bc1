"""ZeroMQ sockets as the edges use them: bounded, authenticated where they must be, and aware of their peers.

An edge is DEALER (whoever comes) to ROUTER (whoever is there). A `Line` is the DEALER: libzmq connects it again by itself
after a failure, and its monitor says when, so that the edge can open a new session.
"""

from __future__ import annotations

import select
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from tianji.channel.base import ChannelError, Endpoint
from tianji.channel.security import Security
from tianji.messages import Leave, OnEdge, ProtocolError, Refused, decode_edge, encode

LINGER_MS = 1000
"""How long a closing socket tries to deliver what was sent."""
LOCAL_LINGER_MS = 200
"""The same on one host: what is not with the other side by then will most likely never be, for that has gone."""
HEADERS_BYTES = 1 << 16
"""A message without a body is never larger; what is, is refused by libzmq before it is allocated."""
RECONNECT_MS = 20
RECONNECT_MAX_MS = 500
HEARTBEAT_MS = 5000
"""Between hosts a vanished peer sends no farewell: two silent intervals end its connection."""

EVENTS, POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
"""As plain numbers: with pyzmq's enumerations a look at a socket takes twice as long."""

UP, DOWN, REJECTED = "up", "down", "rejected"

_EVENTS = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: UP,
    zmq.EVENT_DISCONNECTED: DOWN,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: REJECTED,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: REJECTED,
}


def _linger_ms(uri: str) -> int:
    return LINGER_MS if uri.startswith("tcp://") else LOCAL_LINGER_MS


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
        socket.linger = _linger_ms(uri)
        socket.maxmsgsize = security.frame_bytes(uri, largest_bytes)
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
    return bool(int(socket.getsockopt(EVENTS)) & POLLIN)


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
            self.socket.linger = _linger_ms(uri)
            self.socket.maxmsgsize = security.frame_bytes(uri, largest_bytes)
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

    def say(self, *frames: bytes | memoryview, copy: bool = False) -> bool:
        """Send a message; False when nobody is there, which only ends within a process can know.

        Frames of 64 KiB and more are sent from where they are, unless they are to be copied.
        """
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=copy)
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


def transport(uri: str) -> str:
    """The ZeroMQ address at which the ends of an edge meet; shared memory has a socket's path for that."""
    return "ipc://" + uri.removeprefix("shm://") if uri.startswith("shm://") else uri


class Bound(Endpoint):
    """An end that others come to: a ROUTER.

    Parameters
    ----------
    largest_bytes, queue
        see `listen`.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        uri: str,
        security: Security,
        largest_bytes: int = HEADERS_BYTES,
        queue: int = 1000,
    ) -> None:
        super().__init__()
        self._socket = listen(context, transport(uri), security, largest_bytes, queue)
        self._watch = select.epoll()
        self._watch.register(descriptor(self._socket), select.EPOLLIN)
        bound = address(self._socket)
        self.uri = "shm://" + bound.removeprefix("ipc://") if uri.startswith("shm://") else bound

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self._watch.fileno(),)

    def pending(self) -> bool:
        return readable(self._socket)

    def _unbind_at_once(self) -> None:
        """Within a process peers that are told of the end come back at once, and would find this socket still."""
        if self.uri.startswith("inproc://"):
            self._socket.unbind(self.uri)

    def close(self) -> None:
        if not self._watch.closed:
            self._socket.close()
            self._watch.close()


class Connected(Endpoint):
    """An end that goes to another: a `Line`, made anew where a connection does not come back by itself."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security, largest_bytes: int) -> None:
        super().__init__()
        self.uri = uri
        self._context, self._security, self._largest_bytes = context, security, largest_bytes
        self._incarnation: int | None = None
        """Of the session that was asked for; None while the connection is gone: what came by it before is late."""
        self._open = False
        self._refusal: str | None = None
        """Why the other side will not have us, once it has said so."""
        self._watch = select.epoll()
        self._connect()

    def _connect(self) -> None:
        self._line = Line(self._context, transport(self.uri), self._security, self._largest_bytes)
        for fd in self._line.descriptors:
            self._watch.register(fd, select.EPOLLIN)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self._watch.fileno(),)

    def pending(self) -> bool:
        return self._refusal is not None or self._line.readable()

    def _converse(self) -> None:
        """Take in what has happened to the connection and what came by it."""
        for change in self._line.changes():
            if change == UP:
                self._ask()
            elif change == DOWN:
                self._lose()
            else:
                self._refusal = f"{self.uri} refused the connection: both sides need the same run keys"
        if not readable(self._line.socket):
            return
        for header, *payload in messages(self._line.socket):
            try:
                message = decode_edge(header.bytes)
            except ProtocolError:
                self.counters["malformed"] += 1
                continue
            if isinstance(message, Leave):
                self._lose()
                if self.uri.startswith("inproc://"):
                    # Within a process nothing connects again by itself.
                    self._line.close()
                    self._connect()
                return
            if isinstance(message, Refused) and message.incarnation == self._incarnation:
                self._refusal = f"{self.uri} refused this end: {message.reason}"
            else:
                self._heard(message, payload)

    @abstractmethod
    def _ask(self) -> None:
        """The connection stands: ask for a session."""

    @abstractmethod
    def _heard(self, message: OnEdge, payload: list[zmq.Frame]) -> None:
        """The other side says something."""

    def _lose(self) -> None:
        """The session, if there is one, is over, and so is asking for it."""
        self._open, self._incarnation = False, None

    def _left(self) -> bool:
        """Whether the other side has gone since we last looked. Where all end at once, that is so more often than not."""
        if any(change == DOWN for change in self._line.changes()):
            return True
        return any(_is_leave(header) for header, *_ in messages(self._line.socket))

    def close(self) -> None:
        if not self._watch.closed:
            # Whoever is not there yet, or no longer, will not be told: the socket would try to for all of `LINGER_MS`.
            here = self._open and not self._left()
            if here:
                self._line.say(encode(Leave()))
            self._line.close(None if here else 0)
            self._open = False
            self._watch.close()


def _is_leave(header: zmq.Frame) -> bool:
    try:
        return isinstance(decode_edge(header.bytes), Leave)
    except ProtocolError:
        return False


class Control(Endpoint):
    """A process's line to its launcher: what was said before it closes is delivered."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security) -> None:
        super().__init__()
        self.uri = uri
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = LINGER_MS
        self._socket.sndhwm = 0
        try:
            security.connect_side(self._socket, uri)
            self._socket.connect(uri)
        except BaseException:
            self._socket.close(0)
            raise

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
