"""Contract of a channel, which all backends meet.

A *chunk edge* connects many outlets (producers) to one inlet. Bodies lie in numbered slots; headers are sent. Sending a chunk
hands over its slot. Releasing the chunk at the far end returns the slot as *credit*. An outlet without credit has no slot to
write to, so memory is bounded: this is backpressure. In a chain (actor, buffer, learner) the last reader releases, and each
hop passes the credit back. A hop in the middle is a *relay*, which passes on the slots of its own inlet.

A *weights edge* connects one publisher to many readers. The latest version wins, and a slow reader skips versions.

No call here blocks; `Waiter` waits for all ends of a process. Messages of peers are checked. Unusable ones are dropped and
counted in `counters`, and other peers are not affected. Delivery is at most once: chunks that a dead peer had not received
are lost, sequence numbers show the loss, and their slots become free again.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tianji.layout import ChunkLayout
from tianji.messages import ChunkHeader, SlotRef

log = logging.getLogger("tianji.channel")

COALESCE_NS = 200_000
"""Longest delay, in nanoseconds, for which an end may hold back small messages to send them together.

Held messages also go out when the process waits, or starts work that took longer than this the last time. So they are late by
at most this delay and one short piece of work."""
COALESCE_CHUNKS = 64
"""Number of chunks or credits that are sent at once instead of being held back."""
CREDIT_NS = 1_000_000
"""The same delay for credits between hosts. Each message of credits wakes a producer, which then has too little to do."""


class ChannelError(Exception):
    """Error: a channel was used against its contract, or its other end refused it."""


@dataclass(frozen=True)
class EdgeSpec:
    """Sizes on which both ends of a chunk edge agree: the memory bound and the layout of a chunk.

    An edge holds at most `producers * slots` chunks of `slot_bytes`, whatever its peers do.
    """

    layout: ChunkLayout
    slots: int
    """Slots of each producer."""
    producers: int

    @property
    def slot_bytes(self) -> int:
        return self.layout.capacity_bytes


class Endpoint(ABC):
    """One end of an edge. It is a context manager that closes everything it opened.

    Before a process sleeps on `descriptors`, it calls `arm`, which sends held messages and asks peers to ring. After the wait
    it calls `disarm`. `Waiter` does both.
    """

    uri: str = ""
    """Address to which this end is bound or connected. If port 0 was requested, it has the actual port."""
    due_s: float | None = None
    """Time (`time.monotonic`) at which `arm` has to be called again, even if nothing arrives."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        """Number of irregular events by kind, such as `malformed`, `oversized`, `uncredited`, `refused` or `late`."""
        self.payload_bytes = 0
        """Bytes of bodies and vectors that went through this end's socket, whether they were read or not. Only ends that
        connect to another one count them."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that become readable when this end has something to do."""
        return ()

    @abstractmethod
    def pending(self) -> bool:
        """Whether something has arrived."""

    def arm(self) -> bool:
        """Prepare to wait. True if something arrived meanwhile, so that the caller need not wait."""
        self.flush()
        return self.pending()

    def disarm(self) -> None:  # noqa: B027 (most ends have nothing to do)
        """Undo `arm` after the wait."""

    def flush(self) -> None:  # noqa: B027
        """Send messages that were held back."""

    def settle(self) -> None:  # noqa: B027
        """Count messages that arrived and will not be read, before this end closes."""

    @abstractmethod
    def close(self) -> None:
        """Free all resources of this end. Closing twice is allowed."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Outlet(Endpoint):
    """Producing end of a chunk edge."""

    @abstractmethod
    def slot(self, ref: SlotRef) -> memoryview:
        """Memory of a slot for which this producer has credit. The chunk is built in place."""

    @abstractmethod
    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        """Send chunks, and hand over their slots. If the inlet is not connected yet, they wait for it.

        Raises
        ------
        ChannelError
            for a slot that was sent already.
        """

    @abstractmethod
    def credits(self) -> list[SlotRef]:
        """Slots that came back since the last call. The first slots are all of a producer's own, once the inlet is connected.

        Raises
        ------
        ChannelError
            if the inlet refused this outlet; the text says why.
        """


class Inlet(Endpoint):
    """Consuming end of a chunk edge."""

    @abstractmethod
    def receive(self) -> list[ChunkHeader]:
        """Chunks that arrived since the last call, in order for each producer. Empty if there are none."""

    @abstractmethod
    def body(self, ref: SlotRef) -> memoryview:
        """Memory of a chunk that was received and not released yet. It is not copied.

        Raises
        ------
        ChannelError
            for a slot that is not held here.
        """

    @abstractmethod
    def reserve(self, slots: Sequence[SlotRef], *, relayed: bool) -> None:
        """Hold slots that were not sent, until they are released. Their producers start without them.

        Call it at the last inlet of a chain, before any outlet has joined.

        Parameters
        ----------
        relayed
            whether they are released to a relay, which passes them on to its producers.
        """

    @abstractmethod
    def release(self, slots: Sequence[SlotRef]) -> None:
        """Return slots to their senders as credit.

        Raises
        ------
        ChannelError
            for a slot that did not arrive here or was released already.
        """


class WeightsOutlet(Endpoint):
    """Publishing end of a weights edge."""

    @abstractmethod
    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        """Make these the latest weights. The vector is copied. Versions must rise."""

    @abstractmethod
    def readers(self) -> int:
        """Number of readers."""

    def serve(self) -> None:
        """Answer readers that have connected. Publishing does this too."""


class WeightsInlet(Endpoint):
    """Reading end of a weights edge."""

    @abstractmethod
    def latest(self, out: NDArray[np.float32]) -> int | None:
        """Copy the newest weights into `out` and return their version. None if they were read already or do not exist."""


class Ends(Protocol):
    """Opens the ends of edges by their addresses."""

    def inlet(self, uri: str, spec: EdgeSpec) -> Inlet:
        """Open the consuming end of a chunk edge."""

    def outlet(self, uri: str, spec: EdgeSpec, producer: int) -> Outlet:
        """Open the end of producer number `producer`, with its own slots."""

    def relay(self, uri: str, spec: EdgeSpec, upstream: Inlet) -> Outlet:
        """Open a producing end that passes on chunks of `upstream` without a copy."""

    def weights_outlet(self, uri: str, parameters: int) -> WeightsOutlet:
        """Open the publishing end of a weights edge, for vectors of this length."""

    def weights_inlet(self, uri: str, parameters: int) -> WeightsInlet:
        """Open a reading end of a weights edge, for vectors of this length."""


def rising(version: int, latest: int | None) -> None:
    """Check that a version is greater than the latest one.

    Raises
    ------
    ChannelError
        if it is not.
    """
    if latest is not None and version <= latest:
        raise ChannelError(f"version {version} after {latest}: versions must rise")


def on_its_way(slot: SlotRef) -> ChannelError:
    """Error of an outlet for a slot that was sent already."""
    return ChannelError(f"slot {slot.slot} of arena {slot.arena} is on its way already: there is no credit for it")
