"""Parts of the system: each does its work for a moment, alone in one process, and says how fast.

What is measured is real role and channel code, without the waiting that makes a whole system's figures scatter. Three parts do
not measure how fast the machine is: `returns-ppo` and `returns-dqn` train in the lockstep world, `production-unequal` runs
roles on a clock of events. The same code gives them the same values to the last bit, however busy the machine is.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from baselines.system import Task
from baselines.tianji import Relaxed, TianJi
from suites.components.unequal import Clockwork
from suites.components.work import Learning, frozen
from suites.session import catalogue
from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Network
from tianji.channel.waiter import Waiter
from tianji.config import TrainConfig
from tianji.layout import opaque_layout
from tianji.messages import ChunkHeader, Episodes, SlotRef
from tianji.roles.actor import Rollout
from tianji.simulators import scale
from tianji.topology import chunk_layout
from tianji.training import train
from tianji.worlds.sampler import Sampler

Better = Literal["higher", "lower"]

SLOTS = 16
"""Chunks in flight on an edge that is measured."""
HANDSHAKE_S = 20.0
"""In which two ends in one process must have found each other."""


class Part(ABC):
    """One part; prepared once in a process, measured again and again.

    Parameters
    ----------
    seed
        of what is random in its work.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    unit: ClassVar[str]
    better: ClassVar[Better] = "higher"
    timed: ClassVar[bool] = True
    """Whether its value depends on how fast and how busy the machine is."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._stack = ExitStack()

    @classmethod
    @abstractmethod
    def configuration(cls) -> dict[str, Any]:
        """All that says what its work is: values are comparable where this is the same."""

    @abstractmethod
    def prepare(self) -> None:
        """Get everything ready."""

    @abstractmethod
    def work(self) -> int:
        """Do a piece of work; how much of the unit it was."""

    def measure(self, seconds: float) -> float:
        """Work for at least so long; units a second."""
        done, begun = 0, time.perf_counter()
        while True:
            done += self.work()
            took = time.perf_counter() - begun
            if took >= seconds:
                return done / took

    def close(self) -> None:
        """Free everything."""
        self._stack.close()


def _until_found(found: Callable[[], bool], waiter: Waiter, what: str) -> None:
    """Wait until two ends in this process have found each other.

    Raises
    ------
    RuntimeError
        when they have not in `HANDSHAKE_S`.
    """
    deadline = time.monotonic() + HANDSHAKE_S
    while not found():
        waiter.wait(0.05)
        if time.monotonic() > deadline:
            raise RuntimeError(f"the two ends of {what} did not find each other")


def _config(workload: str, seed: int) -> TrainConfig:
    """How TianJi trains on a workload with a single core."""
    return TianJi().config(Task(TianJi.name, catalogue.load(workload), seed, (0,)))


class Sampling(Part):
    """An actor's work: environments, inference, and the chunk that comes of them."""

    name, about, unit = "sampling", "environments and inference of an actor", "steps/s"
    workload: ClassVar[str] = "cartpole-ppo-zoo"

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        return {"workload": msgspec.to_builtins(catalogue.load(cls.workload))}

    def prepare(self) -> None:
        config, describe = frozen(_config(self.workload, self.seed)), catalogue.load(self.workload).describe()
        layout = chunk_layout(config, describe)
        memory = bytearray(layout.capacity_bytes)
        self._sampler = Sampler(config, describe, layout, lambda ref: layout.views(memory), 0, time.monotonic_ns)
        self._stack.callback(self._sampler.close)
        self._sampler.weights()[:] = self._sampler.network.initialise(self.seed)

    def work(self) -> int:
        done = self._sampler.run(Rollout(SlotRef(0, 0)))
        self._sampler.take_finished()
        return done.count


class Updates(Part):
    """A learner's work on recorded chunks; nothing changes, so that every round is like the one before."""

    unit = "updates/s"
    workload: ClassVar[str]

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        return {"workload": msgspec.to_builtins(catalogue.load(cls.workload))}

    def prepare(self) -> None:
        self._learning = Learning(frozen(_config(self.workload, self.seed)), catalogue.load(self.workload).describe())

    def work(self) -> int:
        return self._learning.round()


