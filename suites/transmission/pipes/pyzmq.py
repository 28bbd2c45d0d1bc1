"""Plain pyzmq as one would write it: PUSH to PULL, PUB to SUB, a message a frame, without copies where pyzmq knows how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer
from suites.transmission.pipe import Message, Samples, payload
from suites.transmission.pipes.zeromq import Socket, ZeroMq, identity
from suites.transmission.traffic import in_flight


class PyZmq(ZeroMq):
    """PUSH and PULL, PUB and SUB."""

    name, title = "pyzmq", "pyzmq"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"samples": "PUSH to PULL", "weights": "PUB to SUB", "one_host": "ipc", "two_hosts": "tcp"}

    def room(self, size_bytes: int) -> int:
        return in_flight(size_bytes, self.setting.explorers)

    def sender(self, main: Socket, answers: Socket, size_bytes: int) -> Explorer:
        # The same bytes each time, so libzmq may send them from where they are.
        source, copy = payload(size_bytes).data, size_bytes < zmq.COPY_THRESHOLD

        def send(number: int) -> None:
            for _ in range(number):
                main.send(source, 0, copy)

        def round_trip() -> None:
            send(1)
            answers.recv()

        return Explorer(send, round_trip)

    def receiver(self, crew: Crew, main: Socket, answers: Socket, size_bytes: int) -> Samples:
        return _Samples(crew, main, answers, size_bytes)

    def follow(self, main: Socket, out: NDArray[np.float32]) -> None:
        out[:] = np.frombuffer(main.recv(copy=False).buffer, np.float32)

    def publish(self, main: Socket, vector: NDArray[np.float32]) -> None:
        main.send(vector.data, 0, vector.nbytes < zmq.COPY_THRESHOLD)


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
