"""Base of the two pipes over plain ZeroMQ: sockets, addresses, and the way of answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import numpy as np
import zmq
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer, Follow, followers, sending
from suites.transmission.pipe import Broadcast, Message, Pipe, Samples, Setting
from tianji.channel.security import Keys

Socket = zmq.Socket[bytes]


def open_socket(
    context: zmq.Context[Socket], kind: int, in_flight: int = 0, keys: Keys | None = None, *, bound: bool = False
) -> Socket:
    """A socket that holds half of so many messages of one peer, and drops what is left when it closes.

    0 stands for no limit: sockets that would rather drop a message than wait need none, where all that they send is answered.
    With keys it is encrypted.
    """
    socket = context.socket(kind)
    socket.sndhwm = socket.rcvhwm = max(1, in_flight // 2) if in_flight else 0
    socket.linger = 0
    if kind == zmq.XPUB:
        socket.xpub_verbose = True  # Each subscription is told, also when it is like one before.
    if keys is not None:
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
        if bound:
            socket.curve_server = True
        else:
            socket.curve_serverkey = keys.public
    return socket


def bind(socket: Socket, setting: Setting, name: str) -> str:
    """Bind where explorers can reach it: a socket file on one host, TCP between two."""
    if setting.apart:
        port = socket.bind_to_random_port(f"tcp://{setting.learner.address}")
        return f"tcp://{setting.learner.address}:{port}"
    address = f"ipc://{setting.folder}/{name}"
    socket.bind(address)
    return address


class ZeroMq(Pipe):
    """PUSH to PULL for samples, PUB to SUB for weights, and a socket for answers; what travels is the subclass's business."""

    keys: ClassVar[Keys | None] = None

    @abstractmethod
    def room(self, size_bytes: int) -> int:
        """ZeroMQ messages that each explorer may have under way."""

    @abstractmethod
    def sending(self, main: Socket, size_bytes: int) -> Callable[[int], None]:
        """What sends so many messages."""

    @abstractmethod
    def receiving(self, main: Socket, size_bytes: int) -> Callable[[], Sequence[Message]]:
        """What waits for messages."""

    @abstractmethod
    def publish(self, main: Socket, vector: NDArray[np.float32]) -> None:
        """Send a vector. All have it before the next one, so nobody writes it while it is on its way."""

    @abstractmethod
    def follow(self, main: Socket, out: NDArray[np.float32]) -> None:
        """Wait for the next vector and copy it to `out`."""

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        room = self.room(size_bytes)

        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with connected(address, number, zmq.PUSH, room, self.keys) as (main, answers):
                send = self.sending(main, size_bytes)

                def round_trip() -> None:
                    send(1)
                    answers.recv()

                yield Explorer(send, round_trip)

        with (
            Crew(self.setting, sending(explorer)) as crew,
            listening(self.setting, crew, zmq.PULL, room, f"s{size_bytes}", self.keys) as (main, answers),
        ):
            receive = self.receiving(main, size_bytes)
            yield CrewSamples(crew, size_bytes, receive, answer=lambda: answers.send_multipart([identity(0), b""]))

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        def follower(number: int, address: str) -> Iterator[Follow]:
            with connected(address, number, zmq.SUB, 0, self.keys) as (main, _):
                yield partial(self.follow, main)

        with (
            followers(self.setting, size_bytes, follower) as (crew, acknowledgements),
            listening(self.setting, crew, zmq.XPUB, 0, f"w{size_bytes}", self.keys) as (main, _),
        ):
            yield acknowledgements.of(lambda version, vector: self.publish(main, vector))


@contextmanager
def listening(
    setting: Setting, crew: Crew, kind: int, in_flight: int, name: str, keys: Keys | None
) -> Iterator[tuple[Socket, Socket]]:
    """The learner's two sockets: one for what is measured, one to answer explorers by their numbers."""
    with (
        zmq.Context() as context,
        open_socket(context, kind, in_flight, keys, bound=True) as main,
        open_socket(context, zmq.ROUTER, 0, keys, bound=True) as answers,
    ):
        addresses = bind(main, setting, name), bind(answers, setting, f"{name}a")
        crew.direct(" ".join(addresses))
        if kind == zmq.XPUB:
            for _ in range(setting.explorers):
                main.recv()  # A subscription.
        for _ in range(setting.explorers):
            answers.recv_multipart()
        crew.wait_ready()
        yield main, answers


@contextmanager
def connected(address: str, number: int, kind: int, in_flight: int, keys: Keys | None) -> Iterator[tuple[Socket, Socket]]:
    """An explorer's two sockets."""
    main_address, answers_address = address.split()
    with (
        zmq.Context() as context,
        open_socket(context, kind, in_flight, keys) as main,
        open_socket(context, zmq.DEALER, 0, keys) as answers,
    ):
        if kind == zmq.SUB:
            main.setsockopt(zmq.SUBSCRIBE, b"")
        main.connect(main_address)
        answers.identity = identity(number)
        answers.connect(answers_address)
        answers.send(b"")
        yield main, answers


def identity(number: int) -> bytes:
    """How the learner addresses an explorer."""
    return b"e%d" % number