class UpdatesPPO(Updates):
    """PPO on CartPole, as Stable-Baselines3's zoo has it."""

    name, about = "updates-ppo", "rounds of PPO's updates"
    workload = "cartpole-ppo-zoo"


class UpdatesDQN(Updates):
    """DQN on CartPole, as Stable-Baselines3's zoo has it."""

    name, about = "updates-dqn", "insertions into a replay, and DQN's updates"
    workload = "cartpole-dqn-zoo"


class Chunks(Part):
    """Chunks from one end of an edge to the other, both in this process: copied into their slots, looked at there, credited."""

    unit = "chunks/s"
    scheme: ClassVar[str]
    size_bytes: ClassVar[int]

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        return {"scheme": cls.scheme, "size_bytes": cls.size_bytes, "slots": SLOTS}

    def prepare(self) -> None:
        self._spec = EdgeSpec(opaque_layout(self.size_bytes), SLOTS, 1)
        network = self._stack.enter_context(Network())
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tj"))
        uri = "tcp://127.0.0.1:0" if self.scheme == "tcp" else f"{self.scheme}://{folder}/edge"
        self._inlet = network.inlet(uri, self._spec)
        self._outlet = network.outlet(self._inlet.uri, self._spec, 0)
        self._waiter = self._stack.enter_context(Waiter([self._inlet, self._outlet]))
        self._body, self._sequence = np.random.default_rng(self.seed).bytes(self.size_bytes), itertools.count()
        self._free: list[SlotRef] = []
        _until_found(self._all_free, self._waiter, self.scheme)

    def _all_free(self) -> bool:
        """Take back what was credited; whether that is all."""
        self._inlet.receive()
        self._free += self._outlet.credits()
        return len(self._free) == SLOTS

    def work(self) -> int:
        outlet, inlet, layout, body = self._outlet, self._inlet, self._spec.layout.id, self._body
        for slot in self._free:
            outlet.slot(slot)[: len(body)] = body
        size, numbers = self.size_bytes, self._sequence
        outlet.send([ChunkHeader(0, next(numbers), 0, layout, 1, size, size, slot) for slot in self._free])
        outlet.flush()
        self._free.clear()
        got = 0
        while got < SLOTS:
            chunks = inlet.receive()
            if not chunks:
                self._waiter.wait(0.05)
                continue
            for chunk in chunks:
                if inlet.body(chunk.slot)[-1] != body[-1]:
                    raise RuntimeError(f"a chunk over {self.scheme} is not what was sent")
            inlet.release([chunk.slot for chunk in chunks])
            got += len(chunks)
        inlet.flush()
        while not self._all_free():
            self._waiter.wait(0.05)
        return SLOTS


class ChunksOnHost(Chunks):
    """Within a host."""

    name, about = "channel-shm", "chunks of 4 KiB through shared memory"
    scheme, size_bytes = "shm", 4096


class ChunksBetweenHosts(Chunks):
    """As between hosts."""

    name, about = "channel-tcp", "chunks of 64 KiB over TCP on loopback"
    scheme, size_bytes = "tcp", 65536


class Weights(Part):
    """Weights from a learner's end to an actor's, both in this process."""

    name, about, unit = "weights-shm", "vectors of 40 KB from a learner to an actor, through shared memory", "vectors/s"
    parameters: ClassVar[int] = 10_000

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        return {"scheme": "shm", "parameters": cls.parameters}

    def prepare(self) -> None:
        network = self._stack.enter_context(Network())
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tj"))
        self._publisher = network.weights_outlet(f"shm://{folder}/weights", self.parameters)
        self._reader = network.weights_inlet(self._publisher.uri, self.parameters)
        self._vector = np.random.default_rng(self.seed).normal(size=self.parameters).astype(np.float32)
        self._out = np.zeros_like(self._vector)
        self._versions = itertools.count()
        self._publisher.publish(next(self._versions), self._vector)
        with Waiter([self._publisher, self._reader]) as waiter:
            _until_found(self._found, waiter, "weights")

    def _found(self) -> bool:
        self._publisher.serve()
        return self._reader.latest(self._out) is not None

    def work(self) -> int:
        version = next(self._versions)
        self._publisher.publish(version, self._vector)
        if self._reader.latest(self._out) != version or self._out[-1] != self._vector[-1]:
            raise RuntimeError("a vector is not what was published")
        return 1


