"""The `memory` backend: both ends in one process with direct calls, for the lockstep world and for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tianji.channel.base import ChannelError, EdgeSpec, Inlet, Outlet, WeightsInlet, WeightsOutlet, on_its_way, rising
from tianji.messages import ChunkHeader, SlotRef


class MemoryOutlet(Outlet):
    """Producing end. Hands chunks directly to the inlet of the same name, if there is one."""

    def __init__(self, names: dict[str, MemoryInlet], uri: str, spec: EdgeSpec, member: int, upstream: Inlet | None) -> None:
        super().__init__()
        if (member < 0) is (upstream is None) or member >= spec.producers:
            raise ChannelError(f"outlet {member} of an edge for {spec.producers} producers")
        self.uri, self.member, self.spec = uri, member, spec
        self._names, self._upstream = names, upstream
        self._slots = [memoryview(bytearray(spec.slot_bytes)) for _ in range(spec.slots if upstream is None else 0)]
        self._out = {SlotRef(member, n) for n in range(len(self._slots))}
        self._back: deque[SlotRef] = deque()
        self._waiting: list[ChunkHeader] = []
        self._inlet: MemoryInlet | None = None
        self._refusal: str | None = None
        self._closed = False
        if upstream is not None:
            # Before its producers join, because they must not write to slots that are held further down.
            self._meet()

    def _meet(self) -> None:
        """Start a session with the inlet that is bound to the name now."""
        inlet = self._names.get(self.uri)
        if self._closed or inlet is self._inlet:
            return
        self._inlet = inlet
        if inlet is not None:
            self._refusal = inlet.join(self)
            if self._refusal is not None:
                self._inlet = None
                return
            held = inlet.held_of(self.member)
            if self._upstream is not None:
                self._upstream.reserve(list(held - self._out), relayed=False)
                self._out |= held
            kept = held.union(chunk.slot for chunk in self._waiting)
            self._back.extend(sorted(self._out - kept, key=lambda slot: (slot.arena, slot.slot)))
            self._out &= kept
            waiting, self._waiting = self._waiting, []
            inlet.arrive(self, waiting)

    def slot(self, ref: SlotRef) -> memoryview:
        if ref.arena != self.member or not 0 <= ref.slot < len(self._slots):
            raise ChannelError(f"slot {ref.slot} of arena {ref.arena} is not this outlet's to write")
        return self._slots[ref.slot]

    def body(self, ref: SlotRef) -> memoryview:
        """Memory of a chunk, for the far end."""
        return self.slot(ref) if self._upstream is None else self._upstream.body(ref)

    def pending(self) -> bool:
        self._meet()
        return bool(self._back) or self._refusal is not None

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        self._meet()
        for chunk in chunks:
            if chunk.slot in self._out:
                raise on_its_way(chunk.slot)
            self._out.add(chunk.slot)
        if self._inlet is None:
            self._waiting += chunks
        else:
            self._inlet.arrive(self, chunks)

    def credits(self) -> list[SlotRef]:
        self._meet()
        if self._refusal is not None:
            raise ChannelError(self._refusal)
        slots = list(self._back)
        self._back.clear()
        return slots

    def credit(self, slot: SlotRef) -> None:
        """Called by the far end."""
        self._out.discard(slot)
        self._back.append(slot)

    def close(self) -> None:
        self._closed = True
        if self._inlet is not None:
            self._inlet.leave(self)
            self._inlet = None


class MemoryInlet(Inlet):
    """Consuming end: a queue in this process."""

    def __init__(self, names: dict[str, MemoryInlet], uri: str, spec: EdgeSpec) -> None:
        super().__init__()
        self.uri = uri
        self._names, self._spec = names, spec
        if uri in names:
            raise ChannelError(f"cannot bind {uri}: address already in use")
        names[uri] = self
        self._members: dict[int, MemoryOutlet] = {}
        self._queue: deque[ChunkHeader] = deque()
        self._held: dict[SlotRef, tuple[int, memoryview | None]] = {}
        """Sender and memory of each held slot; the memory of a reserved slot is None."""

    def join(self, outlet: MemoryOutlet) -> str | None:
        """Start a session, or return the reason against it. Called by the far end."""
        ours, theirs = self._spec, outlet.spec
        if (ours.layout.id, ours.slots, ours.producers) != (theirs.layout.id, theirs.slots, theirs.producers):
            self.counters["refused"] += 1
            return f"{self.uri} refused this outlet: its chunks have another layout or other slots: configurations differ"
        self._members[outlet.member] = outlet
        return None

    def leave(self, outlet: MemoryOutlet) -> None:
        """Called by the far end."""
        if self._members.get(outlet.member) is outlet:
            del self._members[outlet.member]

    def held_of(self, member: int) -> set[SlotRef]:
        """Slots of a member that are held here."""
        return {slot for slot, (sender, _) in self._held.items() if sender == member}

    def reserve(self, slots: Sequence[SlotRef], *, relayed: bool) -> None:
        for slot in slots:
            self._held.setdefault(slot, (-1 if relayed else slot.arena, None))

    def arrive(self, outlet: MemoryOutlet, chunks: Sequence[ChunkHeader]) -> None:
        """Called by the far end."""
        layout = self._spec.layout
        for chunk in chunks:
            rows = min(chunk.ragged_rows, layout.fields[-1].shape[0])
            if self._members.get(outlet.member) is not outlet:
                self.counters["late"] += 1
            elif chunk.slot in self._held:
                self.counters["uncredited"] += 1
            elif chunk.layout != layout.id or rows != chunk.ragged_rows or chunk.size_bytes != layout.size_bytes(rows):
                self.counters["malformed"] += 1
            else:
                self._held[chunk.slot] = (outlet.member, outlet.body(chunk.slot))
                self._queue.append(chunk)

    def pending(self) -> bool:
        return bool(self._queue)

    def receive(self) -> list[ChunkHeader]:
        chunks = list(self._queue)
        self._queue.clear()
        return chunks

    def body(self, ref: SlotRef) -> memoryview:
        memory = self._held[ref][1] if ref in self._held else None
        if memory is None:
            raise ChannelError(f"slot {ref.slot} of arena {ref.arena} is not held here")
        return memory if memory.readonly else memory.toreadonly()

    def release(self, slots: Sequence[SlotRef]) -> None:
        for slot in slots:
            if slot not in self._held:
                raise ChannelError(f"slot {slot.slot} of arena {slot.arena} is not held here")
            member, _ = self._held.pop(slot)
            if member in self._members:
                self._members[member].credit(slot)

    def close(self) -> None:
        if self._names.get(self.uri) is self:
            del self._names[self.uri]
        self._queue.clear()
        self._held.clear()


class MemoryWeightsOutlet(WeightsOutlet):
    """Publishing end: keeps the latest copy."""

    def __init__(self, names: dict[str, MemoryWeightsOutlet], uri: str, parameters: int) -> None:
        super().__init__()
        self.uri, self.parameters = uri, parameters
        self._names = names
        if uri in names:
            raise ChannelError(f"cannot bind {uri}: address already in use")
        names[uri] = self
        self.version: int | None = None
        self.weights: NDArray[np.float32] | None = None
        self.met: set[MemoryWeightsInlet] = set()
        """Readers that have connected."""

    def readers(self) -> int:
        return len(self.met)

    def pending(self) -> bool:
        return False

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        rising(version, self.version)
        self.version, self.weights = version, np.array(weights, np.float32)

    def close(self) -> None:
        if self._names.get(self.uri) is self:
            del self._names[self.uri]


class MemoryWeightsInlet(WeightsInlet):
    """Reading end. Reads from the outlet of the same name, if there is one."""

    def __init__(self, names: dict[str, MemoryWeightsOutlet], uri: str, parameters: int) -> None:
        super().__init__()
        self.uri = uri
        self._names, self._parameters = names, parameters
        self._outlet: MemoryWeightsOutlet | None = None
        self._seen: int | None = None

    def _meet(self) -> MemoryWeightsOutlet | None:
        if (outlet := self._names.get(self.uri)) is not self._outlet:
            self._outlet, self._seen = outlet, None
            if outlet is not None and outlet.parameters != self._parameters:
                outlet.counters["refused"] += 1
                raise ChannelError(
                    f"{self.uri} refused this reader: it expects {self._parameters} parameters where there are "
                    f"{outlet.parameters}: configurations differ"
                )
            if outlet is not None:
                outlet.met.add(self)
        return self._outlet

    def pending(self) -> bool:
        outlet = self._meet()
        return outlet is not None and outlet.version != self._seen

    def latest(self, out: NDArray[np.float32]) -> int | None:
        outlet = self._meet()
        if outlet is None or outlet.weights is None or outlet.version == self._seen:
            return None
        out[...] = outlet.weights
        self._seen = outlet.version
        return self._seen

    def close(self) -> None:
        if self._outlet is not None:
            self._outlet.met.discard(self)
            self._outlet = None
