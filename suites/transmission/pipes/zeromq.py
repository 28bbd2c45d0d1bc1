"""What the two pipes over plain ZeroMQ have in common: who listens where, and how an answer comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from suites.transmission.crew import Crew
from suites.transmission.pipe import Setting

Socket = zmq.Socket[bytes]


def open_socket(context: zmq.Context[Socket], kind: int, in_flight: int = 0) -> Socket:
    """A socket that holds half of so many messages of one peer, and drops what is left when it closes.

    0 stands for no limit: sockets that would rather drop a message than wait need none, where all that they send is answered.
    """
    socket = context.socket(kind)
    socket.sndhwm = socket.rcvhwm = max(1, in_flight // 2) if in_flight else 0
    socket.linger = 0
    if kind == zmq.XPUB:
        socket.xpub_verbose = True  # Each subscription is told, also when it is like one before.
    return socket


def bind(socket: Socket, setting: Setting, name: str) -> str:
    """Bind where explorers can reach it: a socket file on one host, TCP between two."""
    if setting.apart:
        port = socket.bind_to_random_port(f"tcp://{setting.learner.address}")
        return f"tcp://{setting.learner.address}:{port}"
    address = f"ipc://{setting.folder}/{name}"
    socket.bind(address)
    return address


@contextmanager
def listening(setting: Setting, crew: Crew, kind: int, in_flight: int, name: str) -> Iterator[tuple[Socket, Socket]]:
    """The learner's two sockets: one for what is measured, one to answer explorers by their numbers."""
    with (
        zmq.Context() as context,
        open_socket(context, kind, in_flight) as main,
        open_socket(context, zmq.ROUTER) as answers,
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
def connected(address: str, number: int, kind: int, in_flight: int) -> Iterator[tuple[Socket, Socket]]:
    """An explorer's two sockets."""
    main_address, answers_address = address.split()
    with (
        zmq.Context() as context,
        open_socket(context, kind, in_flight) as main,
        open_socket(context, zmq.DEALER) as answers,
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
