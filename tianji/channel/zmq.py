"""ZeroMQ sockets of edges: bounded, authenticated if needed, and aware of their peers.

The end that connects is a DEALER, and the end that binds is a ROUTER. A `Line` is the DEALER. libzmq reconnects it after a
failure, and its monitor says when, so that the edge can open a new session.
"""

from __future__ import annotations

import select
import sys
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import zmq

from tianji.channel.arena import has_ended
from tianji.channel.base import ChannelError, Endpoint
from tianji.channel.security import Security
from tianji.messages import Leave, OnEdge, ProtocolError, Refused, decode_edge, encode

LINGER_MS = 1000
"""Milliseconds for which a closing socket tries to deliver sent messages."""
LOCAL_LINGER_MS = 200
"""The same on one host. A message that is not delivered by then has most likely lost its receiver."""
HEADERS_BYTES = 1 << 16
"""Largest message without a body. libzmq refuses larger ones before memory is allocated."""
RECONNECT_MS = 20
RECONNECT_MAX_MS = 500
HANDSHAKE_MS = 10_000
"""Milliseconds after which a peer that connects and sends nothing is cut off."""
HEARTBEAT_MS = 5000
"""Milliseconds between heartbeats to other hosts. Two missing ones end the connection of a vanished peer."""

EVENTS, POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
"""Plain numbers, because pyzmq's enumerations double the time of checking a socket."""

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
    """Open a bound ROUTER.

    Parameters
    ----------
    largest_bytes
        largest frame. A peer that announces a larger one is disconnected before memory is allocated.
    queue
        most messages of one peer that wait here.

    Raises
    ------
    ChannelError
        if the address cannot be bound.
    """
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    try:
        socket.linger = _linger_ms(uri)
        socket.maxmsgsize = security.frame_bytes(uri, largest_bytes)
        socket.handshake_ivl = HANDSHAKE_MS
        socket.rcvhwm = queue
        socket.sndhwm = 0  # Unlimited, because answers and credits are bounded by the peer's slots.
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
    """Whether a message has arrived. The check also rearms the descriptor of the socket."""
    return bool(int(socket.getsockopt(EVENTS)) & POLLIN)


def descriptor(socket: zmq.Socket[bytes]) -> int:
    """Descriptor for a poller. When it is readable, check with `readable`."""
    return int(socket.getsockopt(zmq.FD))


def address(socket: zmq.Socket[bytes]) -> str:
    """Address to which a socket is bound."""
    bound = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return bound.rstrip(b"\0").decode()


def messages(socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame]]:
    """Messages that have arrived."""
    while True:
        try:
            yield socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return


class Line:
    """A DEALER socket with a monitor of its connection."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security, largest_bytes: int = HEADERS_BYTES) -> None:
        self.uri = uri
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._monitor: zmq.Socket[bytes] | None = None
        self._told = False
        try:
            self.socket.linger = _linger_ms(uri)
            self.socket.maxmsgsize = security.frame_bytes(uri, largest_bytes)
            # Slots bound the chunks in flight, so the socket's own limits must not apply first.
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
        """Descriptors of the socket and its monitor."""
        sockets = [self.socket] if self._monitor is None else [self.socket, self._monitor]
        return tuple(descriptor(socket) for socket in sockets)

    def readable(self) -> bool:
        """Whether a message has arrived, or the connection has changed."""
        if self._monitor is None:
            return not self._told or readable(self.socket)
        return readable(self.socket) or readable(self._monitor)

    def changes(self) -> Iterator[str]:
        """Changes of the connection: `up`, `down`, or `rejected` by the other side's security."""
        if self._monitor is None:
            # A connection within a process cannot be lost.
            if not self._told:
                self._told = True
                yield UP
            return
        while readable(self._monitor):
            # The first frame begins with the event's number, 16 bits (zmq_socket_monitor(3)).
            number = int.from_bytes(self._monitor.recv_multipart()[0][:2], sys.byteorder)
            yield _EVENTS[zmq.Event(number)]

    def say(self, *frames: bytes | memoryview, copy: bool = False) -> bool:
        """Send a message. False if there is no peer, which only ends within a process can know.

        Frames of 64 KiB and more are sent without a copy, unless `copy` is set.
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
    """ZeroMQ address at which the ends of an edge meet. For shared memory it is the path of a socket."""
    return "ipc://" + uri.removeprefix("shm://") if uri.startswith("shm://") else uri


class BoundEnd(Endpoint):
    """An end to which others connect, with a ROUTER socket.

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
        """Unbind before peers are notified. Peers in the same process reconnect at once and would find this socket."""
        if self.uri.startswith("inproc://"):
            self._socket.unbind(self.uri)

    def close(self) -> None:
        if not self._watch.closed:
            self._socket.close()
            self._watch.close()


