"""The weight board: one shared copy of the latest weights for all readers of a host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tianji.channel.arena import PAGE, map_file
from tianji.channel.ring import own_fence


class WeightBoard:
    """Shared memory with three places for a vector, each with a version stamp before and after it.

    The writer never waits: it fills the place after the latest one and then announces it. A reader copies the vector and checks
    that both stamps still carry the expected version. A copy can be torn only if the writer published two more versions
    meanwhile; the reader then copies the newest. So no reader keeps a torn vector.

    Fences order the stores of the writer (stamp, vector, stamp, name) and the loads of the reader (name, stamp, vector, stamp).
    A reader that sees the second stamp of a version has a vector of that version or a later one. If it is later, the first
    stamp has changed by the time the reader checks it again.

    Parameters
    ----------
    fd
        descriptor of a memory file of `WeightBoard.size_bytes(parameters)`. The caller closes it.
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
        """Size of the file in bytes."""
        return PAGE + cls.PLACES * parameters * 4

    def write(self, version: int, weights: NDArray[np.float32]) -> None:
        """Publish weights. Versions start at 0; the board stores version + 1, so that fresh memory means none."""
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
        """Copy the latest vector into `out` and return its version. None if nothing was published yet."""
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
        """Latest version, without a copy of the vector."""
        latest = self._latest[0]
        return latest // self.PLACES - 1 if latest else None