class Returns(Part):
    """What is learnt from so many steps: the mean return of all episodes, in the lockstep world."""

    unit, timed = "return", False
    workload: ClassVar[str]
    steps: ClassVar[int]

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        return {"workload": msgspec.to_builtins(catalogue.load(cls.workload)), "steps": cls.steps}

    def prepare(self) -> None:
        config = _config(self.workload, self.seed)
        self._config = replace(config, world="lockstep", stop_steps=self.steps, stop_seconds=None)

    def measure(self, seconds: float) -> float:
        returns: list[float] = []

        def listen(message: Any) -> None:
            if isinstance(message, Episodes):
                returns.extend(episode.episode_return for episode in message.episodes)

        train(self._config, listen)
        return statistics.fmean(returns)

    def work(self) -> int:
        raise NotImplementedError("returns are no rate")


class ReturnsPPO(Returns):
    """Of PPO."""

    name, about = "returns-ppo", "mean return of CartPole's first 20,480 steps with PPO"
    workload, steps = "cartpole-ppo-zoo", 20_480


class ReturnsDQN(Returns):
    """Of DQN."""

    name, about = "returns-dqn", "mean return of CartPole's first 6,144 steps with DQN"
    workload, steps = "cartpole-dqn-zoo", 6_144


class UnequalActors(Part):
    """What relaxed actors whose speeds differ four times produce: nobody should wait for the slowest."""

    name, about, unit, timed = "production-unequal", "relaxed actors of unequal speed, on a clock of events", "steps/s", False
    workload: ClassVar[str] = "cartpole-ppo-waiting"
    round_s: ClassVar[float] = 0.01
    sigma: ClassVar[float] = 0.2
    """Of the logarithm of a chunk's time about its actor's mean."""
    seconds: ClassVar[float] = 30.0

    @classmethod
    def configuration(cls) -> dict[str, Any]:
        own = {"round_s": cls.round_s, "sigma": cls.sigma, "seconds": cls.seconds}
        return {"workload": msgspec.to_builtins(catalogue.load(cls.workload)), **own}

    def prepare(self) -> None:
        workload = catalogue.load(self.workload)
        assert workload.simulator is not None
        simulator = workload.simulator
        self._config = Relaxed().config(Task(Relaxed.name, workload, self.seed, (0,)))

        def times(number: int) -> Iterator[float]:
            rng = np.random.default_rng([self.seed, number])
            mean = scale(simulator, number) * simulator.step_seconds * self._config.fragment_steps
            while True:
                yield mean * rng.lognormal(-(self.sigma**2) / 2, self.sigma)

        self._times = times

    def measure(self, seconds: float) -> float:
        clockwork = Clockwork(self._config, self._times, self.round_s)
        clockwork.run(self.seconds)
        return clockwork.produced / clockwork.now

    def work(self) -> int:
        raise NotImplementedError("it counts seconds of a clock of its own")


PARTS: dict[str, type[Part]] = {
    part.name: part
    for part in (
        Sampling,
        UpdatesPPO,
        UpdatesDQN,
        ChunksOnHost,
        ChunksBetweenHosts,
        Weights,
        ReturnsPPO,
        ReturnsDQN,
        UnequalActors,
    )
}


def described() -> Iterator[dict[str, Any]]:
    """What a gate must know of each part before it compares two revisions."""
    for part in PARTS.values():
        yield {
            "name": part.name,
            "about": part.about,
            "unit": part.unit,
            "better": part.better,
            "timed": part.timed,
            "configuration": part.configuration(),
        }
