"""Ends whose messages take time, for the simulated world.

They keep the contract of a channel but for failures: every end is opened before the run begins, nobody leaves, and both ends of
an edge come from one configuration. Slots have memory only if somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tianji.channel.base import EdgeSpec, Endpoint, Ends, Inlet, Outlet, WeightsInlet, WeightsOutlet, rising
from tianji.messages import ChunkHeader, SlotRef

E = TypeVar("E", bound=Endpoint)

CREDIT_BYTES = 64
"""Size of the message that returns a slot."""
HEADER_BYTES = 128
"""Size of the message that announces a chunk, without its body."""
READY_BYTES = 64
"""Size of the message by which a reader asks for the newest vector."""


class Post(Protocol):
    """Function that carries a message from one end to another, and calls `deliver` when it has arrived."""

    def __call__(self, source: Endpoint, target: Endpoint, size_bytes: int, deliver: Callable[[], None]) -> None: ...


Apart = Callable[[Endpoint, Endpoint], bool]
"""Whether two ends are on different nodes."""


class TimedOutlet(Outlet):
    """Producing end."""

    def __init__(self, inlets: dict[str, TimedInlet], uri: str, spec: EdgeSpec, member: int, post: Post) -> None:
        super().__init__()
        self.uri, self.member, self.spec = uri, member, spec
        self._inlets, self._post = inlets, post
        self._slots: dict[int, memoryview] = {}
        inlets[uri].join(self)
        self._back: list[SlotRef] | None = None
        """Slots that came back; None before the first call."""

    def slot(self, ref: SlotRef) -> memoryview:
        if ref.slot not in self._slots:
            self._slots[ref.slot] = memoryview(bytearray(self.spec.slot_bytes))
        return self._slots[ref.slot]

    def body(self, ref: SlotRef) -> memoryview:
        """Memory of a chunk, for the far end."""
        return self.slot(ref)

    def pending(self) -> bool:
        return self._back is None or bool(self._back)

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        inlet = self._inlets[self.uri]
        size = sum(HEADER_BYTES + chunk.size_bytes for chunk in chunks)
        self._post(self, inlet, size, partial(inlet.arrive, self, chunks))

    def credits(self) -> list[SlotRef]:
        if self._back is None:
            self._back = self._first()
        slots, self._back = self._back, []
        return slots

    def _first(self) -> list[SlotRef]:
        own = [SlotRef(self.member, n) for n in range(self.spec.slots)]
        kept = self._inlets[self.uri].reserved_to(self)
        return [slot for slot in own if slot not in kept]

    def credit(self, slots: Sequence[SlotRef]) -> None:
        """Take slots back. Called when the far end's message has arrived."""
        self._back = (self.credits() if self._back is None else self._back) + list(slots)

    def close(self) -> None:
        self._slots.clear()


class TimedRelay(TimedOutlet):
    """Producing end that passes on the slots of an inlet. Bodies do not move."""

    def __init__(self, inlets: dict[str, TimedInlet], uri: str, spec: EdgeSpec, upstream: TimedInlet, post: Post) -> None:
        super().__init__(inlets, uri, spec, -1, post)
        self._upstream = upstream
        upstream.relay = self

    def body(self, ref: SlotRef) -> memoryview:
        return self._upstream.body(ref)

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        inlet = self._inlets[self.uri]
        self._post(self, inlet, HEADER_BYTES * len(chunks), partial(inlet.arrive, self, chunks))

    def _first(self) -> list[SlotRef]:
        return []


class TimedInlet(Inlet):
    """Consuming end."""

    def __init__(self, inlets: dict[str, TimedInlet], uri: str, spec: EdgeSpec, post: Post) -> None:
        super().__init__()
        self.uri, self._spec, self._post = uri, spec, post
        self._inlets = inlets
        inlets[uri] = self
        self.relay: TimedRelay | None = None
        """The end that passes its chunks on."""
        self._queue: list[ChunkHeader] = []
        self._from: dict[SlotRef, TimedOutlet] = {}
        self._members: dict[int, TimedOutlet] = {}
        self._reserved: set[SlotRef] = set()

    def join(self, outlet: TimedOutlet) -> None:
        """Know a producer, whose slots may be released before it has sent any."""
        self._members[outlet.member] = outlet

    def arrive(self, outlet: TimedOutlet, chunks: Sequence[ChunkHeader]) -> None:
        """Take chunks in. Called when the far end's message has arrived."""
        self._queue += chunks
        self._from.update((chunk.slot, outlet) for chunk in chunks)

    def pending(self) -> bool:
        return bool(self._queue)

    def receive(self) -> list[ChunkHeader]:
        chunks, self._queue = self._queue, []
        return chunks

    def body(self, ref: SlotRef) -> memoryview:
        return self._from[ref].body(ref).toreadonly()

    def reserve(self, slots: Sequence[SlotRef], *, relayed: bool) -> None:
        self._reserved.update(slots)

    def reserved_to(self, outlet: TimedOutlet) -> set[SlotRef]:
        """Slots without which a producer starts. They are reserved at the last inlet of the chain."""
        return self._reserved if self.relay is None else self._inlets[self.relay.uri].reserved_to(self.relay)

    def release(self, slots: Sequence[SlotRef]) -> None:
        to: dict[int, list[SlotRef]] = {}
        for slot in slots:
            outlet = self._from.pop(slot, None)
            # A slot that was reserved and not sent yet.
            member = slot.arena if -1 not in self._members else -1
            to.setdefault(member if outlet is None else outlet.member, []).append(slot)
        for member, back in to.items():
            outlet = self._members[member]
            size = CREDIT_BYTES * len(back)
            self._post(self, outlet, size, partial(outlet.credit, back))

    def close(self) -> None:
        self._queue.clear()


