"""Parts of the system, each measured alone in one process.

The measured code is that of real roles and channels, without the waiting that makes figures of a whole system scatter. Three
parts do not depend on the machine's speed. `returns-ppo` and `returns-dqn` train in the lockstep world, and
`production-unequal` runs roles on a simulated clock. They give the same values bit for bit, however busy the machine is.

A part is a generator function of a seed and the part's settings. It sets everything up and yields a function that does one
piece of work. When it is resumed, it closes what it opened.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from baselines.system import Task
from baselines.tianji import Relaxed, TianJi
from suites.components.opaque import opaque_layout
from suites.components.unequal import Unequal
from suites.components.work import Learning, frozen
from suites.session import catalogue
from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.config import TrainConfig
from tianji.environments.delays import scale
from tianji.messages import ChunkHeader, Episodes, SlotRef
from tianji.roles.actor import Rollout, RolloutDone
from tianji.run.training import train
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler
from tianji.worlds.threads import torch_threads

Better = Literal["higher", "lower"]
Work = Callable[[], float]
"""Does a piece of work and returns how much of the unit it was; of a part that is not timed, its value."""

SLOTS = 16
"""Chunks in flight on an edge that is measured."""
HANDSHAKE_S = 20.0
"""Seconds in which two ends in one process must have connected."""


@dataclass(frozen=True)
class Part:
    """One part."""

    name: str
    about: str
    unit: str
    make: Callable[..., Iterator[Work]]
    settings: dict[str, Any]
    """Given to `make`."""
    timed: bool = True
    """Whether its value depends on how fast and how busy the machine is."""
    better: Better = "higher"

    @property
    def configuration(self) -> dict[str, Any]:
        """All that says what its work is: values are comparable where this is the same."""
        workload = self.settings.get("workload")
        return self.settings | ({"workload": msgspec.to_builtins(catalogue.load(workload))} if workload else {})

    def prepare(self, seed: int) -> Prepared:
        """Get everything ready; the seed is of what is random in its work."""
        return Prepared(self, seed)


class Prepared:
    """A part that is ready; measured again and again."""

    def __init__(self, part: Part, seed: int) -> None:
        self._stack, self._timed = ExitStack(), part.timed
        self.work = self._stack.enter_context(contextmanager(part.make)(seed, **part.settings))

    def measure(self, seconds: float) -> float:
        """Work for at least `seconds`, and return units per second. Parts that are not timed return their own value."""
        if not self._timed:
            return self.work()
        done, begun = 0.0, time.perf_counter()
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


def sampling(seed: int, workload: str) -> Iterator[Work]:
    """An actor's work: environments, inference, and the chunk that comes of them."""
    config, describe = frozen(_config(workload, seed)), catalogue.load(workload).describe()
    layout = chunk_layout(config, describe)
    memory = bytearray(layout.capacity_bytes)
    sampler = Sampler(config, describe, layout, lambda ref: layout.views(memory), 0, time.monotonic_ns)

    def work() -> int:
        done: RolloutDone = sampler.run(Rollout(SlotRef(0, 0)))
        sampler.take_finished()
        return done.count

    try:
        sampler.weights()[:] = sampler.network.initialise(seed)
        yield work
    finally:
        sampler.close()


def updates(seed: int, workload: str) -> Iterator[Work]:
    """A learner's work on recorded chunks; nothing changes, so that every round is like the one before."""
    learning = Learning(frozen(_config(workload, seed)), catalogue.load(workload).describe())
    with torch_threads(1):
        yield learning.round


def chunks(seed: int, scheme: str, size_bytes: int, slots: int) -> Iterator[Work]:
    """Chunks from one end of an edge to the other, both in this process: copied into their slots, looked at there, credited."""
    spec = EdgeSpec(opaque_layout(size_bytes), slots, 1)
    layout, body, numbers = spec.layout.id, np.random.default_rng(seed).bytes(size_bytes), itertools.count()
    free: list[SlotRef] = []

    def all_free() -> bool:
        """Take back what was credited; whether that is all."""
        inlet.receive()
        free.extend(outlet.credits())
        return len(free) == slots

    def work() -> int:
        for slot in free:
            outlet.slot(slot)[: len(body)] = body
        outlet.send([ChunkHeader(0, next(numbers), 0, layout, 1, size_bytes, size_bytes, slot) for slot in free])
        outlet.flush()
        free.clear()
        got = 0
        while got < slots:
            chunks = inlet.receive()
            if not chunks:
                waiter.wait(0.05)
                continue
            for chunk in chunks:
                if inlet.body(chunk.slot)[-1] != body[-1]:
                    raise RuntimeError(f"a chunk over {scheme} is not what was sent")
            inlet.release([chunk.slot for chunk in chunks])
            got += len(chunks)
        inlet.flush()
        while not all_free():
            waiter.wait(0.05)
        return slots

    with Channels() as channels, tempfile.TemporaryDirectory(prefix="tj") as folder:
        inlet = channels.inlet("tcp://127.0.0.1:0" if scheme == "tcp" else f"{scheme}://{folder}/edge", spec)
        outlet = channels.outlet(inlet.uri, spec, 0)
        with Waiter([inlet, outlet]) as waiter:
            _until_found(all_free, waiter, scheme)
            yield work


