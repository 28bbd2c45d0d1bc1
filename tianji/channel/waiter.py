"""Waits for all ends of a process at once."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from tianji.channel.base import Endpoint


class Waiter:
    """Blocks until one of its ends has something to take in. Never looks twice without sleeping in between."""

    def __init__(self, ends: Sequence[Endpoint]) -> None:
        self._ends = tuple(ends)
        self._poll = select.epoll()
        self._of: dict[int, Endpoint] = {}
        for end in self._ends:
            for descriptor in end.descriptors:
                self._poll.register(descriptor, select.EPOLLIN)
                self._of[descriptor] = end
        self._silent = [end for end in self._ends if not end.descriptors]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait; False when the time is over and nothing came."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # Every end sends what it kept back, also where the first one has something already.
            came = sum(end.arm() for end in self._ends) > 0
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            rung = [] if came else self._poll.poll(left)
            for end in self._ends:
                end.disarm()
            # What woke us may have been for the ends themselves: a late ring, or a peer's handshake. Ends that did not ring had
            # nothing when they were armed, and nobody has touched them since.
            if came or any(end.pending() for end in (*(self._of[fd] for fd, _ in rung), *self._silent)):
                return True
            if left is not None and not left:
                return False

    def close(self) -> None:
        """Free the descriptor."""
        self._poll.close()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
