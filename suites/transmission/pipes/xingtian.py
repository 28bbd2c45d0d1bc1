"""XingTian's channel: bodies in shared memory, headers pushed through a broker, threads that send and receive at both ends.

The parts are those that the baseline trains with (`baselines.xingtian`): its mail, its broker, its notices, its weight store.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from baselines.xingtian.assignment import Doors
from baselines.xingtian.broker import HomeBroker
from baselines.xingtian.mail import Mail, open_control
from baselines.xingtian.messages import Notice, address, decode_header, decode_notice
from suites.transmission.crew import (
    Acknowledgements,
    Crew,
    CrewSamples,
    CrewWeights,
    Explorer,
    Follow,
    following,
    sending,
)
from suites.transmission.pipe import Message, Pipe, Samples, Weights, payload
from suites.transmission.traffic import group, in_flight
from tianji.channel.arena import Arena, anonymous_file
from tianji.channel.board import WeightBoard
from tianji.layout import opaque_layout
from tianji.messages import PROTOCOL, ChunkHeader, Hello, SlotRef, Start, Stop, decode_from_role, encode
from tianji.telemetry import Account


class XingTian(Pipe):
    """The stronger of its two modes: shared memory all the way."""

    name, title = "xingtian", "XingTian-style"
    testbeds = ("local",)

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"mode": "steelman", "one_host": "shared memory, headers over ipc through the broker"}

    @contextmanager
    def _wired(self, name: str, work: Any) -> Iterator[tuple[Crew, Mail]]:
        """Broker and explorers in processes of their own, the learner's mail in this one, all told to start."""
        setting = self.setting
        folder = setting.folder / name
        folder.mkdir()
        doors = Doors(f"ipc://{folder}")

        def serve(number: int, line: Connection) -> None:
            with (
                zmq.Context() as context,
                open_control(context, _control(doors)) as control,
                HomeBroker(context, doors, range(setting.explorers)) as broker,
            ):
                broker.serve(control, Hello("broker", PROTOCOL, os.getpid()))

        with (
            Crew(replace(setting, explorers=1, beyond=setting.learner), serve),
            Crew(setting, work(doors)) as crew,
            _launcher(doors, setting.explorers) as stop,
            Mail(Account(), _control(doors), doors.learner, doors.downward, decode_header) as mail,
        ):
            crew.direct()
            if not mail.begin(Hello("learner", PROTOCOL, os.getpid())):
                raise RuntimeError("there was no start")
            crew.wait_ready()
            yield crew, mail
            stop()
            while not isinstance(mail.take("stop"), Stop):
                pass
            mail.finish(lambda: mail.account.report("learner", {}))

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        explorers, slots = self.setting.explorers, in_flight(size_bytes, self.setting.explorers)
        with ExitStack() as stack:
            files = []
            for _ in range(explorers):
                files.append(anonymous_file("fragments", Arena.size_bytes(slots, size_bytes)))
                stack.callback(os.close, files[-1])

            def work(doors: Doors) -> Any:
                @contextmanager
                def explorer(number: int, _: str) -> Iterator[Explorer]:
                    arena = Arena(files[number], slots, size_bytes)
                    with _mail(doors, number) as mail:
                        yield explorer_of(mail, arena, number, size_bytes, slots)

                return sending(explorer)

            with self._wired(f"s{size_bytes}", work) as (crew, mail):
                arenas = [Arena(fd, slots, size_bytes) for fd in files]
                yield _Samples(crew, mail, arenas, size_bytes)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        parameters, everybody = size_bytes // 4, address(range(self.setting.explorers))
        with Acknowledgements(self.setting.explorers) as acknowledgements, ExitStack() as stack:
            fd = anonymous_file("weights", WeightBoard.size_bytes(parameters))
            stack.callback(os.close, fd)

            def work(doors: Doors) -> Any:
                @contextmanager
                def follower(number: int, _: str) -> Iterator[Follow]:
                    store = WeightBoard(fd, parameters)
                    with _mail(doors, number) as mail:
                        yield follow_of(mail, store)

                return following(follower, parameters, acknowledgements.fd)

            with self._wired(f"w{size_bytes}", work) as (_, mail):
                store = WeightBoard(fd, parameters)

                def publish(version: int, vector: NDArray[np.float32]) -> None:
                    store.write(version, vector)
                    mail.push(Notice(version, []), everybody)

                yield CrewWeights(acknowledgements, publish)


