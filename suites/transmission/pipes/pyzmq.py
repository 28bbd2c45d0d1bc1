"""Plain pyzmq as one would write it: PUSH to PULL, PUB to SUB, a message a frame, without copies where pyzmq knows how."""

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
from suites.transmission.traffic import in_flight


class PyZmq(Pipe):
    """PUSH and PULL, PUB and SUB."""

    name, title = "pyzmq", "pyzmq"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"samples": "PUSH to PULL", "weights": "PUB to SUB", "one_host": "ipc", "two_hosts": "tcp"}

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        room = in_flight(size_bytes, self.setting.explorers)

        @contextmanager
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with connected(address, number, zmq.PUSH, room) as (main, answers):
                yield _Explorer(main, answers, size_bytes)

        with (
            Crew(self.setting, sending(explorer)) as crew,
            listening(self.setting, crew, zmq.PULL, room, f"s{size_bytes}") as (main, answers),
        ):
            yield _Samples(crew, main, answers, size_bytes)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        @contextmanager
        def follower(number: int, address: str) -> Iterator[Follower]:
            with connected(address, number, zmq.SUB, 0) as (main, _):
                yield _Follower(main)

        with (
            Acknowledgements(self.setting.explorers) as acknowledgements,
            Crew(self.setting, following(follower, size_bytes // 4, acknowledgements.fd)) as crew,
            listening(self.setting, crew, zmq.XPUB, 0, f"w{size_bytes}") as (main, _),
        ):
            copy = size_bytes < zmq.COPY_THRESHOLD

            def publish(version: int, vector: NDArray[np.float32]) -> None:
                # All have it before the next one: nobody writes it while it is on its way.
                main.send(vector.data, 0, copy)

            yield CrewWeights(acknowledgements, publish)


class _Explorer(Explorer):
    def __init__(self, main: Socket, answers: Socket, size_bytes: int) -> None:
        self._main, self._answers = main, answers
        self._source, self._copy = payload(size_bytes).data, size_bytes < zmq.COPY_THRESHOLD

    def send(self, number: int) -> None:
        # The same bytes each time, so libzmq may send them from where they are.
        send, source, copy = self._main.send, self._source, self._copy
        for _ in range(number):
            send(source, 0, copy)

    def round_trip(self) -> None:
        self.send(1)
        self._answers.recv()


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, main: Socket, answers: Socket, size_bytes: int) -> None:
        super().__init__(crew, size_bytes)
        self._main, self._answers, self._copy = main, answers, size_bytes < zmq.COPY_THRESHOLD

    def receive(self) -> Sequence[Message]:
        if self._copy:
            return [np.frombuffer(self._main.recv(), np.uint64)]
        return [np.frombuffer(self._main.recv(copy=False).buffer, np.uint64)]

    def answer(self) -> None:
        self._answers.send_multipart([identity(0), b""])


class _Follower(Follower):
    def __init__(self, main: Socket) -> None:
        self._main = main

    def follow(self, out: NDArray[np.float32]) -> None:
        out[:] = np.frombuffer(self._main.recv(copy=False).buffer, np.float32)
