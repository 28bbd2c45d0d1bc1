"""The contract of a channel.

A *chunk edge* joins many outlets (producers) to one inlet. Bodies lie in numbered slots; what travels is the header.
Sending a chunk gives its slot away, releasing it at the far end gives it back as *credit*: an outlet without credit has
nothing to write to, so nothing is ever unbounded. Along a chain (actor, buffer, learner) the last reader releases and
each hop passes the credit back; a hop in the middle is a *relay*, whose slots are those of the inlet behind it.

A *weights edge* joins one publisher to many readers. The latest version wins: a slow reader skips versions.

Nothing here blocks; `Waiter` does that for all ends of a process. What a peer sends is checked; what is unusable is
counted in `counters` and dropped, and everybody else goes on. Delivery is at most once: what a peer that died had not
taken in is lost, which sequence numbers show, and its slots are free again.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.layout import ChunkLayout
from tianji.messages import ChunkHeader, SlotRef

log = logging.getLogger("tianji.channel")

COALESCE_NS = 200_000
"""An end that sent less than this ago may keep what is small back until then, to send it together with what follows. What is
kept back goes when its process waits, or begins work that took longer than this when it was last done; so the price is at
most this and one short piece of work."""
COALESCE_CHUNKS = 64
"""As many chunks, or credits, are never kept back."""


class ChannelError(Exception):
    """A channel was used against its contract, or its other end refused it."""


@dataclass(frozen=True)
class EdgeSpec:
    """What both ends of a chunk edge agree on: the bound of its memory, and what a chunk looks like.

    An edge never holds more than `producers * slots` chunks of `slot_bytes`, whatever its peers do.
    """

    layout: ChunkLayout
    slots: int
    """Of each producer."""
    producers: int

    @property
    def slot_bytes(self) -> int:
        return self.layout.capacity_bytes


class Endpoint(ABC):
    """One end of an edge; a context manager that leaves nothing open.

    Before its process sleeps on `descriptors`, `arm` sends what was kept back and tells peers to ring; after that, `disarm`.
    `Waiter` does both.
    """

    uri: str = ""
    """Where it is bound, with the port that was chosen where 0 was asked for, or what it is connected to."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        """What happened out of order, by kind: `malformed`, `oversized`, `uncredited`, `refused`, `late`, `peers_lost`, ..."""
        self.payload_bytes = 0
        """Bodies and vectors that went through this end's socket, of an end that goes to another: what had to travel, read
        or not."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What becomes readable when this end has something to do."""
        return ()

    @abstractmethod
    def pending(self) -> bool:
        """Whether there is something to take in."""

    def arm(self) -> bool:
        """Get ready to wait; say whether something came first, in which case there is nothing to wait for."""
        self.flush()
        return self.pending()

    def disarm(self) -> None:  # noqa: B027 (most ends have nothing to do)
        """The wait is over."""

    def flush(self) -> None:  # noqa: B027
        """Send what was kept back."""

    def settle(self) -> None:  # noqa: B027
        """Count what has come and will not be read, before this end closes: it has travelled."""

    @abstractmethod
    def close(self) -> None:
        """Free what this end holds. Closing twice is allowed."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Outlet(Endpoint):
    """The producing end of a chunk edge."""

    @abstractmethod
    def slot(self, ref: SlotRef) -> memoryview:
        """Memory of a slot that this producer has credit for: the chunk is built right there."""

    @abstractmethod
    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        """Send chunks, and their slots with them. Where the inlet is not there yet, they wait for it.

        Raises
        ------
        ChannelError
            for a slot that is on its way already.
        """

    @abstractmethod
    def credits(self) -> list[SlotRef]:
        """Slots that came back since the last call; at first, all of a producer's own, once the inlet is there.

        Raises
        ------
        ChannelError
            when the inlet refused this outlet; its text says why.
        """


class Inlet(Endpoint):
    """The consuming end of a chunk edge."""

    @abstractmethod
    def receive(self) -> list[ChunkHeader]:
        """Chunks that have come in since the last call, oldest of each producer first; empty when there are none."""

    @abstractmethod
    def body(self, ref: SlotRef) -> memoryview:
        """Memory of a chunk that was received and not released yet, in place.

        Raises
        ------
        ChannelError
            for a slot that is not held here.
        """

    @abstractmethod
    def reserve(self, slots: Sequence[SlotRef], *, relayed: bool) -> None:
        """Hold slots that nobody has sent, until they are released: their producers begin without them.

        To be called before anybody has joined, at the last inlet of a chain.

        Parameters
        ----------
        relayed
            whether they will be released to a relay, which passes them on to its producers.
        """

    @abstractmethod
    def release(self, slots: Sequence[SlotRef]) -> None:
        """Give slots back to whoever sent them.

        Raises
        ------
        ChannelError
            for a slot that did not arrive here or was released already.
        """


class WeightsOutlet(Endpoint):
    """The publishing end of a weights edge."""

    @abstractmethod
    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        """Make these the latest; the vector is copied. Versions must rise."""

    @abstractmethod
    def readers(self) -> int:
        """How many there are."""

    def serve(self) -> None:
        """Answer readers that have come. Publishing does it too."""


class WeightsInlet(Endpoint):
    """The reading end of a weights edge."""

    @abstractmethod
    def latest(self, out: NDArray[np.float32]) -> int | None:
        """Copy the newest weights that were not read here yet into `out` and return their version, else None."""


def rising(version: int, latest: int | None) -> None:
    """Check that a version comes after the latest one.

    Raises
    ------
    ChannelError
        when it does not.
    """
    if latest is not None and version <= latest:
        raise ChannelError(f"version {version} after {latest}: versions must rise")


def on_its_way(slot: SlotRef) -> ChannelError:
    """What an outlet says when a slot is sent that is not its to send."""
    return ChannelError(f"slot {slot.slot} of arena {slot.arena} is on its way already: there is no credit for it")
