"""The contract of a channel.

A *chunk edge* joins many outlets (producers) to one inlet. Bodies lie in numbered slots of an arena; what travels is
the header. Sending a chunk gives its slot away, releasing it at the far end gives it back as *credit*: an outlet
without credit has nothing to write to, so nothing is ever unbounded. Along a chain (actor, buffer, learner) the last
reader releases and each hop passes the credit back.

A *weights edge* joins one publisher to many readers. The latest version wins: a slow reader skips versions.

Nothing here blocks. `socket` is what a real world's poller waits on (a socket or a descriptor), None where there is
nothing to wait on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianji.messages import ChunkHeader, SlotRef


class ChannelError(Exception):
    """A channel was used against its contract, or its other end broke it."""


class Endpoint(ABC):
    """One end of an edge; a context manager that leaves nothing open."""

    socket: Any = None
    """What a `zmq.Poller` can register, or None."""

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
    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        """Send chunks as one message, and their slots with them."""

    @abstractmethod
    def credits(self) -> list[SlotRef]:
        """Slots that came back since the last call."""


class Inlet(Endpoint):
    """The consuming end of a chunk edge."""

    @abstractmethod
    def receive(self) -> list[ChunkHeader]:
        """Chunks that have come in since the last call, oldest of each producer first; empty when there are none."""

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


class WeightsInlet(Endpoint):
    """The reading end of a weights edge."""

    @abstractmethod
    def latest(self, out: NDArray[np.float32]) -> int | None:
        """Copy the newest weights that were not read here yet into `out` and return their version, else None."""


class SlotLedger:
    """Which producer's route each slot came by: the bookkeeping that every inlet shares."""

    def __init__(self) -> None:
        self._route: dict[SlotRef, Any] = {}

    def arrived(self, route: Any, chunks: Sequence[ChunkHeader]) -> None:
        """Note chunks that came by a route.

        Raises
        ------
        ChannelError
            when a slot arrives that is still held: its sender wrote without credit.
        """
        for chunk in chunks:
            if chunk.slot in self._route:
                raise ChannelError(f"slot {chunk.slot.slot} of arena {chunk.slot.arena} arrived twice without a release")
            self._route[chunk.slot] = route

    def release(self, slots: Sequence[SlotRef]) -> dict[Any, list[SlotRef]]:
        """Forget slots, grouped by the route that they go back by."""
        back: dict[Any, list[SlotRef]] = {}
        for slot in slots:
            if slot not in self._route:
                raise ChannelError(f"slot {slot.slot} of arena {slot.arena} is not held here")
            back.setdefault(self._route.pop(slot), []).append(slot)
        return back
