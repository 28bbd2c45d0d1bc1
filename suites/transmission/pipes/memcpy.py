"""The ceiling of one host: the same slots, one copy in, the same reads, and bare counters for synchronisation.

Explorers only wait for memory here, so there are no more processes than cores: each copies for several explorers, into the
slots of each.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer, sending
from suites.transmission.pipe import Broadcast, Message, Pipe, Samples, payload
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
        counters = _counters(2 * explorers)
        memory = mmap.mmap(-1, explorers * slots * size_bytes)
        arenas = [np.frombuffer(memory, np.uint64, slots * size_bytes // 8, e * slots * size_bytes) for e in range(explorers)]
        words, alone = size_bytes // 8, processes == 1

        def explorer(number: int, address: str) -> Iterator[Explorer]:
            lots = [(arenas[e], 2 * e * LINE) for e in range(number, explorers, processes)]
            source, sent, heard = np.tile(payload(size_bytes), together), 0, lots[0][1] + LINE

            def send(number: int) -> None:
                nonlocal sent
                until = sent + number
                while sent < until:
                    # Adjacent slots are filled by one copy, up to the end of the arena.
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
                while counters[heard] < sent:
                    pass

            yield Explorer(send, round_trip)

        with Crew(replace(self.setting, explorers=processes), sending(explorer)) as crew:
            crew.direct("")
            crew.wait_ready()
            receive, release = _receiving([list(arena.reshape(slots, words)) for arena in arenas], counters, alone)
            yield CrewSamples(crew, size_bytes, receive, release)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        explorers, processes = self.setting.explorers, self._processes
        counters = _counters(1 + processes)
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

        def broadcast(version: int, vector: NDArray[np.float32]) -> None:
            board[:] = vector
            counters[0] = version
            for number in range(processes):
                while counters[(1 + number) * LINE] < version:
                    os.sched_yield()

        with Crew(replace(self.setting, explorers=processes), reader):
            yield broadcast


def _counters(number: int) -> memoryview:
    """So many in shared memory, each in a line of its own."""
    return memoryview(mmap.mmap(-1, mmap.PAGESIZE * (1 + number * LINE * 8 // mmap.PAGESIZE))).cast("q")


def _receiving(
    bodies: Sequence[Sequence[Message]], counters: memoryview, alone: bool
) -> tuple[Callable[[], Sequence[Message]], Callable[[], None]]:
    """What waits for messages of any explorer in turn, and what gives their slots back."""
    slots, explorers = len(bodies[0]), len(bodies)
    taken = [0] * explorers
    current = count = 0

    def receive() -> Sequence[Message]:
        nonlocal current, count
        explorer = current
        while not (came := counters[2 * explorer * LINE] - taken[explorer]) > 0:
            explorer = (explorer + 1) % explorers
            if not alone and explorer == current:
                os.sched_yield()
        # A few at a time, so that room is made while there is more to read.
        current, count = explorer, min(came, max(1, slots // 8))
        lot, first = bodies[explorer], taken[explorer]
        return [lot[n % slots] for n in range(first, first + count)]

    def release() -> None:
        taken[current] += count
        counters[(2 * current + 1) * LINE] = taken[current]

    return receive, release
