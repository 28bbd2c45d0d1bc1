"""XingTian's channel: bodies in shared memory, headers pushed through a broker, threads that send and receive at both ends.

The parts are those that the baseline trains with (`baselines.xingtian`): its mail, its broker, its notices, its weight store.
"""

from __future__ import annotations

import os
import threading
import time
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
from programs.process import boot
from suites.components.opaque import opaque_layout
from suites.transmission.crew import Crew, CrewSamples, Explorer, Follow, followers, sending
from suites.transmission.pipe import Broadcast, Message, Pipe, Samples, Setting, payload
from suites.transmission.traffic import group, in_flight
from tianji.channel.arena import Arena, anonymous_file
from tianji.channel.board import WeightBoard
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
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        slots = in_flight(size_bytes, self.setting.explorers)

        def explorer(number: int, _: str) -> Iterator[Explorer]:
            arena = Arena(files[number], slots, size_bytes)
            with _mail(doors, number) as mail:
                yield _explorer(mail, arena, number, size_bytes, slots)

        with ExitStack() as stack:
            files = [_file(stack, Arena.size_bytes(slots, size_bytes)) for _ in range(self.setting.explorers)]
            doors = stack.enter_context(_broker(self.setting, f"s{size_bytes}"))
            crew = stack.enter_context(Crew(self.setting, sending(explorer)))
            mail = stack.enter_context(_learner(doors, crew, self.setting.explorers))
            yield _samples(crew, mail, [Arena(fd, slots, size_bytes) for fd in files], size_bytes)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        parameters, everybody = size_bytes // 4, address(range(self.setting.explorers))

        def follower(number: int, _: str) -> Iterator[Follow]:
            store, last = WeightBoard(fd, parameters), 0
            with _mail(doors, number) as mail:

                def follow(out: NDArray[np.float32]) -> None:
                    nonlocal last
                    # The store always has the newest: a notice of what was read already is passed over.
                    while mail.take("weights").version <= last:
                        pass
                    last = store.read(out) or 0

                yield follow

        def publish(version: int, vector: NDArray[np.float32]) -> None:
            store.write(version, vector)
            mail.push(Notice(version, []), everybody)

        with ExitStack() as stack:
            fd = _file(stack, WeightBoard.size_bytes(parameters))
            doors = stack.enter_context(_broker(self.setting, f"w{size_bytes}"))
            crew, acknowledgements = stack.enter_context(followers(self.setting, size_bytes, follower))
            mail = stack.enter_context(_learner(doors, crew, self.setting.explorers))
            store = WeightBoard(fd, parameters)
            yield acknowledgements.of(publish)


def _file(stack: ExitStack, size_bytes: int) -> int:
    """A nameless one for as long as the stack lives."""
    fd = anonymous_file("message", size_bytes)
    stack.callback(os.close, fd)
    return fd


@contextmanager
def _broker(setting: Setting, name: str) -> Iterator[Doors]:
    """A broker in a process of its own, on the learner's node; where its doors are."""
    folder = setting.folder / name
    folder.mkdir()
    doors = Doors(f"ipc://{folder}")

    def serve(number: int, line: Connection) -> None:
        with (
            zmq.Context() as context,
            open_control(context, _control(doors)) as control,
            HomeBroker(context, doors, range(setting.explorers)) as broker,
        ):
            broker.serve(control, Hello("broker", PROTOCOL, os.getpid(), boot(), time.monotonic_ns()))

    with Crew(replace(setting, explorers=1, beyond=setting.learner), serve):
        yield doors


@contextmanager
def _learner(doors: Doors, crew: Crew, explorers: int) -> Iterator[Mail]:
    """The learner's mail, when everybody has been told to start and stands ready."""
    with (
        _launcher(doors, explorers) as stop,
        Mail(Account(), _control(doors), doors.learner, doors.downward, decode_header) as mail,
    ):
        crew.direct("")
        if not mail.begin(Hello("learner", PROTOCOL, os.getpid(), boot(), time.monotonic_ns())):
            raise RuntimeError("there was no start")
        crew.wait_ready()
        yield mail
        stop()
        while not isinstance(mail.take("stop"), Stop):
            pass
        mail.finish(lambda: mail.account.report("learner", {}))


def _control(doors: Doors) -> str:
    """Of the launcher."""
    return f"{doors.base_uri}/control"


@contextmanager
def _mail(doors: Doors, number: int) -> Iterator[Mail]:
    """An explorer's mail, started."""
    with Mail(Account(), _control(doors), doors.explorer(number), doors.upward, decode_notice) as mail:
        if mail.begin(Hello(f"explorer {number}", PROTOCOL, os.getpid(), boot(), time.monotonic_ns())):
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


def _explorer(mail: Mail, arena: Arena, producer: int, size_bytes: int, slots: int) -> Explorer:
    layout, source, sent = opaque_layout(size_bytes).id, payload(size_bytes), 0
    bodies = [np.frombuffer(arena.slot(n), np.uint64) for n in range(slots)]
    free = deque(SlotRef(producer, n) for n in range(slots))

    def send(number: int) -> None:
        nonlocal sent
        for n in range(sent, sent + number):
            while not free:
                hear()
            ref = free.popleft()
            bodies[ref.slot][:] = source
            mail.push(ChunkHeader(producer, n, 0, layout, 1, 0, size_bytes, ref))
        sent += number

    def hear() -> None:
        notice: Notice = mail.take("credit")
        free.extend(slot for slot in notice.slots if slot.arena == producer)

    def settle() -> None:
        while len(free) < slots:
            hear()

    def round_trip() -> None:
        settle()  # What is left of earlier messages.
        send(1)
        settle()

    return Explorer(send, round_trip)


def _samples(crew: Crew, mail: Mail, arenas: Sequence[Arena], size_bytes: int) -> Samples:
    together = group(size_bytes)
    held: list[SlotRef] = []
    bodies = [[np.frombuffer(view, np.uint64) for view in arena.views] for arena in arenas]

    def receive() -> Sequence[Message]:
        nonlocal held
        chunk: ChunkHeader | None = mail.take("samples")
        held = []  # Another list: a thread may still be sending the one before.
        while chunk is not None:
            held.append(chunk.slot)
            chunk = mail.glance() if len(held) < together else None
        return [bodies[ref.arena][ref.slot] for ref in held]

    def release() -> None:
        mail.push(Notice(0, held), address(sorted({ref.arena for ref in held})))

    return CrewSamples(crew, size_bytes, receive, release)