def _control(doors: Doors) -> str:
    """Of the launcher."""
    return f"{doors.base_uri}/control"


@contextmanager
def _mail(doors: Doors, number: int) -> Iterator[Mail]:
    """An explorer's mail, started."""
    with Mail(Account(), _control(doors), doors.explorer(number), doors.upward, decode_notice) as mail:
        if mail.begin(Hello(f"explorer {number}", PROTOCOL, os.getpid())):
            yield mail


@contextmanager
def _launcher(doors: Doors, explorers: int) -> Iterator[Callable[[], None]]:
    """Tells everybody to start when all have said hello, from a thread: this process is one of those who wait for it.

    What is yielded tells the learner to stop.
    """
    with zmq.Context() as context, context.socket(zmq.ROUTER) as control:
        control.linger = 0
        control.bind(_control(doors))

        routes: dict[str, bytes] = {}

        def launch() -> None:
            while len(routes) < explorers + 2:
                route, frame = control.recv_multipart()
                hello = decode_from_role(frame)
                if isinstance(hello, Hello):
                    routes[hello.role] = route
            for route in routes.values():
                control.send_multipart([route, encode(Start())])

        thread = threading.Thread(target=launch, daemon=True)
        thread.start()

        def stop() -> None:
            thread.join()
            control.send_multipart([routes["learner"], encode(Stop("measured"))])

        yield stop


def explorer_of(mail: Mail, arena: Arena, number: int, size_bytes: int, slots: int) -> Explorer:
    """The sending end."""
    layout, source = opaque_layout(size_bytes).id, payload(size_bytes)
    bodies = [np.frombuffer(arena.slot(n), np.uint64) for n in range(slots)]
    free = deque(SlotRef(number, n) for n in range(slots))
    sent = 0

    def hear() -> None:
        notice: Notice = mail.take("credit")
        free.extend(slot for slot in notice.slots if slot.arena == number)

    def send(messages: int) -> None:
        nonlocal sent
        for n in range(sent, sent + messages):
            while not free:
                hear()
            ref = free.popleft()
            bodies[ref.slot][:] = source
            mail.push(ChunkHeader(number, n, 0, layout, 1, 0, size_bytes, ref))
        sent += messages

    def round_trip() -> None:
        while len(free) < len(bodies):
            hear()  # What is left of earlier messages.
        send(1)
        while len(free) < len(bodies):
            hear()

    return Explorer(send, round_trip)


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, mail: Mail, arenas: Sequence[Arena], size_bytes: int) -> None:
        super().__init__(crew, size_bytes)
        self._mail, self._group = mail, group(size_bytes)
        self._bodies = [[np.frombuffer(view, np.uint64) for view in arena.views] for arena in arenas]
        self._held: list[SlotRef] = []

    def receive(self) -> Sequence[Message]:
        chunk: ChunkHeader | None = self._mail.take("samples")
        self._held = []
        while chunk is not None:
            self._held.append(chunk.slot)
            chunk = self._mail.glance() if len(self._held) < self._group else None
        return [self._bodies[ref.arena][ref.slot] for ref in self._held]

    def release(self) -> None:
        self._mail.push(Notice(0, self._held), address(sorted({ref.arena for ref in self._held})))


def follow_of(mail: Mail, store: WeightBoard) -> Follow:
    """The end that takes weights."""
    read = 0

    def follow(out: NDArray[np.float32]) -> None:
        nonlocal read
        # The store always has the newest: a notice of what was read already is passed over.
        while mail.take("weights").version <= read:
            pass
        read = store.read(out) or 0

    return follow
