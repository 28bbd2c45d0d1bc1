"""`multiprocessing.Queue`: what Python brings. Arrays are pickled by a thread and cross a pipe of the operating system."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import (
    Acknowledgements,
    Crew,
    CrewSamples,
    CrewWeights,
    Explorer,
    Follower,
    following,
    sending,
)
from suites.transmission.pipe import Message, Pipe, Samples, Weights, payload
from suites.transmission.traffic import in_flight

MOST_PLACES = 2**15 - 1
"""Of a semaphore, where it is smallest (macOS); more than there ever are here."""


class MpQueue(Pipe):
    """One queue to the learner; for weights one to each explorer."""

    name, title = "mp-queue", "multiprocessing.Queue"
    testbeds = ("local",)

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return {"samples": "one queue for all explorers", "weights": "a queue for each"}

    @contextmanager
    def samples(self, size_bytes: int) -> Iterator[Samples]:
        places = min(MOST_PLACES, in_flight(size_bytes, self.setting.explorers) * self.setting.explorers)

        @contextmanager
        def explorer(number: int, address: str) -> Iterator[Explorer]:
            yield _Explorer(queue, answers, size_bytes)

        with _queues([places, 0]) as (queue, answers), Crew(self.setting, sending(explorer)) as crew:
            crew.direct("")
            crew.wait_ready()
            yield _Samples(crew, queue, answers, size_bytes)

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Weights]:
        @contextmanager
        def follower(number: int, address: str) -> Iterator[Follower]:
            yield _Follower(queues[number])

        def publish(version: int, vector: NDArray[np.float32]) -> None:
            for queue in queues:
                queue.put(vector)

        with (
            _queues([1] * self.setting.explorers) as queues,
            Acknowledgements(self.setting.explorers) as acknowledgements,
            Crew(self.setting, following(follower, size_bytes // 4, acknowledgements.fd)) as crew,
        ):
            crew.direct("")
            crew.wait_ready()
            yield CrewWeights(acknowledgements, publish)


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


class _Explorer(Explorer):
    def __init__(self, queue: Queue[Any], answers: Queue[Any], size_bytes: int) -> None:
        self._queue, self._answers, self._source = queue, answers, payload(size_bytes)

    def send(self, number: int) -> None:
        put, source = self._queue.put, self._source
        for _ in range(number):
            put(source)

    def round_trip(self) -> None:
        self._queue.put(self._source)
        self._answers.get()


class _Samples(CrewSamples):
    def __init__(self, crew: Crew, queue: Queue[Any], answers: Queue[Any], size_bytes: int) -> None:
        super().__init__(crew, size_bytes)
        self._queue, self._answers = queue, answers

    def receive(self) -> Sequence[Message]:
        return [self._queue.get()]

    def answer(self) -> None:
        self._answers.put(None)


class _Follower(Follower):
    def __init__(self, queue: Queue[Any]) -> None:
        self._queue = queue

    def follow(self, out: NDArray[np.float32]) -> None:
        out[:] = self._queue.get()
