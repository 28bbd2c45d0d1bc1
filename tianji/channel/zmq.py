"""The `ipc` backend: headers over ZeroMQ sockets of one host, bodies and weights in shared memory.

A chunk edge is DEALER (outlet) to ROUTER (inlet): headers go down, credits come up the same connection. A weights edge
is XPUB to SUB: what is published is the version alone, the vector stands in a `WeightStore`; each subscription is
answered with the latest version, so a reader that joins late misses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import zmq
from numpy.typing import NDArray

from tianji.channel.arena import WeightStore
from tianji.channel.base import ChannelError, Inlet, Outlet, SlotLedger, WeightsInlet, WeightsOutlet
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


class ZmqWeightsOutlet(WeightsOutlet):
    """Publishing end: writes the store, then tells subscribers the version."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], uri: str, store: WeightStore) -> None:
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.bind(uri)
        self._store = store

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        latest = self._store.version
        if latest is not None and version <= latest:
            raise ChannelError(f"version {version} after {latest}: versions must rise")
        self._store.write(version, weights)
        self._tell(version)

    def _tell(self, version: int) -> None:
        self.socket.send(version.to_bytes(8, "little"), zmq.NOBLOCK)

    def pump(self) -> None:
        joined = False
        while True:
            try:
                joined |= self.socket.recv(zmq.NOBLOCK)[:1] == b"\x01"
            except zmq.Again:
                break
        version = self._store.version
        if joined and version is not None:
            self._tell(version)

    def close(self) -> None:
        self.socket.close()


class ZmqWeightsInlet(WeightsInlet):
    """Reading end: at most one notice waits here, the newest."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], uri: str, store: WeightStore) -> None:
        self.socket = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.CONFLATE, 1)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.connect(uri)
        self._store = store
        self._seen: int | None = None

    def latest(self, out: NDArray[np.float32]) -> int | None:
        try:
            self.socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        # The notice may be older than what stands in the store: take the newest, and let its own notice pass unread.
        version = self._store.version
        if version is None or version == self._seen:
            return None
        self._seen = self._store.read(out)
        return self._seen

    def close(self) -> None:
        self.socket.close()
