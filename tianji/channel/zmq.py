"""The chunk edges of the `ipc` backend: headers over ZeroMQ sockets of one host, bodies in shared memory.

An edge is DEALER (outlet) to ROUTER (inlet): headers go down, credits come up the same connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import zmq

from tianji.channel.base import ChannelError, Inlet, Outlet, SlotLedger
from tianji.messages import Batch, ChunkHeader, Credit, SlotRef, decode_edge, encode

LINGER_MS = 1000
"""How long a closing socket tries to deliver what was sent."""


class ZmqOutlet(Outlet):
    """Producing end: a DEALER socket."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], uri: str, initial: Sequence[SlotRef] = ()) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        # Slots bound what is in flight; the socket's own limit must not bite first.
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.connect(uri)
        self._initial = deque(initial)

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        self.socket.send(encode(Batch(list(chunks))), zmq.NOBLOCK)

    def credits(self) -> list[SlotRef]:
        slots = list(self._initial)
        self._initial.clear()
        while True:
            try:
                message = decode_edge(self.socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return slots
            if not isinstance(message, Credit):
                raise ChannelError(f"an outlet was sent a {type(message).__name__}")
            slots.extend(message.slots)

    def close(self) -> None:
        self.socket.close()


class ZmqInlet(Inlet):
    """Consuming end: a ROUTER socket, which knows by which connection each chunk came."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], uri: str) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.bind(uri)
        self._ledger = SlotLedger()

    def receive(self) -> list[ChunkHeader]:
        chunks: list[ChunkHeader] = []
        while True:
            try:
                route, frame = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return chunks
            message = decode_edge(frame)
            if not isinstance(message, Batch):
                raise ChannelError(f"an inlet was sent a {type(message).__name__}")
            self._ledger.arrived(route, message.chunks)
            chunks.extend(message.chunks)

    def release(self, slots: Sequence[SlotRef]) -> None:
        for route, back in self._ledger.release(slots).items():
            self.socket.send_multipart([route, encode(Credit(back))], zmq.NOBLOCK)

    def close(self) -> None:
        self.socket.close()
