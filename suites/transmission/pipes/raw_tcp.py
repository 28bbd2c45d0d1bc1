"""The ceiling of a network: one plain TCP connection for each explorer.

Small messages share a system call, up to one unit. Large ones are read unit by unit on arrival, while they are in the cache.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer, Follow, followers, sending
from suites.transmission.pipe import Broadcast, Message, Pipe, Samples
from suites.transmission.pipes.units import UNIT_BYTES, fill, pieces, stock


class RawTcp(Pipe):
    """TCP itself."""

    name, title = "raw-tcp", "TCP"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"unit_bytes": UNIT_BYTES, "nodelay": True}

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with _connect(address) as connection:
                send = self._sender(connection, size_bytes)

                def round_trip() -> None:
                    send(1)
                    connection.recv(1)

                yield Explorer(send, round_trip)

        with Crew(self.setting, sending(explorer)) as crew, ExitStack() as stack:
            connections = self._accept(crew, stack)

            def answer() -> None:
                for connection in connections:
                    connection.send(b"\0")

            landings = [self._landing(size_bytes) for _ in connections]
            receive = _receiving(connections, landings, stack.enter_context(select.epoll()))
            yield CrewSamples(crew, size_bytes, receive, answer=answer)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        def follower(number: int, address: str) -> Iterator[Follow]:
            with _connect(address) as connection:
                yield lambda out: fill(out, connection.recv_into)

        with followers(self.setting, size_bytes, follower) as (crew, acknowledgements), ExitStack() as stack:
            connections = self._accept(crew, stack)
            yield acknowledgements.of(lambda version, vector: spread(connections, vector.data.cast("B")))

    def _sender(self, connection: socket.socket, size_bytes: int) -> Callable[[int], None]:
        """What sends so many messages."""
        source = stock(size_bytes)

        def send(number: int) -> None:
            for piece in pieces(source, number * size_bytes):
                connection.sendall(piece)

        return send

    def _landing(self, size_bytes: int) -> NDArray[np.uint64]:
        """Memory into which one connection is received over and over, [parts, words]: whole messages, or parts of one."""
        unit = UNIT_BYTES // size_bytes * size_bytes or UNIT_BYTES
        step = min(size_bytes, unit)
        return np.zeros((unit // step, step // 8), np.uint64)

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


def _receiving(
    connections: Sequence[socket.socket], landings: Sequence[NDArray[np.uint64]], ready: select.epoll
) -> Callable[[], Sequence[Message]]:
    """What waits for parts, each a row of its connection's landing. A call receives a unit or a part, whichever is more."""
    by_fd = {connection.fileno(): connection for connection in connections}
    parts, filled = dict(zip(by_fd, landings, strict=True)), dict.fromkeys(by_fd, 0)
    bodies = {fd: own.data.cast("B") for fd, own in parts.items()}
    step, alone = landings[0][0].nbytes, len(connections) == 1
    most = max(UNIT_BYTES, step)
    for fd in by_fd:
        ready.register(fd, select.EPOLLIN)

    def receive() -> Sequence[Message]:
        while True:
            for fd in by_fd if alone else [fd for fd, _ in ready.poll()]:
                before, body = filled[fd], bodies[fd]
                came = by_fd[fd].recv_into(body[before : before + most])
                if not came:
                    raise ConnectionError("an explorer has closed its connection")
                filled[fd] = (before + came) % len(body)
                # What was there before this call has been handed out already, but for a part of one message.
                whole = parts[fd][before // step : (before + came) // step]
                if len(whole):
                    return list(whole)

    return receive
