"""Shared memory: slots for chunks, and a store for the latest weights.

The memory is an anonymous file (memfd) whose descriptor is inherited by the processes that use it. It has no name, so
when the last of them ends, however it ends, the kernel frees it: nothing can be left behind.
"""

from __future__ import annotations

import mmap
import os
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE


def anonymous_file(label: str, size_bytes: int) -> int:
    """Descriptor of a nameless shared-memory file of this size; `label` shows in /proc. The caller closes it."""
    fd = os.memfd_create(label, os.MFD_CLOEXEC)
    os.ftruncate(fd, size_bytes)
    return fd


class Arena:
    """Slots of equal size over an anonymous file.

    Parameters
    ----------
    fd
        from `anonymous_file(label, Arena.size_bytes(...))`; it stays the caller's to close.
    slots, slot_bytes
        how many, and the room that each must have.
    """

    def __init__(self, fd: int, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.stride = self._stride(slot_bytes)
        self._map = mmap.mmap(fd, slots * self.stride)
        self._view = memoryview(self._map)

    @staticmethod
    def _stride(slot_bytes: int) -> int:
        return -(-slot_bytes // PAGE) * PAGE

    @classmethod
    def size_bytes(cls, slots: int, slot_bytes: int) -> int:
        """Size of the file; slots begin on pages of their own."""
        return slots * cls._stride(slot_bytes)

    def slot(self, number: int) -> memoryview:
        """The memory of one slot, without a copy."""
        if not 0 <= number < self.slots:
            raise IndexError(f"slot {number} of an arena of {self.slots}")
        return self._view[number * self.stride : (number + 1) * self.stride]

    def close(self) -> None:
        """Unmap. Arrays that still look at a slot keep the mapping alive until they are gone."""
        self._view.release()
        try:
            self._map.close()
        except BufferError:
            # An array over a slot is still alive; the mapping goes with it.
            self._map = None  # type: ignore[assignment]

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class WeightStore:
    """One copy of the latest weights for all readers of a host.

    A ring of places, each with a stamp before and after its vector. The writer fills the next place and then names
    it; a reader copies and checks that both stamps still carry the version it wanted, so that it never keeps a vector
    that was overwritten while it read. Overwriting takes `PLACES` further publications.
    """

    PLACES = 4

    def __init__(self, fd: int, parameters: int) -> None:
        self._map = mmap.mmap(fd, self.size_bytes(parameters))
        words = np.frombuffer(self._map, "<i8", 1 + 2 * self.PLACES)
        self._latest, self._before, self._after = words[:1], words[1 : 1 + self.PLACES], words[1 + self.PLACES :]
        vectors = np.frombuffer(self._map, "<f4", self.PLACES * parameters, offset=PAGE)
        self._vectors = vectors.reshape(self.PLACES, parameters)

    @classmethod
    def size_bytes(cls, parameters: int) -> int:
        return PAGE + cls.PLACES * parameters * 4

    def write(self, version: int, weights: NDArray[np.float32]) -> None:
        """Publish; versions start at 0 (stored as version + 1, so that fresh memory means none)."""
        place = (int(self._latest[0]) + 1) % self.PLACES
        self._before[place] = version + 1
        self._vectors[place] = weights
        self._after[place] = version + 1
        self._latest[0] = (version + 1) * self.PLACES + place

    def read(self, out: NDArray[np.float32]) -> int | None:
        """Copy the latest vector into `out` and return its version; None when nothing was published yet."""
        while True:
            latest = int(self._latest[0])
            if not latest:
                return None
            stamp, place = divmod(latest, self.PLACES)
            out[...] = self._vectors[place]
            if self._before[place] == stamp == self._after[place]:
                return stamp - 1

    @property
    def version(self) -> int | None:
        """Latest version, without reading it."""
        latest = int(self._latest[0])
        return latest // self.PLACES - 1 if latest else None

    def close(self) -> None:
        """Unmap."""
        del self._latest, self._before, self._after, self._vectors
        self._map.close()
