"""`multiprocessing.Queue` of Python. A thread pickles arrays and sends them through a pipe of the operating system."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suites.transmission.crew import Crew, CrewSamples, Explorer, Follow, followers, sending
from suites.transmission.pipe import Broadcast, Pipe, Samples, payload
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

        def explorer(number: int, address: str) -> Iterator[Explorer]:
            put, source = queue.put, payload(size_bytes)

            def send(number: int) -> None:
                for _ in range(number):
                    put(source)

            def round_trip() -> None:
                put(source)
                answers.get()

            yield Explorer(send, round_trip)

        with _queues([places, 0]) as (queue, answers), Crew(self.setting, sending(explorer)) as crew:
            crew.direct("")
            crew.wait_ready()
            yield CrewSamples(crew, size_bytes, lambda: [queue.get()], answer=lambda: answers.put(None))

    @contextmanager
    def weights(self, size_bytes: int) -> Iterator[Broadcast]:
        def follower(number: int, address: str) -> Iterator[Follow]:
            def follow(out: NDArray[np.float32]) -> None:
                out[:] = queues[number].get()

            yield follow

        def publish(version: int, vector: NDArray[np.float32]) -> None:
            for queue in queues:
                queue.put(vector)

        with (
            _queues([1] * self.setting.explorers) as queues,
            followers(self.setting, size_bytes, follower) as (crew, acknowledgements),
        ):
            crew.direct("")
            crew.wait_ready()
            yield acknowledgements.of(publish)


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
