"""Sessions of chunk edges over ZeroMQ: admission of peers, ownership of slots, and recovery when a peer ends.

A session begins when an inlet welcomes an outlet's `Join`. It ends when either side leaves, dies or joins again. The welcome
names the member's slots that are still being read, and the member may write all its others. So a session does not depend on
earlier ones. Slots that were lost are free again, and a slot that is being read is never written.

A process in the middle of a chain may end too. Its successor accepts no outlet before its own inlet has welcomed it. Only then
does it know which of its producers' slots are still being read further down.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import zmq

from tianji.channel.arena import Arena
from tianji.channel.base import ChannelError, EdgeSpec, Inlet, Outlet, log, on_its_way
from tianji.channel.security import Security
from tianji.channel.zmq import HEADERS_BYTES, BoundEnd, Connected, messages, readable
from tianji.messages import (
    PROTOCOL,
    ChunkHeader,
    Credit,
    Direct,
    Join,
    Leave,
    OnEdge,
    ProtocolError,
    Refused,
    Shared,
    SlotRef,
    Welcome,
    decode_edge,
    encode,
)


class SessionOutlet(Connected, Outlet):
    """Producing end of a chunk edge over ZeroMQ.

    Parameters
    ----------
    member
        number of this producer, or -1 - k for relay number k.
    upstream
        for a relay: the inlet whose chunks it passes on.
    """

    def __init__(
        self, context: zmq.Context[Any], uri: str, spec: EdgeSpec, member: int, security: Security, upstream: Inlet | None
    ) -> None:
        if (member < 0) is (upstream is None) or member >= spec.producers:
            raise ChannelError(f"outlet {member} of an edge for {spec.producers} producers")
        self._spec, self._member, self._upstream = spec, member, upstream
        # A producer has no free slots until the inlet says otherwise. A relay has no slots of its own.
        self._out = {SlotRef(member, n) for n in range(spec.slots)} if upstream is None else set()
        self._back: list[SlotRef] = []
        self._queue: list[ChunkHeader] = []
        """Chunks that are held back or wait for a session, at most one per slot."""
        # The longest message is a list of all slots.
        super().__init__(context, uri, security, HEADERS_BYTES + 24 * spec.slots * spec.producers)
        if isinstance(upstream, SessionInlet):
            upstream.hold_off()

    def pending(self) -> bool:
        return bool(self._back) or super().pending()

    def credits(self) -> list[SlotRef]:
        self._converse()
        if self._refusal is not None:
            raise ChannelError(self._refusal)
        back, self._back = self._back, []
        return back

    def _depart(self, chunks: Sequence[ChunkHeader]) -> None:
        """Record that slots are handed over."""
        slots = [chunk.slot for chunk in chunks]
        if not self._out.isdisjoint(slots):
            raise on_its_way(next(slot for slot in slots if slot in self._out))
        self._out.update(slots)

    def _credited(self, slots: Sequence[SlotRef]) -> None:
        """Take back slots as credit."""
        out = self._out
        left = len(out) - len(slots)
        out.difference_update(slots)
        if len(out) == left:
            self._back += slots
        else:
            # Credit for a slot that was not sent, or twice: the inlet's count is wrong. A new session counts from the start.
            self.counters["malformed"] += 1
            self._ask()

    def _heard(self, message: OnEdge, frames: list[zmq.Frame]) -> None:
        match message:
            case Welcome() if message.incarnation == self._incarnation and not self._open:
                self._open = self._opened(message)
                if not self._open:
                    return
                if isinstance(self._upstream, SessionInlet):
                    # Passed on by an earlier relay; its credit comes to us.
                    inherited = [slot for slot in message.held if slot not in self._out]
                    self._out.update(inherited)
                    self._upstream.open_up(inherited)
                # Chunks that wait to be sent stay valid. All other slots that are not being read are free again.
                kept = set(message.held).union(chunk.slot for chunk in self._queue)
                free = sorted(self._out - kept, key=lambda slot: (slot.arena, slot.slot))
                self._out &= kept
                self._back += free
                self.flush()
            case Credit() if self._open:
                self._credited(message.slots)
            case Welcome() | Refused() | Credit():
                self.counters["late"] += 1
            case _:
                self.counters["malformed"] += 1

    def _ask(self) -> None:
        self._lose()
        self._incarnation = secrets.randbits(62)
        spec = self._spec
        join = Join(PROTOCOL, self._incarnation, self._member, spec.layout.id, spec.slots, spec.slot_bytes, self._offer())
        self._line.say(encode(join))

    def _offer(self) -> Shared | None:
        """Memory and bell that a new session shares."""
        return None

    def _opened(self, welcome: Welcome) -> bool:
        """Begin a session. False if that fails."""
        return True

    def _lose(self) -> None:
        # Slots of sent chunks come back with the next session.
        if self._open:
            self.counters["sessions_lost"] += 1
        super()._lose()


class Peer:
    """Session of a member, at the inlet."""

    def __init__(self, route: bytes, join: Join) -> None:
        self.route = route
        self.member, self.incarnation = join.member, join.incarnation
        self.alive = True
        self.direct: Direct | None = None
        self.arenas: dict[int, Arena] = {}
        """Arenas of the chunks that it sends, by number."""
        self.back: list[SlotRef] = []
        """Credits that are held back."""


class Predecessor(Peer):
    """Placeholder for senders of chunks that an earlier inlet received, before this process took its place."""

    def __init__(self, member: int) -> None:
        self.route, self.member, self.incarnation = b"", member, 0
        self.alive = False
        self.arenas, self.back = {}, []


class SessionInlet(BoundEnd, Inlet):
    """Consuming end of a chunk edge over ZeroMQ."""

    def __init__(
        self,
        context: zmq.Context[Any],
        uri: str,
        spec: EdgeSpec,
        security: Security,
        largest_bytes: int = HEADERS_BYTES,
        queue: int = 1000,
    ) -> None:
        super().__init__(context, uri, security, largest_bytes, queue)
        self._spec = spec
        last = spec.layout.fields[-1]
        # A header must match: layout, bytes before the ragged field, bytes of its rows, most rows, slots.
        self._shape = (spec.layout.id, spec.layout.offsets[last.name], last.row_bytes, last.shape[0], spec.slots)
        self._chunks: list[ChunkHeader] = []
        self._held: dict[SlotRef, tuple[Peer, Arena | None]] = {}
        """Sender and arena of each held slot. The arena is None if only a relay's reader still reads it."""
        self._members: dict[int, Peer] = {}
        self._routes: dict[bytes, Peer] = {}
        self._departed: list[Peer] = []
        """Retired peers of which slots are still held."""
        self._waiting: dict[bytes, Join] | None = None
        """Outlets that asked to join before the relay behind this inlet was welcomed."""

    def hold_off(self) -> None:
        """Accept no outlet until the relay behind this inlet has been welcomed."""
        if self._waiting is None and not self._members:
            self._waiting = {}

    def open_up(self, read_elsewhere: Sequence[SlotRef]) -> None:
        """Accept outlets, since the relay was welcomed. The given slots of an earlier process are still being read."""
        for slot in read_elsewhere:
            self._held.setdefault(slot, (Predecessor(slot.arena), None))
        waiting, self._waiting = self._waiting, None
        for route, join in (waiting or {}).items():
            self._joined(route, join)

    def reserve(self, slots: Sequence[SlotRef], *, relayed: bool) -> None:
        for slot in slots:
            # They are held for a predecessor, so that outlets that join are told not to write them.
            self._held.setdefault(slot, (Predecessor(-1 if relayed else slot.arena), None))

    def pending(self) -> bool:
        return bool(self._chunks) or super().pending()

    def receive(self) -> list[ChunkHeader]:
        if readable(self._socket):
            self._converse()
        chunks, self._chunks = self._chunks, []
        return chunks

    def body(self, ref: SlotRef) -> memoryview:
        return self.arena(ref).views[ref.slot]

    def arena(self, ref: SlotRef) -> Arena:
        """Arena of a chunk that is held here."""
        entry = self._held.get(ref)
        if entry is None or entry[1] is None:
            raise _not_held(ref)
        return entry[1]

    def release(self, slots: Sequence[SlotRef]) -> None:
        pop = self._held.pop
        try:
            entries = [pop(slot) for slot in slots]
        except KeyError as error:
            raise _not_held(error.args[0]) from None
        peers = {entry[0] for entry in entries}
        if len(peers) == 1 and entries[0][0].alive:
            (peer,) = peers
            peer.back += slots
            self._credit(peer, now=False)
            return
        for slot, (sender, _) in zip(slots, entries, strict=True):
            # The sender has ended, and its successor may write the slot.
            heir = sender if sender.alive else self._members.get(sender.member)
            if heir is not None:
                heir.back.append(slot)
                peers.add(heir)
        for peer in peers:
            if peer.alive:
                self._credit(peer, now=False)
            elif peer in self._departed and not any(holder is peer for holder, _ in self._held.values()):
                self._forget(peer)

    @abstractmethod
    def _credit(self, peer: Peer, *, now: bool) -> None:
        """Send credits to a peer, unless it is better to wait for more."""

    def flush(self) -> None:
        for peer in self._members.values():
            if peer.back:
                self._credit(peer, now=True)

    def _take_in(self, peer: Peer, chunks: Sequence[ChunkHeader], into: list[ChunkHeader]) -> None:
        """Check chunks that a peer sent, hold the valid ones, and append them to `into`."""
        held, arenas = self._held, peer.arenas
        wanted, fixed, row, rows, slots = self._shape
        number, entry, keep = -1, None, into.append
        for chunk in chunks:
            slot, ragged = chunk.slot, chunk.ragged_rows
            if slot.arena != number:
                number = slot.arena
                arena = arenas.get(number)
                entry = None if arena is None else (peer, arena)
            if slot in held:
                self.counters["uncredited"] += 1
            elif (
                chunk.size_bytes != fixed + ragged * row
                or ragged > rows
                or chunk.layout != wanted
                or entry is None
                or slot.slot >= slots
            ):
                self.counters["malformed"] += 1
            else:
                held[slot] = entry
                keep(chunk)

    def _converse(self) -> None:
        """Read all messages of the socket."""
        for route, header, *payload in messages(self._socket):
            try:
                message = decode_edge(header.bytes)
            except ProtocolError:
                self.counters["malformed"] += 1
                continue
            if isinstance(message, Join):
                self._joined(route.bytes, message)
                continue
            peer = self._routes.get(route.bytes)
            if isinstance(message, Leave) and self._waiting is not None:
                self._waiting.pop(route.bytes, None)
            if peer is None:
                # From an old session, or from a peer that never joined.
                self.counters["late"] += 1
            elif isinstance(message, Leave):
                self._retire(peer)
            else:
                self._carried(peer, message, payload)

    def _carried(self, peer: Peer, message: OnEdge, payload: Sequence[zmq.Frame]) -> None:
        """Handle a message of a session."""
        self.counters["malformed"] += 1

    def _joined(self, route: bytes, join: Join) -> None:
        reason = self._unacceptable(join)
        if reason is None and self._waiting is not None:
            self._waiting[route] = join
            return
        if reason is None:
            if (old := self._members.get(join.member)) is not None:
                self._retire(old)
            try:
                peer, shared = self._admit(route, join)
            except ChannelError as error:
                reason = str(error)
        if reason is not None:
            self.counters["refused"] += 1
            log.error("%s: refused outlet %d: %s", self.uri, join.member, reason)
            self._socket.send_multipart([route, encode(Refused(join.incarnation, reason))], zmq.NOBLOCK)
            return
        self._members[join.member] = self._routes[route] = peer
        held = [slot for slot, (holder, _) in self._held.items() if holder.member == join.member]
        self._socket.send_multipart([route, encode(Welcome(join.incarnation, held, shared, peer.direct))], zmq.NOBLOCK)

    def _unacceptable(self, join: Join) -> str | None:
        """Reason against a session; None if it is possible."""
        spec = self._spec
        if join.protocol != PROTOCOL:
            return f"it speaks protocol {join.protocol}, the inlet {PROTOCOL}"
        if not -spec.producers <= join.member < spec.producers:
            return f"the edge is for producers 0 to {spec.producers - 1}, not {join.member}"
        if join.layout != spec.layout.id:
            return f"its chunks have layout {join.layout:016x}, the inlet's {spec.layout.id:016x}: configurations differ"
        if (join.slots, join.slot_bytes) != (spec.slots, spec.slot_bytes):
            return f"it has {join.slots} slots of {join.slot_bytes} bytes, the inlet's are {spec.slots} of {spec.slot_bytes}"
        return None

    @abstractmethod
    def _admit(self, route: bytes, join: Join) -> tuple[Peer, Shared | None]:
        """Open the session."""

    def _retire(self, peer: Peer) -> None:
        """End a session. Its chunks stay readable until they are released."""
        peer.alive = False
        self._routes.pop(peer.route, None)
        if self._members.get(peer.member) is peer:
            del self._members[peer.member]
        if any(holder is peer for holder, _ in self._held.values()):
            self._departed.append(peer)
        else:
            self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        """Free a retired peer, of which no slot is held any more."""
        if peer in self._departed:
            self._departed.remove(peer)

    def close(self) -> None:
        if not self._watch.closed:
            self.flush()
            self._unbind_at_once()
            for peer in list(self._members.values()):
                self._socket.send_multipart([peer.route, encode(Leave())], zmq.NOBLOCK)
                self._retire(peer)
            self._chunks.clear()
            self._held.clear()
            for peer in list(self._departed):
                self._forget(peer)
            super().close()


def _not_held(slot: SlotRef) -> ChannelError:
    return ChannelError(f"slot {slot.slot} of arena {slot.arena} is not held here")
