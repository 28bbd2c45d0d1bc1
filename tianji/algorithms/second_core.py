"""A second thread for a learner's large matrix products. It sleeps between them.

NumPy lets other threads run while it computes, so a learner with a core to spare can do two products at once. A BLAS library
with two threads would do so too, but its threads spin between products, on the core that an actor needs.

What the helper has not begun is computed by the thread that asks for the result, so a helper without a core holds up nobody.
What it has begun is waited for. Either thread does the same operations, so results are the same bits.

`concurrent.futures` does the same with more locks: docs/notebook/2026-11-speed.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

WORTH = 10_000_000
"""Fewest multiply-adds that are handed over. They take a core about 200 microseconds. A sleeping thread needs up to 100
microseconds to begin, if an actor uses its core."""


class Later(Generic[T]):
    """Result of a function. The first thread that calls `compute` or `result` computes it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._claim, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self._value: T
        self._error: BaseException | None = None

    def compute(self) -> None:
        """Compute it, unless a thread has begun."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._value = self._work()
        except BaseException as error:  # Whoever asks for the result raises it.
            self._error = error
        self._done.release()

    def result(self) -> T:
        """The result, or raise what the function raised. To be called once."""
        self.compute()
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class Helper:
    """Thread that computes one function after another. It starts with the first one, and ends with the process."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Later[Any]] = SimpleQueue()
        self._started = False

    def do(self, work: Callable[[], T]) -> Later[T]:
        """Have a function computed, after those before it, unless its result is asked for first."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._serve, name="helper", daemon=True).start()
        later = Later(work)
        self._queue.put(later)
        return later

    def _serve(self) -> None:
        while True:
            self._queue.get().compute()
