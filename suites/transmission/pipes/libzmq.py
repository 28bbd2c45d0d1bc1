"""The ceiling of libzmq from Python: messages of its best size, received into preallocated memory.

Small messages are sent together, large ones in pieces. Each piece is read where it was received, while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.pipe import Message
from suites.transmission.pipes.units import UNIT_BYTES, fill, pieces, stock
from suites.transmission.pipes.zeromq import Socket, ZeroMq
from tianji.channel.security import Keys

UNITS = 16
"""Under way from each explorer."""


class LibZmq(ZeroMq):
    """ZeroMQ itself."""

    name, title = "libzmq", "libzmq at its best"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {
            "unit_bytes": UNIT_BYTES,
            "units_in_flight": UNITS,
            "one_host": "ipc",
            "two_hosts": "tcp",
            "encrypted": cls.keys is not None,
        }

    def room(self, size_bytes: int) -> int:
        return UNITS

    def sending(self, main: Socket, size_bytes: int) -> Callable[[int], None]:
        source = stock(size_bytes)

        def send(number: int) -> None:
            for piece in pieces(source, number * size_bytes):
                main.send(piece, copy=False)

        return send

    def receiving(self, main: Socket, size_bytes: int) -> Callable[[], Sequence[Message]]:
        step, buffer = min(size_bytes, UNIT_BYTES) // 8, np.zeros(UNIT_BYTES // 8, np.uint64)
        data = buffer.data.cast("B")

        def receive() -> Sequence[Message]:
            words = main.recv_into(data) // 8
            return [buffer[at : at + step] for at in range(0, words, step)]

        return receive

    def publish(self, main: Socket, vector: NDArray[np.float32]) -> None:
        data = vector.data.cast("B")
        for at in range(0, len(data), UNIT_BYTES):
            main.send(data[at : at + UNIT_BYTES], 0, vector.nbytes < zmq.COPY_THRESHOLD)

    def follow(self, main: Socket, out: NDArray[np.float32]) -> None:
        fill(out, main.recv_into)


class LibZmqCurve(LibZmq):
    """The same, encrypted."""

    name, title = "libzmq-curve", "libzmq at its best, encrypted"
    testbeds = ("netns",)
    keys = Keys.generate()
