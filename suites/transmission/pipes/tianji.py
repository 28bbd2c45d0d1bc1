"""TianJi's channel: rings and shared memory on a host, ZeroMQ in segments between hosts; weights on a board, or sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Acknowledgements, Crew, CrewSamples, Explorer, Follow, followers, sending
from suites.transmission.pipe import Broadcast, Message, Pipe, Samples, payload
from suites.transmission.traffic import group, in_flight
from tianji.channel.base import EdgeSpec, Endpoint, Inlet, Outlet
from tianji.channel.registry import Channels
from tianji.channel.security import Keys
from tianji.channel.session import SessionInlet
from tianji.channel.waiter import Waiter
from tianji.layout import ChunkLayout, Field
from tianji.messages import ChunkHeader, SlotRef


def edge(size_bytes: int, explorers: int) -> EdgeSpec:
    """An edge whose chunks are messages of this size."""
    layout = ChunkLayout([Field("payload", "<u8", (size_bytes // 8,))])
    return EdgeSpec(layout, in_flight(size_bytes, explorers), explorers)


def _explorer(outlet: Outlet, waiter: Waiter, spec: EdgeSpec, producer: int) -> Explorer:
    """Waits for its first slots."""
    layout, size, rows, together = spec.layout.id, spec.slot_bytes, spec.slot_bytes // 8, group(spec.slot_bytes)
    slots = [np.frombuffer(outlet.slot(SlotRef(producer, n)), np.uint64) for n in range(spec.slots)]
    source, sent = payload(size), 0
    free: list[SlotRef] = []
    while not free:
        waiter.wait()
        free = outlet.credits()

    def send(number: int) -> None:
        nonlocal free, sent
        until = sent + number
        while sent < until:
            free += outlet.credits()
            if not free:
                waiter.wait()
                continue
            # As actors do, it uses the slots first that came back last, because they are in the cache.
            part = free[-min(together, until - sent) :]
            del free[-len(part) :]
            for ref in part:
                slots[ref.slot][:] = source
            outlet.send([ChunkHeader(producer, n, 0, layout, 1, rows, size, ref) for n, ref in enumerate(part, sent)])
            sent += len(part)
        outlet.flush()

    def settle() -> None:
        """Wait until every slot is back: the learner has read them all."""
        nonlocal free
        while len(free) < len(slots):
            waiter.wait()
            free += outlet.credits()

    def round_trip() -> None:
        settle()  # What is left of earlier messages.
        send(1)
        settle()

    return Explorer(send, round_trip)


def _samples(crew: Crew, inlet: Inlet, waiter: Waiter, spec: EdgeSpec) -> Samples:
    assert isinstance(inlet, SessionInlet)
    together = group(spec.slot_bytes)
    bodies: dict[int, list[Message]] = {}  # By the number of the arena: nobody opens a second session here.
    chunks: list[ChunkHeader] = []
    held: list[SlotRef] = []

    def receive() -> Sequence[Message]:
        nonlocal chunks, held
        while not chunks:
            chunks = inlet.receive()
            if not chunks:
                waiter.wait()
        part = chunks[:together]
        del chunks[: len(part)]
        held = [chunk.slot for chunk in part]
        try:
            return [bodies[ref.arena][ref.slot] for ref in held]
        except KeyError:
            for ref in held:
                bodies[ref.arena] = [np.frombuffer(view, np.uint64) for view in inlet.arena(ref).views]
            return [bodies[ref.arena][ref.slot] for ref in held]

    def release() -> None:
        inlet.release(held)

    def answer() -> None:
        inlet.release(held)
        inlet.flush()

    return CrewSamples(crew, spec.slot_bytes, receive, release, answer)


class _Complete(Endpoint):
    """Readable when all explorers have the vector."""

    def __init__(self, acknowledgements: Acknowledgements) -> None:
        super().__init__()
        self._acknowledgements = acknowledgements

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self._acknowledgements.fd,)

    def pending(self) -> bool:
        return self._acknowledgements.complete()

    def close(self) -> None:
        pass


class TianJi(Pipe):
    """In the clear."""

    name, title = "tianji", "TianJi"
    keys: ClassVar[Keys | None] = None

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"one_host": "shm", "two_hosts": "tcp", "encrypted": cls.keys is not None}

    def _channels(self) -> Channels:
        return Channels(self.keys, plaintext=self.keys is None)

    def _address(self, name: str) -> str:
        return f"tcp://{self.setting.learner.address}:0" if self.setting.apart else f"shm://{self.setting.folder}/{name}"

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        spec = edge(size_bytes, self.setting.explorers)

        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with self._channels() as channels, channels.outlet(address, spec, number) as outlet, Waiter([outlet]) as waiter:
                yield _explorer(outlet, waiter, spec, number)

        with (
            Crew(self.setting, sending(explorer)) as crew,
            self._channels() as channels,
            channels.inlet(self._address(f"s{size_bytes}"), spec) as inlet,
            Waiter([inlet]) as waiter,
        ):
            crew.direct(inlet.uri)
            while not crew.all_ready():
                inlet.receive()
                waiter.wait(0.02)
            yield _samples(crew, inlet, waiter, spec)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        parameters, setting = size_bytes // 4, self.setting

        def follower(number: int, address: str) -> Iterator[Follow]:
            with (
                self._channels() as channels,
                channels.weights_inlet(address, parameters) as inlet,
                Waiter([inlet]) as waiter,
            ):

                def follow(out: NDArray[np.float32]) -> None:
                    while inlet.latest(out) is None:
                        waiter.wait()

                yield follow

        with (
            followers(setting, size_bytes, follower) as (crew, acknowledgements),
            self._channels() as channels,
            channels.weights_outlet(self._address(f"w{size_bytes}"), parameters) as outlet,
            Waiter([outlet]) as waiter,
        ):
            crew.direct(outlet.uri)
            while outlet.readers() < setting.explorers:
                waiter.wait()
                outlet.serve()
            crew.wait_ready()
            if not setting.apart:
                yield acknowledgements.of(outlet.publish)
                return
            with Waiter([outlet, _Complete(acknowledgements)]) as serving:

                def publish(version: int, vector: NDArray[np.float32]) -> None:
                    outlet.publish(version, vector)
                    # Between hosts readers say that they have room for the next vector: they are served while it waits.
                    while not acknowledgements.complete():
                        serving.wait()
                        outlet.serve()

                yield acknowledgements.of(publish)


class TianJiCurve(TianJi):
    """Encrypted and authenticated; what that costs is a row of its own."""

    name, title = "tianji-curve", "TianJi, encrypted"
    testbeds = ("netns",)
    keys = Keys.generate()