def weights(seed: int, scheme: str, parameters: int) -> Iterator[Work]:
    """Weights from a learner's end to an actor's, both in this process."""
    vector, versions = np.random.default_rng(seed).normal(size=parameters).astype(np.float32), itertools.count()
    out = np.zeros_like(vector)

    def found() -> bool:
        publisher.serve()
        return reader.latest(out) is not None

    def work() -> int:
        version = next(versions)
        publisher.publish(version, vector)
        if reader.latest(out) != version or out[-1] != vector[-1]:
            raise RuntimeError("a vector is not what was published")
        return 1

    with Channels() as channels, tempfile.TemporaryDirectory(prefix="tj") as folder:
        publisher = channels.weights_outlet(f"{scheme}://{folder}/weights", parameters)
        reader = channels.weights_inlet(publisher.uri, parameters)
        publisher.publish(next(versions), vector)
        with Waiter([publisher, reader]) as waiter:
            _until_found(found, waiter, "weights")
        yield work


def returns(seed: int, workload: str, steps: int) -> Iterator[Work]:
    """Mean return of all episodes after training for `steps` steps in the lockstep world."""
    config = replace(_config(workload, seed), world="lockstep", stop_steps=steps, stop_seconds=None)

    def value() -> float:
        found: list[float] = []

        def listen(message: Any) -> None:
            if isinstance(message, Episodes):
                found.extend(episode.episode_return for episode in message.episodes)

        train(config, listen)
        return statistics.fmean(found)

    yield value


def unequal(seed: int, workload: str, round_s: float, sigma: float, seconds: float) -> Iterator[Work]:
    """Production of relaxed actors whose speeds differ fourfold. None should wait for the slowest.

    Parameters
    ----------
    sigma
        of the logarithm of a chunk's time about its actor's mean.
    seconds
        on the clock of events.
    """
    loaded = catalogue.load(workload)
    assert loaded.simulator is not None
    simulator = loaded.simulator
    config = Relaxed().config(Task(Relaxed.name, loaded, seed, (0,)))

    def times(number: int) -> Iterator[float]:
        rng = np.random.default_rng([seed, number])
        mean = scale(simulator, number) * simulator.step_seconds * config.fragment_steps
        while True:
            yield mean * rng.lognormal(-(sigma**2) / 2, sigma)

    def value() -> float:
        run = Unequal(config, times, round_s)
        run.run(seconds)
        return run.produced / run.now

    yield value


PPO, DQN, SAC, PICTURES = (
    {"workload": name} for name in ("cartpole-ppo-zoo", "cartpole-dqn-zoo", "pendulum-sac", "pong42-ppo-rate")
)
ON_HOST = {"scheme": "shm", "size_bytes": 4096, "slots": SLOTS}
BETWEEN_HOSTS = {"scheme": "tcp", "size_bytes": 65536, "slots": SLOTS}
PPO_STEPS, DQN_STEPS = PPO | {"steps": 20_480}, DQN | {"steps": 6_144}
VECTOR = {"scheme": "shm", "parameters": 10_000}
UNEQUAL = {"workload": "cartpole-ppo-waiting", "round_s": 0.01, "sigma": 0.2, "seconds": 30.0}

PARTS = {
    part.name: part
    for part in (
        Part("sampling", "environments and inference of an actor", "steps/s", sampling, PPO),
        Part("updates-ppo", "rounds of PPO's updates", "updates/s", updates, PPO),
        Part("updates-dqn", "insertions into a replay, and DQN's updates", "updates/s", updates, DQN),
        Part("updates-sac", "insertions into a replay, and SAC's updates", "updates/s", updates, SAC),
        Part("sampling-pictures", "games of Atari, and inference on pictures", "steps/s", sampling, PICTURES),
        Part("updates-pictures", "rounds of PPO's updates on pictures, one thread", "updates/s", updates, PICTURES),
        Part("channel-shm", "chunks of 4 KiB through shared memory", "chunks/s", chunks, ON_HOST),
        Part("channel-tcp", "chunks of 64 KiB over TCP on loopback", "chunks/s", chunks, BETWEEN_HOSTS),
        Part("weights-shm", "vectors of 40 KB from a learner to an actor, through shared memory", "vectors/s", weights, VECTOR),
        Part("returns-ppo", "mean return of CartPole's first 20,480 steps with PPO", "return", returns, PPO_STEPS, timed=False),
        Part("returns-dqn", "mean return of CartPole's first 6,144 steps with DQN", "return", returns, DQN_STEPS, timed=False),
        Part(
            "production-unequal",
            "relaxed actors of unequal speed, on a clock of events",
            "steps/s",
            unequal,
            UNEQUAL,
            timed=False,
        ),
    )
}


def described() -> Iterator[dict[str, Any]]:
    """Description of each part, which the gate needs to compare two revisions."""
    for part in PARTS.values():
        yield {name: getattr(part, name) for name in ("name", "about", "unit", "better", "timed", "configuration")}
