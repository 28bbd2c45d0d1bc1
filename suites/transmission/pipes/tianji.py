"""TianJi's channel: rings and shared memory on a host, ZeroMQ in segments between hosts; weights on a board, or sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Acknowledgements, Crew, CrewSamples, CrewWeights, Explorer, Follower, following, sending
from suites.transmission.pipe import Message, Pipe, Samples, Weights, payload
from suites.transmission.traffic import group, in_flight
from tianji.channel.base import EdgeSpec, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
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


class _Explorer(Explorer):
    def __init__(self, outlet: Outlet, waiter: Waiter, spec: EdgeSpec, number: int) -> None:
        self._outlet, self._waiter, self._layout, self._number = outlet, waiter, spec.layout.id, number
        self._size_bytes, self._group = spec.slot_bytes, group(spec.slot_bytes)
        self._slots = [np.frombuffer(outlet.slot(SlotRef(number, n)), np.uint64) for n in range(spec.slots)]
        self._source, self._sent = payload(spec.slot_bytes), 0
        self._free: list[SlotRef] = []
        while not self._free:
            waiter.wait()
            self._free = outlet.credits()

    def send(self, number: int) -> None:
        slots, source, outlet = self._slots, self._source, self._outlet
        layout, size, producer, rows = self._layout, self._size_bytes, self._number, self._size_bytes // 8
        until = self._sent + number
        while self._sent < until:
            while not self._free:
                self._free = outlet.credits()
                if not self._free:
                    self._waiter.wait()
            part = self._free[: min(self._group, until - self._sent)]
            del self._free[: len(part)]
            for ref in part:
                slots[ref.slot][:] = source
            outlet.send([ChunkHeader(producer, n, 0, layout, 1, rows, size, ref) for n, ref in enumerate(part, self._sent)])
            self._sent += len(part)
        outlet.flush()

    def round_trip(self) -> None:
        self._settle()  # What is left of earlier messages.
        self.send(1)
        self._settle()

    def _settle(self) -> None:
        """Wait until every slot is back: the learner has read them all."""
        while len(self._free) < len(self._slots):
            self._waiter.wait()
            self._free += self._outlet.credits()


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


class _Follower(Follower):
    def __init__(self, inlet: WeightsInlet, waiter: Waiter) -> None:
        self._inlet, self._waiter = inlet, waiter

    def follow(self, out: NDArray[np.float32]) -> None:
        while self._inlet.latest(out) is None:
            self._waiter.wait()


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


class TianJi(Pipe):
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
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        spec = edge(size_bytes, self.setting.explorers)

        @contextmanager
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            with (
                self._network() as network,
                network.outlet(address, spec, number) as outlet,
                Waiter([outlet]) as waiter,
            ):
                yield _Explorer(outlet, waiter, spec, number)

        with (
            Crew(self.setting, sending(explorer)) as crew,
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
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        parameters, setting = size_bytes // 4, self.setting

        @contextmanager
        def follower(number: int, address: str) -> Iterator[Follower]:
            with (
                self._network() as network,
                network.weights_inlet(address, parameters) as inlet,
                Waiter([inlet]) as waiter,
            ):
                yield _Follower(inlet, waiter)

        with (
            Acknowledgements(setting.explorers) as acknowledgements,
            Crew(setting, following(follower, parameters, acknowledgements.fd)) as crew,
            self._network() as network,
            network.weights_outlet(self._address(f"w{size_bytes}"), parameters) as outlet,
            Waiter([outlet]) as waiter,
        ):
            crew.direct(outlet.uri)
            while outlet.readers() < setting.explorers:
                waiter.wait()
                outlet.serve()
            crew.wait_ready()
            if not setting.apart:
                yield CrewWeights(acknowledgements, outlet.publish)
                return
            with closing(_Weights(acknowledgements, outlet)) as end:
                yield end


class TianJiCurve(TianJi):
    """Encrypted and authenticated; what that costs is a row of its own."""

    name, title = "tianji-curve", "TianJi, encrypted"
    testbeds = ("netns",)
    keys = Keys.generate()
