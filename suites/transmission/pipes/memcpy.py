"""The ceiling of one host: the same slots, one copy in, the same reading, and bare counters that both sides watch.

Explorers wait for nothing but memory here, so no more processes run than there are cores: each copies for several explorers,
into the slots of each. With one explorer that is the explorer itself.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer, sending
from suites.transmission.pipe import Message, Pipe, Samples, Weights, payload
from suites.transmission.traffic import group, in_flight

LINE = 8
"""Counters stand a cache line apart: 8 words."""


class Memcpy(Pipe):
    """Memory itself."""

    name, title = "memcpy", "memory"
    testbeds = ("local",)

    @property
    def _processes(self) -> int:
        return min(self.setting.explorers, self.setting.cores)

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        explorers, processes = self.setting.explorers, self._processes
        slots, together = in_flight(size_bytes, explorers), group(size_bytes)
        counters = memoryview(mmap.mmap(-1, mmap.PAGESIZE * (1 + 2 * explorers * LINE * 8 // mmap.PAGESIZE))).cast("q")
        memory = mmap.mmap(-1, explorers * slots * size_bytes)
        bodies = [
            [np.frombuffer(memory, np.uint64, size_bytes // 8, (e * slots + n) * size_bytes) for n in range(slots)]
            for e in range(explorers)
        ]

        arenas = [np.frombuffer(memory, np.uint64, slots * size_bytes // 8, e * slots * size_bytes) for e in range(explorers)]

        @contextmanager
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            mine = range(number, explorers, processes)
            lots = [(arenas[e], 2 * e * LINE) for e in mine]
            yield explorer_of(lots, counters, np.tile(payload(size_bytes), together), slots, alone=processes == 1)

        with Crew(replace(self.setting, explorers=processes), sending(explorer)) as crew:
            crew.direct()
            crew.wait_ready()
            yield _Samples(crew, bodies, counters, alone=processes == 1)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        explorers, processes = self.setting.explorers, self._processes
        counters = memoryview(mmap.mmap(-1, mmap.PAGESIZE * (1 + (1 + processes) * LINE * 8 // mmap.PAGESIZE))).cast("q")
        board = np.frombuffer(mmap.mmap(-1, size_bytes), np.float32)

        def reader(number: int, line: Connection) -> None:
            outs = [np.zeros(size_bytes // 4, np.float32) for _ in range(number, explorers, processes)]
            version = 0
            while True:
                while counters[0] == version:
                    os.sched_yield()
                version += 1
                for out in outs:
                    out[:] = board
                counters[(1 + number) * LINE] = version

        with Crew(replace(self.setting, explorers=processes), reader):
            yield _Weights(board, counters, processes)


def explorer_of(
    lots: Sequence[tuple[Message, int]], counters: memoryview, source: Message, slots: int, *, alone: bool
) -> Explorer:
    """The copying end: arenas, each with where its counters are, are filled from a source of several messages."""
    words = len(lots[0][0]) // slots
    together = len(source) // words
    sent = 0

    def send(number: int) -> None:
        nonlocal sent
        until = sent + number
        while sent < until:
            # Slots lie side by side: so many are filled by one copy, as far as the arena goes.
            first = sent % slots
            count = min(together, until - sent, slots - first)
            sent += count
            for arena, at in lots:
                while sent - counters[at + LINE] > slots:
                    if not alone:
                        os.sched_yield()
                arena[first * words : (first + count) * words] = source[: count * words]
                counters[at] = sent

    def round_trip() -> None:
        send(1)
        while counters[lots[0][1] + LINE] < sent:
            pass

    return Explorer(send, round_trip)


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, bodies: Sequence[Sequence[Message]], counters: memoryview, *, alone: bool) -> None:
        super().__init__(crew, bodies[0][0].nbytes)
        self._bodies, self._counters, self._alone = bodies, counters, alone
        self._taken = [0] * len(bodies)
        self._explorer = self._count = 0

    def receive(self) -> Sequence[Message]:
        explorer, explorers = self._explorer, len(self._bodies)
        while True:
            taken = self._taken[explorer]
            if (count := self._counters[2 * explorer * LINE] - taken) > 0:
                break
            explorer = (explorer + 1) % explorers
            if not self._alone and explorer == self._explorer:
                os.sched_yield()
        bodies = self._bodies[explorer]
        slots = len(bodies)
        # A few at a time, so that room is made while there is more to read.
        self._explorer, self._count = explorer, min(count, max(1, slots // 8))
        return [bodies[n % slots] for n in range(taken, taken + self._count)]

    def release(self) -> None:
        explorer = self._explorer
        self._taken[explorer] += self._count
        self._counters[(2 * explorer + 1) * LINE] = self._taken[explorer]


class _Weights(Weights):
    def __init__(self, board: NDArray[np.float32], counters: memoryview, readers: int) -> None:
        self._board, self._counters, self._readers = board, counters, readers

    def broadcast(self, version: int, vector: NDArray[np.float32]) -> None:
        self._board[:] = vector
        self._counters[0] = version
        for reader in range(self._readers):
            while self._counters[(1 + reader) * LINE] < version:
                os.sched_yield()
