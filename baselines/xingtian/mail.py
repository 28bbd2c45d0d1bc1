"""The background threads of a learner or an explorer: one receives, one sends, and queues join them to what computes.

A ZeroMQ socket is used by one thread only: the receiving thread has the inlet and what the launcher says, the sending
thread has the outlet and what is said to the launcher. Every wait is a wait in the kernel for the thing itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import zmq

from tianji.channel.zmq import LINGER_MS
from tianji.messages import FromRole, Start, Stop, decode_to_role, encode
from tianji.telemetry import Account


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
    """

    def __init__(
        self, account: Account, control_uri: str, inlet_uri: str, outlet_uri: str, decode: Callable[[bytes], Any]
    ) -> None:
        self.account = account
        self._decode, self._outlet_uri, self._control_uri = decode, outlet_uri, control_uri
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._control = open_control(self._context, control_uri)
        self._inlet = open_inlet(self._context, inlet_uri)
        self._threads: list[threading.Thread] = []

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
        with open_control(self._context, self._control_uri) as launcher, open_outlet(self._context, self._outlet_uri) as outlet:
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
        """End the threads, once a stop was taken; what `last` makes when all else is sent goes to the launcher.

        By the same socket as all else: the launcher listens no longer when it has everybody's last word.
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
        if error is None:
            self._inlet.close()
            self._control.close()
            self._context.term()


def open_control(context: zmq.Context[zmq.Socket[bytes]], uri: str) -> zmq.Socket[bytes]:
    """A socket to the launcher: what was said before it closes is delivered."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.connect(uri)
    return socket


def open_inlet(context: zmq.Context[zmq.Socket[bytes]], uri: str) -> zmq.Socket[bytes]:
    """Where others push to."""
    socket = context.socket(zmq.PULL)
    # Slots bound what is in flight; the socket's own limit must not bite first.
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(uri)
    return socket


def open_outlet(context: zmq.Context[zmq.Socket[bytes]], uri: str) -> zmq.Socket[bytes]:
    """Pushes to an inlet. At the end of a run nobody needs what is still under way, so closing does not linger."""
    socket = context.socket(zmq.PUSH)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(uri)
    return socket
