"""The `memory` backend: both ends in one process, for the lockstep world and for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tianji.channel.base import ChannelError, Inlet, Outlet, SlotLedger, WeightsInlet, WeightsOutlet
from tianji.messages import ChunkHeader, SlotRef


class MemoryOutlet(Outlet):
    """Producing end: hands chunks straight to the inlet it is connected to."""

    def __init__(self, initial: Sequence[SlotRef] = ()) -> None:
        self._credits: deque[SlotRef] = deque(initial)
        self._inlet: MemoryInlet | None = None

    def connect(self, inlet: MemoryInlet) -> None:
        """Join to the far end."""
        self._inlet = inlet

    def send(self, chunks: Sequence[ChunkHeader]) -> None:
        if self._inlet is None:
            raise ChannelError("this outlet is closed or was never connected")
        self._inlet.arrive(self, chunks)

    def credits(self) -> list[SlotRef]:
        slots = list(self._credits)
        self._credits.clear()
        return slots

    def credit(self, slots: Sequence[SlotRef]) -> None:
        """Called by the far end."""
        self._credits.extend(slots)

    def close(self) -> None:
        self._inlet = None


class MemoryInlet(Inlet):
    """Consuming end: a queue in this process."""

    def __init__(self) -> None:
        self._queue: deque[ChunkHeader] = deque()
        self._ledger = SlotLedger()

    def arrive(self, outlet: MemoryOutlet, chunks: Sequence[ChunkHeader]) -> None:
        """Called by the far end."""
        self._ledger.arrived(outlet, chunks)
        self._queue.extend(chunks)

    def receive(self) -> list[ChunkHeader]:
        chunks = list(self._queue)
        self._queue.clear()
        return chunks

    def release(self, slots: Sequence[SlotRef]) -> None:
        for outlet, back in self._ledger.release(slots).items():
            outlet.credit(back)

    def close(self) -> None:
        self._queue.clear()


class MemoryWeightsOutlet(WeightsOutlet):
    """Publishing end: keeps the latest copy."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.weights: NDArray[np.float32] | None = None

    def publish(self, version: int, weights: NDArray[np.float32]) -> None:
        if self.version is not None and version <= self.version:
            raise ChannelError(f"version {version} after {self.version}: versions must rise")
        self.version, self.weights = version, np.array(weights, np.float32)

    def close(self) -> None:
        self.weights = None


class MemoryWeightsInlet(WeightsInlet):
    """Reading end: looks at the outlet."""

    def __init__(self, outlet: MemoryWeightsOutlet) -> None:
        self._outlet = outlet
        self._seen: int | None = None

    def latest(self, out: NDArray[np.float32]) -> int | None:
        version, weights = self._outlet.version, self._outlet.weights
        if version is None or weights is None or version == self._seen:
            return None
        out[...] = weights
        self._seen = version
        return version

    def close(self) -> None:
        self._seen = self._outlet.version
