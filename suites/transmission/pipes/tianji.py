"""TianJi's channel: rings and shared memory on a host, ZeroMQ in segments between hosts; weights on a board, or sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Acknowledgements, Crew, CrewPipe, CrewSamples, CrewWeights, Explorer, Follow
from suites.transmission.pipe import Message, Samples, Weights, payload
from suites.transmission.traffic import group, in_flight
from tianji.channel.base import EdgeSpec, Endpoint, Inlet, Outlet, WeightsOutlet
from tianji.channel.registry import Network
from tianji.channel.security import Keys
from tianji.channel.session import SessionInlet
from tianji.channel.waiter import Waiter
from tianji.layout import ChunkLayout, Field
from tianji.messages import ChunkHeader, SlotRef


def edge(size_bytes: int, explorers: int) -> EdgeSpec:
    """An edge whose chunks are messages of this size."""
    layout = ChunkLayout([Field("payload", "<u8", (size_bytes // 8,))])
    return EdgeSpec(layout, in_flight(size_bytes, explorers), explorers)


def explorer_of(outlet: Outlet, waiter: Waiter, spec: EdgeSpec, number: int) -> Explorer:
    """The sending end, once the learner has given it its slots."""
    size, rows, together = spec.slot_bytes, spec.slot_bytes // 8, group(spec.slot_bytes)
    slots = [np.frombuffer(outlet.slot(SlotRef(number, n)), np.uint64) for n in range(spec.slots)]
    source, layout = payload(size), spec.layout.id
    free: list[SlotRef] = []
    sent = 0

    def wait() -> None:
        waiter.wait()
        free.extend(outlet.credits())

    def send(messages: int) -> None:
        nonlocal sent
        until = sent + messages
        while sent < until:
            while not free:
                free.extend(outlet.credits())
                if not free:
                    waiter.wait()
            part = free[: min(together, until - sent)]
            del free[: len(part)]
            for ref in part:
                slots[ref.slot][:] = source
            outlet.send([ChunkHeader(number, n, 0, layout, 1, rows, size, ref) for n, ref in enumerate(part, sent)])
            sent += len(part)
        outlet.flush()

    def settle() -> None:
        """Wait until every slot is back: the learner has read them all."""
        while len(free) < len(slots):
            wait()

    def round_trip() -> None:
        settle()  # What is left of earlier messages.
        send(1)
        settle()

    while not free:
        wait()
    return Explorer(send, round_trip)


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, inlet: Inlet, waiter: Waiter, spec: EdgeSpec) -> None:
        super().__init__(crew, spec.slot_bytes)
        assert isinstance(inlet, SessionInlet)
        self._inlet, self._waiter, self._group = inlet, waiter, group(spec.slot_bytes)
        self._bodies: dict[int, list[Message]] = {}
        """By the number of the arena: nobody opens a second session here, so each number means one arena."""
        self._chunks: list[ChunkHeader] = []
        self._held: list[SlotRef] = []

    def receive(self) -> Sequence[Message]:
        while not self._chunks:
            self._chunks = self._inlet.receive()
            if not self._chunks:
                self._waiter.wait()
        part = self._chunks[: self._group]
        del self._chunks[: len(part)]
        self._held = held = [chunk.slot for chunk in part]
        bodies = self._bodies
        try:
            return [bodies[ref.arena][ref.slot] for ref in held]
        except KeyError:
            for ref in held:
                bodies[ref.arena] = [np.frombuffer(view, np.uint64) for view in self._inlet.arena(ref).views]
            return [bodies[ref.arena][ref.slot] for ref in held]

    def release(self) -> None:
        self._inlet.release(self._held)

    def answer(self) -> None:
        self.release()
        self._inlet.flush()


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


class _Weights(Weights):
    """Between hosts: serves readers, who say that they have room for the next vector, while it waits."""

    def __init__(self, acknowledgements: Acknowledgements, outlet: WeightsOutlet) -> None:
        self._acknowledgements, self._outlet = acknowledgements, outlet
        self._waiter = Waiter([outlet, _Complete(acknowledgements)])

    def broadcast(self, version: int, vector: NDArray[np.float32]) -> None:
        self._outlet.publish(version, vector)
        while not self._acknowledgements.complete():
            self._waiter.wait()
            self._outlet.serve()
        self._acknowledgements.wait()

    def close(self) -> None:
        self._waiter.close()


class TianJi(CrewPipe):
    """In the clear."""

    name, title = "tianji", "TianJi"
    keys: ClassVar[Keys | None] = None

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"one_host": "shm", "two_hosts": "tcp", "encrypted": cls.keys is not None}

    def _network(self) -> Network:
        return Network(self.keys, plaintext=self.keys is None)

    def _address(self, name: str) -> str:
        return f"tcp://{self.setting.learner.address}:0" if self.setting.apart else f"shm://{self.setting.folder}/{name}"

    @contextmanager
    def explorer(self, number: int, address: str, size_bytes: int) -> Iterator[Explorer]:
        spec = edge(size_bytes, self.setting.explorers)
        with self._network() as network, network.outlet(address, spec, number) as outlet, Waiter([outlet]) as waiter:
            yield explorer_of(outlet, waiter, spec, number)

    @contextmanager
    def learner(self, crew: Crew, size_bytes: int) -> Iterator[Samples]:
        spec = edge(size_bytes, self.setting.explorers)
        with (
            self._network() as network,
            network.inlet(self._address(f"s{size_bytes}"), spec) as inlet,
            Waiter([inlet]) as waiter,
        ):
            crew.direct(inlet.uri)
            while not crew.all_ready():
                inlet.receive()
                waiter.wait(0.02)
            yield _Samples(crew, inlet, waiter, spec)

    @contextmanager
    def follower(self, number: int, address: str, size_bytes: int) -> Iterator[Follow]:
        with self._network() as network, network.weights_inlet(address, size_bytes // 4) as inlet, Waiter([inlet]) as waiter:

            def follow(out: NDArray[np.float32]) -> None:
                while inlet.latest(out) is None:
                    waiter.wait()

            yield follow

    @contextmanager
    def publisher(self, crew: Crew, told: Acknowledgements, size_bytes: int) -> Iterator[Weights]:
        with (
            self._network() as network,
            network.weights_outlet(self._address(f"w{size_bytes}"), size_bytes // 4) as outlet,
            Waiter([outlet]) as waiter,
        ):
            crew.direct(outlet.uri)
            while outlet.readers() < self.setting.explorers:
                waiter.wait()
                outlet.serve()
            crew.wait_ready()
            if not self.setting.apart:
                yield CrewWeights(told, outlet.publish)
                return
            with closing(_Weights(told, outlet)) as end:
                yield end


class TianJiCurve(TianJi):
    """Encrypted and authenticated; what that costs is a row of its own."""

    name, title = "tianji-curve", "TianJi, encrypted"
    testbeds = ("netns",)
    keys = Keys.generate()
