"""Who may write: the credit that each actor holds, and the slots that wait to be given back.

Every operation takes time logarithmic in the number of actors.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from tianji.messages import SlotRef


class Credits:
    """Credit of the actors of one learner; slots are given back to the actor that holds the least.

    Parameters
    ----------
    producers, slots
        how many actors there are, and slots of each.
    first
        slots that each may write to from the start; the others wait here.
    """

    def __init__(self, producers: int, slots: int, first: int) -> None:
        self._slots = slots
        self._held = [first] * producers
        self._serial = count()
        self._idle: list[deque[tuple[int, SlotRef]]] = [deque() for _ in range(producers)]
        self._queue: list[tuple[int, int, int]] = []
        """A heap of (credit held, serial of the oldest idle slot, arena); entries that no longer hold are passed over."""
        self.idle = 0
        """Slots that wait here."""
        for number in range(first, slots):
            for arena in range(producers):
                self.reclaim(SlotRef(arena, number))

    def waiting(self) -> list[SlotRef]:
        """All slots that wait here."""
        return [slot for slots in self._idle for _, slot in slots]

    def held(self, arena: int) -> int:
        """Chunks that this actor holds credit for."""
        return self._held[arena]

    def idle_of(self, arena: int) -> int:
        """Slots of this actor that wait here."""
        return len(self._idle[arena])

    def spend(self, arena: int) -> None:
        """A chunk of this actor came."""
        self._held[arena] -= 1
        self._enter(arena)

    def reclaim(self, slot: SlotRef) -> None:
        """Nobody reads this slot any more."""
        self._idle[slot.arena].append((next(self._serial), slot))
        self.idle += 1
        if len(self._idle[slot.arena]) == 1:
            self._enter(slot.arena)

    def grant(self) -> SlotRef:
        """Give a slot back: the oldest of an actor that holds the least credit; `IndexError` where none waits."""
        while self._queue[0] != self._entry(self._queue[0][2]):
            heapq.heappop(self._queue)
        arena = heapq.heappop(self._queue)[2]
        _, slot = self._idle[arena].popleft()
        self.idle -= 1
        self._held[arena] += 1
        self._enter(arena)
        return slot

    def someone_waits(self) -> bool:
        """Whether an actor holds no credit while a slot of its own waits here."""
        while self._queue and self._queue[0] != self._entry(self._queue[0][2]):
            heapq.heappop(self._queue)
        return bool(self._queue) and self._queue[0][0] <= 0

    def recount(self, arena: int, read: int) -> int:
        """A process of this actor was lost: all its slots but `read` that are being read, and those here, are its successor's.

        Returns
        -------
        int
            by how much its credit changed.
        """
        before, self._held[arena] = self._held[arena], self._slots - read - len(self._idle[arena])
        self._enter(arena)
        return self._held[arena] - before

    def _entry(self, arena: int) -> tuple[int, int, int] | None:
        idle = self._idle[arena]
        return (self._held[arena], idle[0][0], arena) if idle else None

    def _enter(self, arena: int) -> None:
        """Note where an actor stands now."""
        if (entry := self._entry(arena)) is not None:
            heapq.heappush(self._queue, entry)
            if len(self._queue) > 4 * len(self._held) + 64:
                self._queue = [entry for arena in range(len(self._held)) if (entry := self._entry(arena)) is not None]
                heapq.heapify(self._queue)
