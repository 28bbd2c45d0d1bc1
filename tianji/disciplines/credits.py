"""Account of credit: how much each actor holds, and which slots wait to be returned.

Every operation takes time logarithmic in the number of actors.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from tianji.messages import SlotRef


class Credits:
    """Credit of the actors of one learner. Slots are returned first to the actor that holds the least.

    Parameters
    ----------
    producers, slots
        number of actors, and of slots of each.
    first
        slots that each actor may use from the start. The others wait here.
    """

    def __init__(self, producers: int, slots: int, first: int) -> None:
        self._slots = slots
        self._held = [first] * producers
        self._serial = count()
        self._idle: list[deque[tuple[int, SlotRef]]] = [deque() for _ in range(producers)]
        self._queue: list[tuple[int, int, int]] = []
        """Heap of (credit held, serial of the oldest idle slot, arena). Outdated entries are skipped."""
        self.idle = 0
        """Number of slots that wait here."""
        for number in range(first, slots):
            for arena in range(producers):
                self.reclaim(SlotRef(arena, number))

    def waiting(self) -> list[SlotRef]:
        """All slots that wait here."""
        return [slot for slots in self._idle for _, slot in slots]

    def held(self, arena: int) -> int:
        """Credit of this actor, in chunks."""
        return self._held[arena]

    def spend(self, arena: int) -> None:
        """Count a chunk that arrived from this actor."""
        self._held[arena] -= 1
        self._enter(arena)

    def reclaim(self, slot: SlotRef) -> None:
        """Take back a slot that is no longer read."""
        self._idle[slot.arena].append((next(self._serial), slot))
        self.idle += 1
        if len(self._idle[slot.arena]) == 1:
            self._enter(slot.arena)

    def grant(self) -> SlotRef:
        """Return the oldest slot of an actor that holds the least credit. `IndexError` if no slot waits."""
        while self._queue[0] != self._entry(self._queue[0][2]):
            heapq.heappop(self._queue)
        arena = heapq.heappop(self._queue)[2]
        _, slot = self._idle[arena].popleft()
        self.idle -= 1
        self._held[arena] += 1
        self._enter(arena)
        return slot

    def someone_waits(self, wanted: int = 1) -> bool:
        """Whether some actor has less credit than `wanted` while one of its slots waits here."""
        while self._queue and self._queue[0] != self._entry(self._queue[0][2]):
            heapq.heappop(self._queue)
        return bool(self._queue) and self._queue[0][0] < wanted

    def recount(self, arena: int, read: int) -> int:
        """Count again after an actor's process died. Its successor gets all slots but those here and the `read` being read.

        Returns
        -------
        int
            change of the actor's credit.
        """
        before, self._held[arena] = self._held[arena], self._slots - read - len(self._idle[arena])
        self._enter(arena)
        return self._held[arena] - before

    def _entry(self, arena: int) -> tuple[int, int, int] | None:
        idle = self._idle[arena]
        return (self._held[arena], idle[0][0], arena) if idle else None

    def _enter(self, arena: int) -> None:
        """Add an actor's current entry to the heap."""
        if (entry := self._entry(arena)) is not None:
            heapq.heappush(self._queue, entry)
            if len(self._queue) > 4 * len(self._held) + 64:
                self._queue = [entry for arena in range(len(self._held)) if (entry := self._entry(arena)) is not None]
                heapq.heapify(self._queue)
