"""The `shm` backend for chunks on one host. Bodies lie in the producer's arena, headers and credits in shared rings.

ZeroMQ carries the handshake, and its connection tells an outlet when the inlet ends. An inlet watches the processes of its
peers. Neither side makes a system call for a chunk while the other one is awake. Headers over ZeroMQ reached only half of the
memory's speed at 64 KiB, because its threads wait for busy cores (docs/notebook/2026-11-speed.md).
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from typing import Any

import zmq

from tianji.channel.arena import Arena, anonymous_file, map_file, open_file_of, open_of
from tianji.channel.base import COALESCE_CHUNKS, ChannelError, EdgeSpec, Inlet, log
from tianji.channel.ring import Bell, RingBroken, RingReader, RingWriter, own_fence, ring, ring_bytes
from tianji.channel.security import Security
from tianji.channel.session import Peer, SessionInlet, SessionOutlet
from tianji.messages import (
    Batch,
    ChunkHeader,
    Credit,
    Introduce,
    Join,
    OnEdge,
    ProtocolError,
    Shared,
    SlotRef,
    Welcome,
    decode_edge,
    encode,
)

HEADER_BYTES = 128
"""Room in a ring for one chunk's header, which is never longer."""
SPARE_BYTES = 1 << 16
"""Room in a ring for all other messages."""


def _rings(spec: EdgeSpec, member: int) -> int:
    """Size in bytes of each of a session's two rings, with room for the headers of all slots."""
    slots = spec.slots * (1 if member >= 0 else spec.producers)
    return ring_bytes(slots * HEADER_BYTES + SPARE_BYTES)