class TimedWeightsOutlet(WeightsOutlet):
    """Publishing end, as in `tianji.channel.weights`.

    An edge within a node is a board, on which every reader sees the newest vector at once. An edge between nodes gives each
    reader credit for one vector. When the reader has read it, it asks for the newest one, and skips those between.
    """

    def __init__(
        self, readers: dict[str, list[TimedWeightsInlet]], uri: str, parameters: int, post: Post, apart: Apart
    ) -> None:
        super().__init__()
        self.uri, self.parameters = uri, parameters
        self._readers, self._post, self._apart = readers, post, apart
        self._newest: tuple[int, NDArray[np.float32]] | None = None
        self._between_nodes: bool | None = None
        """None: nothing was published so far."""
        self._unread: set[TimedWeightsInlet] = set()
        """Readers without credit, on an edge between nodes."""
        self._asking: list[TimedWeightsInlet] = []
        """Readers that have asked since this end was served."""

    def readers(self) -> int:
        return len(self._readers.get(self.uri, ()))

    def pending(self) -> bool:
        return bool(self._asking)

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        rising(version, None if self._newest is None else self._newest[0])
        self._newest = version, np.array(weights)
        readers = self._readers.get(self.uri, ())
        if self._between_nodes is None:
            self._between_nodes = any(self._apart(self, reader) for reader in readers)
        self.serve()
        for reader in readers:
            if reader not in self._unread:
                self._give(reader)

    def serve(self) -> None:
        asking, self._asking = self._asking, []
        for reader in asking:
            self._give(reader)

    def _give(self, reader: TimedWeightsInlet) -> None:
        assert self._newest is not None
        version, weights = self._newest
        reader.source = self
        if self._between_nodes:
            self._unread.add(reader)
        self._post(self, reader, 4 * self.parameters, partial(reader.arrive, version, weights))

    def read(self, reader: TimedWeightsInlet, version: int) -> None:
        """Give a reader credit again. Called when it has read this version.

        It asks only for what is there by then: a question that arrives before the next publication has no effect.
        """
        if reader not in self._unread:
            return
        assert self._newest is not None
        if self._newest[0] == version:
            self._unread.remove(reader)
        else:
            self._post(reader, self, READY_BYTES, partial(self._ask, reader))

    def _ask(self, reader: TimedWeightsInlet) -> None:
        self._asking.append(reader)

    def close(self) -> None:
        """It holds nothing."""


class TimedWeightsInlet(WeightsInlet):
    """Reading end."""

    def __init__(self, readers: dict[str, list[TimedWeightsInlet]], uri: str) -> None:
        super().__init__()
        self.uri = uri
        readers.setdefault(uri, []).append(self)
        self.source: TimedWeightsOutlet | None = None
        """The end that gave it a vector; None: none did."""
        self._news: tuple[int, NDArray[np.float32]] | None = None

    def arrive(self, version: int, weights: NDArray[np.float32]) -> None:
        """Take a version in, in place of an older one. Called when the message has arrived."""
        self._news = version, weights

    def pending(self) -> bool:
        return self._news is not None

    def latest(self, out: NDArray[np.float32]) -> int | None:
        if self._news is None:
            return None
        (version, weights), self._news = self._news, None
        out[...] = weights
        assert self.source is not None
        self.source.read(self, version)
        return version

    def close(self) -> None:
        """It holds nothing."""


class TimedEnds(Ends):
    """Opens timed ends. An inlet is opened before its outlets.

    Parameters
    ----------
    post
        carries messages.
    apart
        says whether two ends are on different nodes.
    opened
        is told of every end.
    """

    def __init__(self, post: Post, apart: Apart, opened: Callable[[Endpoint], None]) -> None:
        self._post, self._apart, self._opened = post, apart, opened
        self._inlets: dict[str, TimedInlet] = {}
        self._readers: dict[str, list[TimedWeightsInlet]] = {}

    def inlet(self, uri: str, spec: EdgeSpec) -> Inlet:
        return self._keep(TimedInlet(self._inlets, uri, spec, self._post))

    def outlet(self, uri: str, spec: EdgeSpec, producer: int) -> Outlet:
        return self._keep(TimedOutlet(self._inlets, uri, spec, producer, self._post))

    def relay(self, uri: str, spec: EdgeSpec, upstream: Inlet) -> Outlet:
        assert isinstance(upstream, TimedInlet)
        return self._keep(TimedRelay(self._inlets, uri, spec, upstream, self._post))

    def weights_outlet(self, uri: str, parameters: int) -> WeightsOutlet:
        return self._keep(TimedWeightsOutlet(self._readers, uri, parameters, self._post, self._apart))

    def weights_inlet(self, uri: str, parameters: int) -> WeightsInlet:
        return self._keep(TimedWeightsInlet(self._readers, uri))

    def _keep(self, end: E) -> E:
        self._opened(end)
        return end
