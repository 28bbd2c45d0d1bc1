"""Messages as a stream of bytes in units, for ceilings that do not frame messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from suites.transmission.pipe import payload

UNIT_BYTES = 1 << 18


def stock(size_bytes: int) -> memoryview:
    """Bytes to send from: as many whole messages as a unit holds, or one that is larger."""
    return np.tile(payload(size_bytes), max(1, UNIT_BYTES // size_bytes)).data.cast("B")


def pieces(source: memoryview, total_bytes: int) -> Iterator[memoryview]:
    """Pieces of `source`, repeated up to `total_bytes` bytes. Each has at most one unit and ends before the end of `source`."""
    at = 0
    while total_bytes:
        piece = source[at : at + min(UNIT_BYTES, total_bytes)]
        yield piece
        total_bytes -= len(piece)
        at = (at + len(piece)) % len(source)


def fill(out: NDArray[np.float32], receive_into: Callable[[memoryview], int]) -> None:
    """Take bytes until a vector is complete."""
    rest = out.data.cast("B")
    while rest:
        rest = rest[receive_into(rest) :]
