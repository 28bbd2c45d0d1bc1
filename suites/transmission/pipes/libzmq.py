"""What libzmq can do at its best from Python: messages of the size that it moves best, received into memory at hand.

Small messages go together, large ones in pieces; each piece is read where it was received, while the cache still has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer
from suites.transmission.pipe import Message, Samples
from suites.transmission.pipes.units import UNIT_BYTES, pieces, stock
from suites.transmission.pipes.zeromq import Socket, ZeroMq, identity

UNITS = 16
"""Under way from each explorer."""


class LibZmq(ZeroMq):
    """ZeroMQ itself."""

    name, title = "libzmq", "libzmq at its best"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"unit_bytes": UNIT_BYTES, "units_in_flight": UNITS, "one_host": "ipc", "two_hosts": "tcp"}

    def room(self, size_bytes: int) -> int:
        return UNITS

    def sender(self, main: Socket, answers: Socket, size_bytes: int) -> Explorer:
        source = stock(size_bytes)

        def send(number: int) -> None:
            for piece in pieces(source, number * size_bytes):
                main.send(piece, copy=False)

        def round_trip() -> None:
            send(1)
            answers.recv()

        return Explorer(send, round_trip)

    def receiver(self, crew: Crew, main: Socket, answers: Socket, size_bytes: int) -> Samples:
        return _Samples(crew, main, answers, size_bytes)

    def follow(self, main: Socket, out: NDArray[np.float32]) -> None:
        rest = out.data.cast("B")
        while rest:
            rest = rest[main.recv_into(rest) :]

    def publish(self, main: Socket, vector: NDArray[np.float32]) -> None:
        data = vector.data.cast("B")
        for at in range(0, len(data), UNIT_BYTES):
            main.send(data[at : at + UNIT_BYTES], 0, vector.nbytes < zmq.COPY_THRESHOLD)


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, main: Socket, answers: Socket, size_bytes: int) -> None:
        super().__init__(crew, size_bytes)
        self._main, self._answers = main, answers
        self._step = min(size_bytes, UNIT_BYTES) // 8
        self._buffer = np.zeros(UNIT_BYTES // 8, np.uint64)
        self._bytes = self._buffer.data.cast("B")

    def receive(self) -> Sequence[Message]:
        words = self._main.recv_into(self._bytes) // 8
        return [self._buffer[at : at + self._step] for at in range(0, words, self._step)]

    def answer(self) -> None:
        self._answers.send_multipart([identity(0), b""])
