"""Waits for all ends of a process at once."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from tianji.channel.base import Endpoint


class Waiter:
    """Blocks until something has arrived at one of its ends. It always sleeps between two checks."""

    def __init__(self, ends: Sequence[Endpoint]) -> None:
        self._ends = self._heeded = tuple(ends)
        self._poll = select.epoll()
        self._of: dict[int, Endpoint] = {}
        for end in self._ends:
            for descriptor in end.descriptors:
                self._poll.register(descriptor, select.EPOLLIN)
                self._of[descriptor] = end

    def heed(self, ends: Sequence[Endpoint] | None) -> None:
        """Wait for these ends only from now on, or for all if None. Messages at other ends stay there."""
        heeded = self._ends if ends is None else tuple(ends)
        if heeded == self._heeded:
            return
        for descriptor, end in self._of.items():
            if (end in heeded) is not (end in self._heeded):
                self._poll.modify(descriptor, select.EPOLLIN if end in heeded else 0)
        self._heeded = heeded

    def wait(self, timeout_s: float | None = None) -> Sequence[Endpoint]:
        """Wait, and return the ends at which something arrived. The result is empty after a timeout."""
        ends = self._heeded
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # All ends are armed, so that each sends its held messages, even if the first one has something already.
            came = [end for end in ends if end.arm()]
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            rung = [] if came else self._poll.poll(self._at_most(left))
            for end in ends:
                end.disarm()
            # A wake-up may concern an end itself, for instance a late ring or a handshake. Ends that did not ring had nothing
            # when they were armed.
            rang = [self._of[fd] for fd, _ in rung]
            found = came or [end for end in (*rang, *(end for end in ends if not end.descriptors)) if end.pending()]
            if found or (left is not None and not left):
                return found

    def _at_most(self, left_s: float | None) -> float | None:
        """Seconds to sleep: until the end of the wait, or until an end is due."""
        due = [end.due_s for end in self._heeded if end.due_s is not None]
        if not due:
            return left_s
        until = max(0.0, min(due) - time.monotonic())
        return until if left_s is None else min(left_s, until)

    def close(self) -> None:
        """Free the descriptor."""
        self._poll.close()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
