"""The `tcp`, `ipc` and `inproc` backends: bodies travel in the messages.

A body larger than a segment is sent in segments, one message each, and its header follows. So messages are small, and their
memory is bounded before it is allocated. The receiver copies each segment into the slot on arrival. Slots of received bodies
lie in memory files like all others, so that a relay can pass them on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import zmq

from tianji.channel.arena import Arena, anonymous_file
from tianji.channel.base import COALESCE_CHUNKS, COALESCE_NS, CREDIT_NS, ChannelError, EdgeSpec, Inlet
from tianji.channel.security import Security
from tianji.channel.session import Peer, SessionInlet, SessionOutlet
from tianji.channel.zmq import HEADERS_BYTES
from tianji.messages import Batch, ChunkHeader, Credit, Join, OnEdge, Segment, Shared, SlotRef, encode

SEGMENT_BYTES = 1 << 20
"""Largest piece of a body in one message. The allocator reuses memory for messages of 1 MiB. Larger ones get new pages each
time, at a third of the speed (docs/notebook/2026-11-speed.md)."""
JOINED_BYTES = 1 << 18
"""Largest total of bodies that are copied into one frame."""
COPIED_BYTES = 1 << 16
"""Largest frame that is copied once more, because notifying pyzmq's thread of a sent frame costs more than that copy."""