def _limit(spec: EdgeSpec) -> int:
    """Number of headers or credits from which they are sent at once while the other side is awake, so that it has work."""
    return max(1, min(COALESCE_CHUNKS // 2, spec.slots // 4))


class SharedOutlet(SessionOutlet):
    """Producing end."""

    def __init__(
        self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, member: int, security: Security, upstream: Inlet | None
    ) -> None:
        self._arena: Arena | None = None
        self._fds: list[int] = []
        self._limit = _limit(spec)
        self._introduced: dict[int, Arena] = {}
        self._inlet_bell = -1
        if upstream is not None and not isinstance(upstream, SessionInlet):
            raise ChannelError(f"{uri}: can only pass on what lies in shared memory")
        super().__init__(context, uri, spec, member, security, upstream)
        self._bell, self._fence = Bell(), own_fence()
        self._watch.register(self._bell.reading_fd, select.EPOLLIN)
        if upstream is None:
            fd = anonymous_file(f"arena-{member}", Arena.size_bytes(spec.slots, spec.slot_bytes))
            self._fds.append(fd)
            self._arena = Arena(fd, spec.slots, spec.slot_bytes)

    def slot(self, ref: SlotRef) -> memoryview:
        if self._arena is None or ref.arena != self._member:
            raise ChannelError(f"slot {ref.slot} of arena {ref.arena} is not this outlet's to write")
        return self._arena.slot(ref.slot)

    def pending(self) -> bool:
        return (self._open and not self._credits_ring.empty()) or super().pending()

    def arm(self) -> bool:
        self.flush()
        if self._open:
            self._credits_ring.sleep()
            self._fence()
        return self.pending()

    def disarm(self) -> None:
        if self._open:
            self._credits_ring.wake()
        self._bell.clear()

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        self._depart(chunks)
        queue = self._queue
        queue += chunks
        if self._open and (len(queue) >= self._limit or self._headers.reader_asleep()):
            self.flush()

    def _post(self, chunks: list[ChunkHeader]) -> None:
        """Put headers into the ring."""
        if self._arena is not None:
            self._put(Batch(chunks))
            return
        # A relay introduces arenas that the inlet does not know yet.
        assert isinstance(self._upstream, SessionInlet)
        start = 0
        for end, chunk in enumerate(chunks):
            number, arena = chunk.slot.arena, self._upstream.arena(chunk.slot)
            if self._introduced.get(number) is not arena:
                if start < end:
                    # Chunks in the earlier arena go first.
                    self._put(Batch(chunks[start:end]))
                self._put(Introduce(number, os.getpid(), arena.fd))
                self._introduced[number] = arena
                start = end
        self._put(Batch(chunks[start:]))

    def _put(self, message: OnEdge) -> None:
        if not self._headers.put(encode(message)):
            raise ChannelError(f"{self.uri}: more chunks under way than there are slots")

    def flush(self) -> None:
        if not self._queue or not self._open:
            return
        queue, self._queue = self._queue, []
        for start in range(0, len(queue), COALESCE_CHUNKS):
            self._post(queue[start : start + COALESCE_CHUNKS])
        if self._headers.reader_asleep():
            ring(self._inlet_bell)

    def credits(self) -> list[SlotRef]:
        if self._open:
            self._collect()
        if self._back and self._refusal is None:
            # No system call while credit flows.
            back, self._back = self._back, []
            return back
        return super().credits()

    def _collect(self) -> None:
        """Take credits from the ring."""
        try:
            while (frame := self._credits_ring.get()) is not None:
                message = decode_edge(frame)
                if isinstance(message, Credit):
                    self._credited(message.slots)
                else:
                    self.counters["malformed"] += 1
        except ProtocolError:
            self.counters["malformed"] += 1
        except RingBroken as error:
            log.error("%s: credits of the inlet are unreadable: %s", self.uri, str(error))
            self.counters["malformed"] += 1
            self._ask()

    def _offer(self) -> Shared:
        size = _rings(self._spec, self._member)
        self._rings_fd = anonymous_file(f"rings-{self._member}", 2 * size)
        self._fds.append(self._rings_fd)
        memory = map_file(self._rings_fd, 2 * size, writable=True)
        self._headers, self._credits_ring = RingWriter(memory[:size]), RingReader(memory[size:])
        if self._arena is not None:
            # First of all, so that the inlet finds it after its welcome.
            self._put(Introduce(self._member, os.getpid(), self._arena.fd))
        return Shared(os.getpid(), self._rings_fd, self._bell.writing_fd)

    def _opened(self, welcome: Welcome) -> bool:
        # The inlet has mapped it.
        self._fds.remove(self._rings_fd)
        os.close(self._rings_fd)
        if welcome.shared is None:
            self._refusal = f"{self.uri}: the inlet is not one of shared memory"
            return False
        pid = welcome.shared.pid
        try:
            self._inlet_bell = open_of(pid, welcome.shared.bell_fd, os.O_WRONLY | os.O_NONBLOCK)
        except ChannelError as error:
            self._out_of_reach(pid, error)
            return False
        self._unreached = None
        self._fds.append(self._inlet_bell)
        return True

    def _lose(self) -> None:
        super()._lose()
        self._introduced.clear()
        self._drop_rings()
        for fd in self._fds[self._arena is not None :]:
            os.close(fd)
        del self._fds[self._arena is not None :]

    def close(self) -> None:
        if not self._watch.closed:
            self.flush()
            super().close()
            self._bell.close()
            # Mappings live as long as views of them.
            self._arena = None
            self._introduced.clear()
            self._drop_rings()
            while self._fds:
                os.close(self._fds.pop())

    def _drop_rings(self) -> None:
        vars(self).pop("_headers", None)
        vars(self).pop("_credits_ring", None)


class SharedPeer(Peer):
    """A session over rings."""

    def __init__(self, route: bytes, join: Join, spec: EdgeSpec) -> None:
        super().__init__(route, join)
        if join.shared is None:
            raise ChannelError("it offers no shared memory")
        self._fds: list[int] = []
        self.intact = True
        """Whether its ring can be read."""
        pid, own = join.shared.pid, join.shared.pid == os.getpid()
        try:
            # The process first, so that everything opened below is known to belong to the watched process.
            self.process_fd = -1 if own else self._keep(os.pidfd_open(pid))
            size = _rings(spec, join.member)
            rings_fd = open_file_of(pid, join.shared.memory_fd, 2 * size, writable=True)
            try:
                memory = map_file(rings_fd, 2 * size, writable=True)
            finally:
                os.close(rings_fd)
            self.headers, self.credits_ring = RingReader(memory[:size]), RingWriter(memory[size:])
            self.bell = self._keep(open_of(pid, join.shared.bell_fd, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            self.close()
            raise ChannelError(f"cannot watch process {pid}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def _keep(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def introduce(self, message: Introduce, spec: EdgeSpec) -> None:
        """Map the arena of its chunks."""
        size = Arena.size_bytes(spec.slots, spec.slot_bytes)
        fd = self._keep(open_file_of(message.pid, message.memory_fd, size, writable=False))
        self.arenas[message.arena] = Arena(fd, spec.slots, spec.slot_bytes, writable=False)

    def close(self) -> None:
        """Close its descriptors. Mappings live as long as views of them."""
        self.arenas.clear()
        vars(self).pop("headers", None)
        vars(self).pop("credits_ring", None)
        while self._fds:
            os.close(self._fds.pop())


class SharedInlet(SessionInlet):
    """Consuming end."""

    def __init__(self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, security: Security) -> None:
        self._bell, self._fence = Bell(), own_fence()
        self._peers: dict[int, SharedPeer] = {}
        """Peers by member number."""
        self._processes: dict[int, SharedPeer] = {}
        self._limit = _limit(spec)
        try:
            super().__init__(context, uri, spec, security)
        except BaseException:
            self._bell.close()
            raise
        self._watch.register(self._bell.reading_fd, select.EPOLLIN)

    def pending(self) -> bool:
        return any(not peer.headers.empty() for peer in self._peers.values()) or super().pending()

    def arm(self) -> bool:
        self.flush()
        for peer in self._peers.values():
            peer.headers.sleep()
        self._fence()
        return self.pending()

    def disarm(self) -> None:
        for peer in self._peers.values():
            peer.headers.wake()
        self._bell.clear()
        for fd, _ in self._watch.poll(0):
            if (ended := self._processes.get(fd)) is not None:
                self.counters["peers_lost"] += 1
                self._retire(ended)

    def receive(self) -> list[ChunkHeader]:
        for peer in list(self._peers.values()):
            self._drain(peer)
        return super().receive()

    def _drain(self, peer: SharedPeer) -> None:
        """Read all messages in a peer's ring."""
        try:
            while (frame := peer.headers.get()) is not None:
                try:
                    message = decode_edge(frame)
                    if isinstance(message, Batch):
                        self._take_in(peer, message.chunks, self._chunks)
                    elif isinstance(message, Introduce) and self._may_introduce(peer, message):
                        peer.introduce(message, self._spec)
                    else:
                        self.counters["malformed"] += 1
                except ProtocolError:
                    self.counters["malformed"] += 1
                except ChannelError as error:
                    log.error("%s: outlet %d: %s", self.uri, peer.member, str(error))
                    self.counters["malformed"] += 1
        except RingBroken as error:
            # The ring cannot be read any further, so the session ends. Its process may open another.
            log.error("%s: headers of outlet %d are unreadable: %s", self.uri, peer.member, str(error))
            self.counters["malformed"] += 1
            peer.intact = False
            self._retire(peer)

    def _may_introduce(self, peer: SharedPeer, message: Introduce) -> bool:
        return message.arena == peer.member or (peer.member < 0 and message.arena < self._spec.producers)

    def _credit(self, peer: Peer, *, now: bool) -> None:
        assert isinstance(peer, SharedPeer)
        back, credits_ring = peer.back, peer.credits_ring
        if not (now or len(back) >= self._limit or credits_ring.reader_asleep()):
            return
        for start in range(0, len(back), COALESCE_CHUNKS):
            if not credits_ring.put(encode(Credit(back[start : start + COALESCE_CHUNKS]))):
                # Only for a peer that does not read its credits or corrupts them.
                self.counters["malformed"] += 1
                self._retire(peer)
                return
        peer.back = []
        if credits_ring.reader_asleep():
            ring(peer.bell)

    def _admit(self, route: bytes, join: Join) -> tuple[Peer, Shared]:
        peer = SharedPeer(route, join, self._spec)
        # A producer introduced its arena before it asked to join. It is opened while the process still waits.
        self._drain(peer)
        if not peer.intact or (join.member >= 0 and not peer.arenas):
            peer.close()
            raise ChannelError("the memory of its slots cannot be opened")
        if peer.process_fd >= 0:
            self._watch.register(peer.process_fd, select.EPOLLIN)
            self._processes[peer.process_fd] = peer
        self._peers[join.member] = peer
        return peer, Shared(os.getpid(), 0, self._bell.writing_fd)

    def _retire(self, peer: Peer) -> None:
        assert isinstance(peer, SharedPeer)
        if peer.alive:
            peer.alive = False
            if self._peers.get(peer.member) is peer:
                del self._peers[peer.member]
            if peer.intact:
                # Messages that it put into its ring before it left.
                self._drain(peer)
            if self._processes.pop(peer.process_fd, None) is not None:
                self._watch.unregister(peer.process_fd)
            super()._retire(peer)

    def _forget(self, peer: Peer) -> None:
        super()._forget(peer)
        assert isinstance(peer, SharedPeer)
        peer.close()

    def flush(self) -> None:
        for peer in list(self._peers.values()):
            if peer.back:
                self._credit(peer, now=True)

    def close(self) -> None:
        super().close()
        self._bell.close()
