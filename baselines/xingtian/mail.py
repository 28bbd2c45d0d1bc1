"""Background threads of a learner or an explorer: one receives, one sends, and queues connect them to the computing thread.

A ZeroMQ socket is used by one thread only. The receiving thread has the inlet and reads from the launcher. The sending thread
has the outlet and writes to the launcher. Threads wait in the kernel and never poll.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import zmq

from tianji.channel.security import Keys, Security
from tianji.channel.zmq import HEADERS_BYTES, HEARTBEAT_MS, LINGER_MS
from tianji.messages import PROTOCOL, FromRole, PortsOpen, Progress, Start, Stop, Wiring, decode_to_role, encode
from tianji.telemetry import Account
from tianji.worlds.host import PROGRESS_NS


class Mail:
    """Sends and receives in the background for the thread that owns it.

    Parameters
    ----------
    account
        the sending thread adds what it spends to `serialise` and `send`, `take` adds what the owner waits.
    control_uri
        of the launcher.
    inlet_uri
        bound here: whoever pushes to it never blocks.
    outlet_uri
        of the broker.
    decode
        what a frame of the inlet says.
    keys
        of a run that crosses hosts, for the line to its launcher.
    """

    def __init__(
        self,
        account: Account,
        control_uri: str,
        inlet_uri: str,
        outlet_uri: str,
        decode: Callable[[bytes], Any],
        keys: Keys | None = None,
    ) -> None:
        self.account = account
        self._decode, self._outlet_uri, self._control_uri, self._keys = decode, outlet_uri, control_uri, keys
        self._told_ns = time.monotonic_ns()
        """Time of the last progress report."""
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._control = open_control(self._context, control_uri, keys)
        self._inlet = open_inlet(self._context, inlet_uri)
        self._threads: list[threading.Thread] = []

    def meet(self, name: str, find: Callable[[Mapping[str, str]], None]) -> bool:
        """Hear what brokers have made, and `find` it; False when there will be no run."""
        addresses = meet(self._control, name, {})
        if addresses is not None:
            find(addresses)
        return addresses is not None

    def begin(self, hello: FromRole) -> bool:
        """Report in and wait for the start; False when there will be none. Then the threads run."""
        self._control.send(encode(hello))
        message = decode_to_role(self._control.recv())
        if isinstance(message, Start):
            # Everybody is bound by now, so connecting succeeds at once.
            self._start("receive", self._receive)
            self._start("send", self._send)
            return True
        return False

    def _start(self, name: str, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except Exception as error:  # Whatever it is, the owner must hear of it: `take` raises it there.
                self._inbox.put(error)

        # A daemon, so that a failed owner can leave while its threads still wait.
        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def push(self, message: Any, *address: bytes) -> None:
        """Hand a message to the sending thread; it goes to the broker."""
        self._outbox.put((message, *address))

    def tell(self, message: FromRole) -> None:
        """Hand a message to the sending thread; it goes to the launcher, after what was handed over before."""
        self._outbox.put(message)

    def tell_progress(self, role: str, counters: Callable[[], dict[str, float]]) -> None:
        """Say how far the owner is, if that was not said a moment ago."""
        now = time.monotonic_ns()
        if now - self._told_ns > PROGRESS_NS:
            self._told_ns = now
            self.tell(Progress(role, now, counters()))

    def take(self, cause: str) -> Any:
        """The next message, or a `Stop`; waits for it, and accounts for that under `cause`. Raises what a thread raised."""
        before = time.monotonic_ns()
        item = self._inbox.get()
        self.account.wait_ns[cause] += time.monotonic_ns() - before
        return self._checked(item)

    def glance(self) -> Any | None:
        """The next message if there is one."""
        try:
            return self._checked(self._inbox.get_nowait())
        except Empty:
            return None

    @staticmethod
    def _checked(item: Any) -> Any:
        if isinstance(item, Exception):
            raise item
        return item

    def _receive(self) -> None:
        poller = zmq.Poller()
        poller.register(self._inlet, zmq.POLLIN)
        poller.register(self._control, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._inlet in ready:
                self._inbox.put(self._decode(self._inlet.recv()))
            if self._control in ready and isinstance(stop := decode_to_role(self._control.recv()), Stop):
                self._inbox.put(stop)
                return

    def _send(self) -> None:
        clock, busy = time.monotonic_ns, self.account.busy_ns
        with (
            open_control(self._context, self._control_uri, self._keys) as launcher,
            open_outlet(self._context, self._outlet_uri) as outlet,
        ):
            while not callable(item := self._outbox.get()):
                start = clock()
                if not isinstance(item, tuple):
                    launcher.send(encode(item))
                    continue
                message, *address = item
                frame = encode(message)
                encoded = clock()
                outlet.send_multipart([*address, frame], zmq.NOBLOCK)
                busy["serialise"] += encoded - start
                busy["send"] += clock() - encoded
            launcher.send(encode(item()))

    def finish(self, last: Callable[[], FromRole]) -> None:
        """End the threads after a stop, and send the launcher the result of `last` after all other messages.

        It uses the same socket as all messages, because the launcher stops listening after the final report.
        """
        if not self._threads:
            self._control.send(encode(last()))
        self._outbox.put(last)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Mail:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After a failure threads may still wait on their sockets; the process ends, and they with it.
        if error is None or not self._threads:
            self._inlet.close()
            self._control.close()
            self._context.term()


def meet(control: zmq.Socket[bytes], name: str, bound: dict[str, str]) -> dict[str, str] | None:
    """Tell the launcher the addresses bound here, and return those of all processes. None if there is no run."""
    control.send(encode(PortsOpen(name, PROTOCOL, bound)))
    message = decode_to_role(control.recv())
    return message.addresses if isinstance(message, Wiring) else None


def open_control(context: zmq.Context[zmq.Socket[bytes]], uri: str, keys: Keys | None = None) -> zmq.Socket[bytes]:
    """A socket to the launcher: what was said before it closes is delivered."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, 0)
    if keys is not None:
        Security(context, keys, plaintext=False).connect_side(socket, uri)
    socket.connect(uri)
    return socket


def open_inlet(
    context: zmq.Context[zmq.Socket[bytes]], uri: str, security: Security | None = None, largest_bytes: int = HEADERS_BYTES
) -> zmq.Socket[bytes]:
    """Make a socket to which peers push.

    Parameters
    ----------
    security
        given, where other hosts do.
    largest_bytes
        of a frame that comes from there.
    """
    socket = context.socket(zmq.PULL)
    # Slots bound what is in flight; the socket's own limit must not bite first.
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    if security is not None:
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, security.frame_bytes(uri, largest_bytes))
        security.bind_side(socket, uri)
    socket.bind(uri)
    return socket


def open_outlet(
    context: zmq.Context[zmq.Socket[bytes]], uri: str, security: Security | None = None, limit: int = 0
) -> zmq.Socket[bytes]:
    """Make a socket that pushes to an inlet. Closing does not linger, because messages in flight are not needed at the end.

    Parameters
    ----------
    limit
        messages that may wait in it; 0: as many as there are.
    """
    socket = context.socket(zmq.PUSH)
    socket.setsockopt(zmq.SNDHWM, limit)
    socket.setsockopt(zmq.LINGER, 0)
    if security is not None:
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        security.connect_side(socket, uri)
    socket.connect(uri)
    return socket