class StreamOutlet(SessionOutlet):
    """Producing end."""

    def __init__(
        self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, member: int, security: Security, upstream: Inlet | None
    ) -> None:
        self._arena: Arena | None = None
        self._clock = time.monotonic_ns
        self._queued_bytes = 0
        self._flushed = 0
        self._limit = max(1, min(COALESCE_CHUNKS, spec.slots // 4))
        self._limit_bytes = JOINED_BYTES
        super().__init__(context, uri, spec, member, security, upstream)
        if upstream is None:
            fd = anonymous_file(f"arena-{member}", Arena.size_bytes(spec.slots, spec.slot_bytes))
            try:
                self._arena = Arena(fd, spec.slots, spec.slot_bytes)
            finally:
                os.close(fd)

    def slot(self, ref: SlotRef) -> memoryview:
        if self._arena is None or ref.arena != self._member:
            raise ChannelError(f"slot {ref.slot} of arena {ref.arena} is not this outlet's to write")
        return self._arena.slot(ref.slot)

    def _body(self, chunk: ChunkHeader) -> memoryview:
        if self._upstream is not None:
            return self._upstream.body(chunk.slot)[: chunk.size_bytes]
        return self.slot(chunk.slot)[: chunk.size_bytes]

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        self._depart(chunks)
        queue = self._queue
        queue += chunks
        self._queued_bytes += sum(chunk.size_bytes for chunk in chunks)
        if len(queue) >= self._limit or self._queued_bytes > self._limit_bytes or self._clock() - self._flushed >= COALESCE_NS:
            self.flush()

    def flush(self) -> None:
        if not self._queue or not self._open:
            return
        queue, self._queue, self._queued_bytes = self._queue, [], 0
        small: list[ChunkHeader] = []
        small_bytes = 0
        for chunk in queue:
            if small and (small_bytes + chunk.size_bytes > JOINED_BYTES or len(small) == COALESCE_CHUNKS):
                self._send_small(small)
                small, small_bytes = [], 0
            if chunk.size_bytes > JOINED_BYTES:
                self._send_large(chunk)
            else:
                small.append(chunk)
                small_bytes += chunk.size_bytes
        if small:
            self._send_small(small)
        self._flushed = self._clock()

    def _send_small(self, chunks: list[ChunkHeader]) -> None:
        """Send several chunks as one message."""
        bodies = [self._body(chunk) for chunk in chunks]
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        self._post(Batch(chunks), body, copy=len(body) <= COPIED_BYTES)

    def _send_large(self, chunk: ChunkHeader) -> None:
        """Send a chunk without copying it. libzmq reads its slot until the credit comes back."""
        body = self._body(chunk)
        cut = max(0, len(body) - 1) // SEGMENT_BYTES * SEGMENT_BYTES
        for offset in range(0, cut, SEGMENT_BYTES):
            self._post(Segment(chunk.slot, offset), body[offset : offset + SEGMENT_BYTES])
        self._post(Batch([chunk]), body[cut:])

    def _post(self, message: OnEdge, payload: memoryview | bytes, *, copy: bool = False) -> None:
        self.payload_bytes += len(payload)
        # If the peer has ended, its session is lost in any case.
        self._line.say(encode(message), payload, copy=copy)

    def close(self) -> None:
        if not self._watch.closed:
            self.flush()
        super().close()
        self._arena = None


class StreamPeer(Peer):
    """A session by messages."""

    def __init__(self, route: bytes, join: Join) -> None:
        super().__init__(route, join)
        self.progress: dict[SlotRef, int] = {}
        """Bytes received of a body in segments, by slot."""
        self.credited_ns = 0
        """Time of the last credits sent to it."""


class StreamInlet(SessionInlet):
    """Consuming end."""

    def __init__(self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, security: Security) -> None:
        self._clock = time.monotonic_ns
        self._landing: dict[int, Arena] = {}
        """Arenas into which bodies are received, by the number of the arena that they come from."""
        self._together = max(1, spec.slots // 4)
        """Number of credits that are sent at once."""
        segments = -(-spec.slot_bytes // SEGMENT_BYTES)
        # Credit bounds the messages of an honest peer; the queue's limit bounds those of others.
        queue = spec.slots * (segments + 1) * spec.producers + 16
        self._largest = max(HEADERS_BYTES, min(SEGMENT_BYTES, spec.slot_bytes), min(JOINED_BYTES, spec.slots * spec.slot_bytes))
        super().__init__(context, uri, spec, security, self._largest, queue)

    def _admit(self, route: bytes, join: Join) -> tuple[Peer, Shared | None]:
        return StreamPeer(route, join), None

    def _carried(self, peer: Peer, message: OnEdge, payload: Sequence[zmq.Frame]) -> None:
        assert isinstance(peer, StreamPeer)
        if len(payload) != 1 or not isinstance(message, Batch | Segment):
            self.counters["malformed"] += 1
        elif isinstance(message, Segment):
            self._land(peer, message.slot, message.offset, payload[0].buffer)
        else:
            piece, start = payload[0].buffer, 0
            for chunk in message.chunks:
                before = peer.progress.get(chunk.slot, 0)
                rest = chunk.size_bytes - before
                if rest < 0 or start + rest > len(piece):
                    # The start of the next body is unknown.
                    self.counters["malformed"] += 1
                    return
                if self._land(peer, chunk.slot, before, piece[start : start + rest]):
                    peer.progress.pop(chunk.slot, None)
                    self._take_in(peer, [chunk], self._chunks)
                start += rest

    def _land(self, peer: StreamPeer, slot: SlotRef, offset: int, piece: memoryview) -> bool:
        """Copy a piece of a body to its place. False if it has none."""
        spec = self._spec
        if not (slot.arena == peer.member or (peer.member < 0 and slot.arena < spec.producers)) or slot.slot >= spec.slots:
            self.counters["malformed"] += 1
        elif slot in self._held:
            self.counters["uncredited"] += 1
        elif offset != peer.progress.get(slot, 0) or offset + len(piece) > spec.slot_bytes:
            self.counters["oversized" if offset + len(piece) > spec.slot_bytes else "malformed"] += 1
            peer.progress.pop(slot, None)
        else:
            arena = peer.arenas[slot.arena] = self._land_in(slot.arena)
            arena.views[slot.slot][offset : offset + len(piece)] = piece
            peer.progress[slot] = offset + len(piece)
            return True
        return False

    def _land_in(self, number: int) -> Arena:
        if number not in self._landing:
            spec = self._spec
            fd = anonymous_file(f"landing-{number}", Arena.size_bytes(spec.slots, spec.slot_bytes))
            self._landing[number] = Arena(fd, spec.slots, spec.slot_bytes)
        return self._landing[number]

    def _credit(self, peer: Peer, *, now: bool) -> None:
        assert isinstance(peer, StreamPeer)
        if now or len(peer.back) >= self._together or self._clock() - peer.credited_ns >= CREDIT_NS:
            self._socket.send_multipart([peer.route, encode(Credit(peer.back))], zmq.NOBLOCK)
            peer.back = []
            peer.credited_ns = self._clock()

    def close(self) -> None:
        super().close()
        while self._landing:
            os.close(self._landing.popitem()[1].fd)
