"""What libzmq can do at its best from Python: messages of the size that it moves best, received into memory at hand.

Small messages go together, large ones in pieces; each piece is read where it was received, while the cache still has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.crew import (
    Acknowledgements,
    Crew,
    CrewSamples,
    CrewWeights,
    Explorer,
    Follower,
    following,
    sending,
)
from suites.transmission.pipe import Message, Pipe, Samples, Weights, payload
from suites.transmission.pipes.zeromq import Socket, connected, identity, listening

UNIT_BYTES = 1 << 18
UNITS = 16
"""Under way from each explorer."""


class LibZmq(Pipe):
    """ZeroMQ itself."""

    name, title = "libzmq", "libzmq at its best"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"unit_bytes": UNIT_BYTES, "units_in_flight": UNITS, "one_host": "ipc", "two_hosts": "tcp"}

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        @contextmanager
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with connected(address, number, zmq.PUSH, UNITS) as (main, answers):
                yield _Explorer(main, answers, size_bytes)

        with (
            Crew(self.setting, sending(explorer)) as crew,
            listening(self.setting, crew, zmq.PULL, UNITS, f"s{size_bytes}") as (main, answers),
        ):
            yield _Samples(crew, main, answers, size_bytes)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        @contextmanager
        def follower(number: int, address: str) -> Iterator[Follower]:
            with connected(address, number, zmq.SUB, UNITS) as (main, _):
                yield _Follower(main)

        with (
            Acknowledgements(self.setting.explorers) as acknowledgements,
            Crew(self.setting, following(follower, size_bytes // 4, acknowledgements.fd)) as crew,
            listening(self.setting, crew, zmq.XPUB, 0, f"w{size_bytes}") as (main, _),
        ):

            def publish(version: int, vector: NDArray[np.float32]) -> None:
                data = vector.data.cast("B")
                for at in range(0, len(data), UNIT_BYTES):
                    main.send(data[at : at + UNIT_BYTES], 0, size_bytes < zmq.COPY_THRESHOLD)

            yield CrewWeights(acknowledgements, publish)


class _Explorer(Explorer):
    def __init__(self, main: Socket, answers: Socket, size_bytes: int) -> None:
        self._main, self._answers, self._size_bytes = main, answers, size_bytes
        together = np.tile(payload(size_bytes), max(1, UNIT_BYTES // size_bytes))
        self._source = together.data.cast("B")

    def send(self, number: int) -> None:
        left, at = number * self._size_bytes, 0
        while left:
            # A piece never reaches over the end of the source, which holds whole messages.
            piece = self._source[at : at + min(UNIT_BYTES, left)]
            self._main.send(piece, copy=False)
            left -= len(piece)
            at = (at + len(piece)) % len(self._source)

    def round_trip(self) -> None:
        self.send(1)
        self._answers.recv()


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


class _Follower(Follower):
    def __init__(self, main: Socket) -> None:
        self._main = main

    def follow(self, out: NDArray[np.float32]) -> None:
        rest = out.data.cast("B")
        while rest:
            rest = rest[self._main.recv_into(rest) :]
