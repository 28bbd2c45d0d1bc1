"""The weight board: one copy of the latest weights for all readers of a host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tianji.channel.arena import PAGE, map_file
from tianji.channel.ring import own_fence


class WeightBoard:
    """Three places, each with a stamp before and after its vector.

    The writer fills the place after the latest and then names it; it never waits. A reader copies once and checks that
    the stamps around the vector still carry the version it wanted; only a writer that published two more versions while
    it copied can have spoilt it, and then it copies the newest. So no reader keeps a torn vector.

    Order between processes is by fences: the writer's between each of its stores (stamp, vector, stamp, name), the reader's
    between its loads (name, stamp, vector, stamp). A reader that sees the second stamp of a version has a vector of that
    version or a later one; where it is later, the first stamp has changed by the time it looks again.

    Parameters
    ----------
    fd
        of a memory file of `WeightBoard.size_bytes(parameters)`; it stays the caller's to close.
    writable
        False for readers.
    """

    PLACES = 3

    def __init__(self, fd: int, parameters: int, *, writable: bool = True) -> None:
        view = map_file(fd, self.size_bytes(parameters), writable=writable)
        words = view[: 8 * (1 + 2 * self.PLACES)].cast("q")
        self._latest, self._before, self._after = words[:1], words[1 : 1 + self.PLACES], words[1 + self.PLACES :]
        vectors = np.frombuffer(view, "<f4", self.PLACES * parameters, offset=PAGE)
        self._vectors = vectors.reshape(self.PLACES, parameters)
        self._vectors.flags.writeable = writable
        self._fence = own_fence()

    @classmethod
    def size_bytes(cls, parameters: int) -> int:
        """Size of the file."""
        return PAGE + cls.PLACES * parameters * 4

    def write(self, version: int, weights: NDArray[np.float32]) -> None:
        """Publish; versions start at 0 (stored as version + 1, so that fresh memory means none)."""
        stamp, place = version + 1, (self._latest[0] + 1) % self.PLACES
        fence = self._fence
        self._before[place] = stamp
        fence()
        self._vectors[place] = weights
        fence()
        self._after[place] = stamp
        fence()
        self._latest[0] = stamp * self.PLACES + place

    def read(self, out: NDArray[np.float32]) -> int | None:
        """Copy the latest vector into `out` and return its version; None when nothing was published yet."""
        fence = self._fence
        while True:
            latest = self._latest[0]
            if not latest:
                return None
            stamp, place = divmod(latest, self.PLACES)
            fence()
            if self._after[place] != stamp:
                continue
            fence()
            out[...] = self._vectors[place]
            fence()
            if self._before[place] == stamp:
                return stamp - 1

    @property
    def version(self) -> int | None:
        """Latest version, without reading it."""
        latest = self._latest[0]
        return latest // self.PLACES - 1 if latest else None
