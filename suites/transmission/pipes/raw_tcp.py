"""The ceiling of a network: one TCP connection for each explorer, and nothing else.

Small messages go together, up to a unit, into one system call; of large ones each unit is read as it comes, while the cache
still has it.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Acknowledgements, Crew, CrewPipe, CrewSamples, CrewWeights, Explorer, Follow
from suites.transmission.pipe import Message, Samples, Weights
from suites.transmission.pipes.units import UNIT_BYTES, pieces, stock


class RawTcp(CrewPipe):
    """TCP itself."""

    name, title = "raw-tcp", "TCP"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"unit_bytes": UNIT_BYTES, "nodelay": True}

    @contextmanager
    def explorer(self, number: int, address: str, size_bytes: int) -> Iterator[Explorer]:
        source = stock(size_bytes)
        with _connect(address) as connection:

            def send(number: int) -> None:
                for piece in pieces(source, number * size_bytes):
                    connection.sendall(piece)

            def round_trip() -> None:
                send(1)
                connection.recv(1)

            yield Explorer(send, round_trip)

    @contextmanager
    def learner(self, crew: Crew, size_bytes: int) -> Iterator[Samples]:
        with ExitStack() as stack:
            yield _Samples(crew, self._accept(crew, stack), size_bytes, stack)

    @contextmanager
    def follower(self, number: int, address: str, size_bytes: int) -> Iterator[Follow]:
        with _connect(address) as connection:

            def follow(out: NDArray[np.float32]) -> None:
                rest = out.data.cast("B")
                while rest:
                    rest = rest[connection.recv_into(rest) :]

            yield follow

    @contextmanager
    def publisher(self, crew: Crew, told: Acknowledgements, size_bytes: int) -> Iterator[Weights]:
        with ExitStack() as stack:
            connections = self._accept(crew, stack)
            yield CrewWeights(told, lambda version, vector: spread(connections, vector.data.cast("B")))

    def _accept(self, crew: Crew, stack: ExitStack) -> list[socket.socket]:
        with socket.create_server((self.setting.learner.address, 0)) as server:
            host, port = server.getsockname()[:2]
            crew.direct(f"{host}:{port}")
            connections = [stack.enter_context(server.accept()[0]) for _ in range(self.setting.explorers)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        crew.wait_ready()
        return connections


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def spread(connections: Sequence[socket.socket], data: memoryview) -> None:
    """Write the same bytes to all connections, each as far as it takes them."""
    if len(connections) == 1:
        connections[0].sendall(data)
        return
    left = {connection.fileno(): (connection, data) for connection in connections}
    with select.epoll() as ready:
        for fd in left:
            os.set_blocking(fd, False)
            ready.register(fd, select.EPOLLOUT)
        while left:
            for fd, _ in ready.poll():
                connection, rest = left[fd]
                rest = rest[connection.send(rest) :]
                left[fd] = connection, rest
                if not rest:
                    ready.unregister(fd)
                    del left[fd]


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, connections: Sequence[socket.socket], size_bytes: int, stack: ExitStack) -> None:
        super().__init__(crew, size_bytes)
        # Whole messages, or whole parts of one.
        unit = UNIT_BYTES // size_bytes * size_bytes or UNIT_BYTES
        self._step = min(size_bytes, unit) // 8
        self._ready = stack.enter_context(select.epoll())
        self._connections, self._buffers, self._filled = {}, {}, {}
        for connection in connections:
            fd = connection.fileno()
            self._ready.register(fd, select.EPOLLIN)
            self._connections[fd], self._filled[fd] = connection, 0
            self._buffers[fd] = np.zeros(unit // 8, np.uint64)
        self._alone = len(connections) == 1

    def receive(self) -> Sequence[Message]:
        while True:
            for fd in self._connections if self._alone else [fd for fd, _ in self._ready.poll()]:
                buffer, filled = self._buffers[fd], self._filled[fd]
                came = self._connections[fd].recv_into(buffer.data.cast("B")[filled:])
                if not came:
                    raise ConnectionError("an explorer has closed its connection")
                step = self._step
                whole = (filled + came) // (step * 8)
                self._filled[fd] = (filled + came) % (len(buffer) * 8)
                # What was there before this call has been handed out already, but for a part of one message.
                done = filled // (step * 8)
                if whole > done:
                    return [buffer[n * step : (n + 1) * step] for n in range(done, whole)]

    def answer(self) -> None:
        for connection in self._connections.values():
            connection.send(b"\0")
