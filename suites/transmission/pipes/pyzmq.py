"""Plain pyzmq: PUSH to PULL, PUB to SUB, one message per frame, without copies where pyzmq supports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.pipe import Message, payload
from suites.transmission.pipes.zeromq import Socket, ZeroMq
from suites.transmission.traffic import in_flight


class PyZmq(ZeroMq):
    """PUSH and PULL, PUB and SUB."""

    name, title = "pyzmq", "pyzmq"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"samples": "PUSH to PULL", "weights": "PUB to SUB", "one_host": "ipc", "two_hosts": "tcp"}

    def room(self, size_bytes: int) -> int:
        return in_flight(size_bytes, self.setting.explorers)

    def sending(self, main: Socket, size_bytes: int) -> Callable[[int], None]:
        put, source, copy = main.send, payload(size_bytes).data, size_bytes < zmq.COPY_THRESHOLD

        def send(number: int) -> None:
            # The same bytes each time, so libzmq may send them from where they are.
            for _ in range(number):
                put(source, 0, copy)

        return send

    def receiving(self, main: Socket, size_bytes: int) -> Callable[[], Sequence[Message]]:
        if size_bytes < zmq.COPY_THRESHOLD:
            return lambda: [np.frombuffer(main.recv(), np.uint64)]
        return lambda: [np.frombuffer(main.recv(copy=False).buffer, np.uint64)]

    def publish(self, main: Socket, vector: NDArray[np.float32]) -> None:
        main.send(vector.data, 0, vector.nbytes < zmq.COPY_THRESHOLD)

    def follow(self, main: Socket, out: NDArray[np.float32]) -> None:
        out[:] = np.frombuffer(main.recv(copy=False).buffer, np.float32)
