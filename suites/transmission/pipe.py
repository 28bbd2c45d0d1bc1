"""Contract of a pipe: one system's way of moving messages between explorers and a learner.

A pipe is opened in the process of its cell, which is the learner. It starts its own explorers for one message size at a time.
The meter (`suites.transmission.cell`) decides how many messages to move, reads every byte and takes the time. Each pipe uses
its best calling pattern, and all keep the same number of messages in flight.

To add one, subclass `Pipe` and name it in the entry-point group `tianji_bench.pipes` of your own package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from programs.registry import Registry
from tianji.launch.node import Node

Message = NDArray[np.uint64]


@dataclass(frozen=True)
class Setting:
    """Setting in which a pipe runs."""

    explorers: int
    learner: Node
    """The host of the learner, and of the process that opens the pipe."""
    beyond: Node
    """The host of the explorers: the same one, or another."""
    sizes: tuple[int, ...]
    """Message sizes in bytes."""
    folder: Path
    """Folder for sockets, with a short path."""
    cores: int

    @property
    def apart(self) -> bool:
        """Whether a network lies in between."""
        return self.learner != self.beyond


class Samples(Protocol):
    """The learner's end while explorers stand ready to send messages of one size."""

    def begin(self, each: int, /) -> None:
        """Have every explorer send that many messages more, each from a copy of `payload(size)`."""

    def receive(self) -> Sequence[Message]:
        """Wait for messages: one or more, or pieces of them, to be read in place."""

    def release(self) -> None:
        """Release the messages received last, after they were read. Without shared memory there is nothing to do."""

    def round_trips(self, number: int, /) -> Sequence[int]:
        """Nanoseconds from sending a message to knowing that the learner has read it, by explorer 0's clock, one by one.

        Only where there is one explorer.
        """


Broadcast = Callable[[int, NDArray[np.float32]], None]
"""Function that sends a version and its vector to all explorers, and returns when each has its own copy."""


class Pipe(ABC):
    """One way of moving messages."""

    name: str
    title: str
    testbeds: tuple[str, ...] = ("local", "netns")
    """Testbeds on which it is measured: one host, or two."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @classmethod
    def available(cls) -> str | None:
        """Why this pipe cannot run here, in a few words; None when it can."""
        return None

    @classmethod
    def settings(cls) -> dict[str, Any]:
        """How it is used, as plain data for the bundle."""
        return {}

    def start(self) -> None:  # noqa: B027 (most have no daemons)
        """Start what serves all sizes. Set-up, not measured."""

    def stop(self) -> None:  # noqa: B027
        """End it."""

    @abstractmethod
    def samples(self, size_bytes: int) -> AbstractContextManager[Samples]:
        """Bring explorers that send messages of this size."""

    @abstractmethod
    def weights(self, size_bytes: int) -> AbstractContextManager[Broadcast]:
        """Bring explorers that take vectors of this size."""


read = np.add.reduce
"""How every message is read: each byte of it takes part in the sum."""


def payload(size_bytes: int) -> Message:
    """Contents of every message."""
    return np.random.default_rng(0).integers(0, 2**63, size_bytes // 8, dtype=np.uint64)


PIPES: Registry[type[Pipe]] = Registry(
    "tianji_bench.pipes",
    {
        "tianji": "suites.transmission.pipes.tianji:TianJi",
        "tianji-curve": "suites.transmission.pipes.tianji:TianJiCurve",
        "xingtian": "suites.transmission.pipes.xingtian:XingTian",
        "ray-store": "suites.transmission.pipes.ray_store:RayStore",
        "mp-queue": "suites.transmission.pipes.mp_queue:MpQueue",
        "pyzmq": "suites.transmission.pipes.pyzmq:PyZmq",
        "memcpy": "suites.transmission.pipes.memcpy:Memcpy",
        "raw-tcp": "suites.transmission.pipes.raw_tcp:RawTcp",
        "tcp-kept": "suites.transmission.pipes.kept_tcp:KeptTcp",
        "libzmq": "suites.transmission.pipes.libzmq:LibZmq",
        "libzmq-curve": "suites.transmission.pipes.libzmq:LibZmqCurve",
    },
    "pipe",
)