class Connected(Endpoint):
    """An end that connects to another one, with a `Line` that is made anew if its connection does not come back."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security, largest_bytes: int) -> None:
        super().__init__()
        self.uri = uri
        self._context, self._security, self._largest_bytes = context, security, largest_bytes
        self._incarnation: int | None = None
        """Number of the session that was requested. None while the connection is down; earlier messages are then late."""
        self._open = False
        self._refusal: str | None = None
        """Reason of the other side's refusal, if it refused."""
        self._unreached: int | None = None
        """Process whose memory could not be opened at the last attempt."""
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
        """Handle changes of the connection and messages."""
        anew = False
        for change in self._line.changes():
            if change == UP:
                anew = True
                self._ask()
            elif change == DOWN:
                anew = False
                self._lose()
            else:
                self._refusal = f"{self.uri} refused the connection: both sides need the same run keys"
        if not readable(self._line.socket):
            return
        for frames in messages(self._line.socket):
            try:
                message = decode_edge(frames[0].bytes)
            except ProtocolError:
                self.counters["malformed"] += 1
                continue
            if isinstance(message, Leave):
                inside = self.uri.startswith("inproc://")
                if anew and not inside:
                    # It waited here since before the connection went down and came up again. If the new peer has left already,
                    # its connection goes down, too.
                    continue
                self._lose()
                if inside:
                    # ZeroMQ does not reconnect within a process.
                    self._line.close()
                    self._connect()
                return
            if isinstance(message, Refused) and message.incarnation == self._incarnation:
                self._refusal = f"{self.uri} refused this end: {message.reason}"
            else:
                self._heard(message, frames)

    @abstractmethod
    def _ask(self) -> None:
        """Ask for a session, now that the connection is up."""

    @abstractmethod
    def _heard(self, message: OnEdge, frames: list[zmq.Frame]) -> None:
        """Handle a message of the other side. Its first frame is the header, already decoded."""

    def _out_of_reach(self, pid: int, error: ChannelError) -> None:
        """Handle that memory of the other side's process could not be opened.

        A process that has ended may have a successor. One that runs may just have closed its end, and the news of that may come
        later than its last message. So it is asked once more: only an end that is still open answers.
        """
        if has_ended(pid):
            return
        if self._unreached == pid:
            self._refusal = str(error)
        else:
            self._unreached = pid
            self._ask()

    def _lose(self) -> None:
        """End the session, or the request for one."""
        self._open, self._incarnation = False, None

    def _left(self) -> bool:
        """Whether the other side has ended since the last check, which is likely when all processes end at once."""
        if any(change == DOWN for change in self._line.changes()):
            return True
        return any(_is_leave(header) for header, *_ in messages(self._line.socket))

    def close(self) -> None:
        if not self._watch.closed:
            # A peer that is not there need not be told. The socket would try for all of `LINGER_MS`.
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
    """Connection of a process to its launcher. Messages sent before it closes are delivered."""

    def __init__(self, context: zmq.Context[Any], uri: str, security: Security, badge: bytes = b"") -> None:
        super().__init__()
        self.uri = uri
        self._socket = context.socket(zmq.DEALER)
        if badge:
            self._socket.setsockopt(zmq.ROUTING_ID, badge)
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
        """Send a message."""
        self._socket.send(frame)

    def receive(self) -> list[bytes]:
        """Messages of the launcher since the last call."""
        return [frames[0].bytes for frames in messages(self._socket)] if readable(self._socket) else []

    def close(self) -> None:
        self._socket.close()
