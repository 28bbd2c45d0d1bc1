"""Waits for all ends of a process at once."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence

from tianji.channel.base import Endpoint

SPIN_NS = 50_000
"""How long to look before sleeping, where the last waits were short. Waking costs about as much on both sides."""
SHORT_NS = 200_000
"""A wait that was over so soon makes looking first worth while next time."""


class Waiter:
    """Blocks until one of its ends has something to take in.

    Where waits are long, it sleeps at once. Where the other side is about to answer anyway, it looks for `SPIN_NS` first,
    which spares both sides a system call and the scheduler's delay; a process with one core to run on never does.
    """

    def __init__(self, ends: Sequence[Endpoint]) -> None:
        self._ends = tuple(ends)
        self._poll = select.epoll()
        for end in self._ends:
            for descriptor in end.descriptors:
                self._poll.register(descriptor, select.EPOLLIN)
        self._may_spin = len(os.sched_getaffinity(0)) > 1
        self._last_ns = SHORT_NS

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait; False when the time is over and nothing came."""
        clock = time.monotonic_ns
        begin = clock()
        deadline = None if timeout_s is None else begin + int(timeout_s * 1e9)
        came = self._spin(begin, deadline) if self._may_spin and self._last_ns < SHORT_NS else False
        while not came:
            # Every end sends what it kept back, also where the first one has something already.
            came = sum(end.arm() for end in self._ends) > 0
            if not came:
                left = None if deadline is None else max(0.0, (deadline - clock()) / 1e9)
                self._poll.poll(left)
            for end in self._ends:
                end.disarm()
            came = came or any(end.pending() for end in self._ends)
            if deadline is not None and clock() >= deadline:
                break
        self._last_ns = clock() - begin
        return came

    def _spin(self, begin: int, deadline: int | None) -> bool:
        """Look again and again, for a short while."""
        until = begin + SPIN_NS if deadline is None else min(begin + SPIN_NS, deadline)
        for end in self._ends:
            end.flush()
        while time.monotonic_ns() < until:
            for end in self._ends:
                if end.pending():
                    return True
        return False

    def close(self) -> None:
        """Free the descriptor."""
        self._poll.close()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
