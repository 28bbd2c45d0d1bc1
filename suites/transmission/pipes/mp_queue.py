"""`multiprocessing.Queue`: what Python brings. Arrays are pickled by a thread and cross a pipe of the operating system."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Acknowledgements, Crew, CrewPipe, CrewSamples, CrewWeights, Explorer, Follow
from suites.transmission.pipe import Message, Samples, Weights, payload
from suites.transmission.traffic import in_flight

MOST_PLACES = 2**15 - 1
"""Of a semaphore, where it is smallest (macOS); more than there ever are here."""


class MpQueue(CrewPipe):
    """One queue to the learner; for weights one to each explorer."""

    name, title = "mp-queue", "multiprocessing.Queue"
    testbeds = ("local",)
    _queues: list[Queue[Any]]

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"samples": "one queue for all explorers", "weights": "a queue for each"}

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        places = min(MOST_PLACES, in_flight(size_bytes, self.setting.explorers) * self.setting.explorers)
        with _queues([places, 0]) as self._queues, super().samples(size_bytes) as end:
            yield end

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        with _queues([1] * self.setting.explorers) as self._queues, super().weights(size_bytes) as end:
            yield end

    @contextmanager
    def explorer(self, number: int, address: str, size_bytes: int) -> Iterator[Explorer]:
        (queue, answers), source = self._queues, payload(size_bytes)

        def send(number: int) -> None:
            for _ in range(number):
                queue.put(source)

        def round_trip() -> None:
            queue.put(source)
            answers.get()

        yield Explorer(send, round_trip)

    @contextmanager
    def learner(self, crew: Crew, size_bytes: int) -> Iterator[Samples]:
        crew.direct()
        crew.wait_ready()
        queue, answers = self._queues
        yield _Samples(crew, queue, answers, size_bytes)

    @contextmanager
    def follower(self, number: int, address: str, size_bytes: int) -> Iterator[Follow]:
        def follow(out: NDArray[np.float32]) -> None:
            out[:] = self._queues[number].get()

        yield follow

    @contextmanager
    def publisher(self, crew: Crew, told: Acknowledgements, size_bytes: int) -> Iterator[Weights]:
        def publish(version: int, vector: NDArray[np.float32]) -> None:
            for queue in self._queues:
                queue.put(vector)

        crew.direct()
        crew.wait_ready()
        yield CrewWeights(told, publish)


@contextmanager
def _queues(places: Sequence[int]) -> Iterator[list[Queue[Any]]]:
    """Queues with so many places each; 0: as many as are needed."""
    queues: list[Queue[Any]] = [multiprocessing.get_context("fork").Queue(number) for number in places]
    try:
        yield queues
    except BaseException:
        for queue in queues:
            queue.cancel_join_thread()  # Nobody takes what it still holds.
        raise
    finally:
        for queue in queues:
            queue.close()
            queue.join_thread()


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, queue: Queue[Any], answers: Queue[Any], size_bytes: int) -> None:
        super().__init__(crew, size_bytes)
        self._queue, self._answers = queue, answers

    def receive(self) -> Sequence[Message]:
        return [self._queue.get()]

    def answer(self) -> None:
        self._answers.put(None)
