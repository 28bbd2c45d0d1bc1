"""When roles save their state: soon after the start, and then so rarely that saving costs little time."""

from __future__ import annotations

import math
from collections.abc import Collection

FIRST_SAVE_S = 2.0
"""Seconds from the start to the first save."""
SAVING_SHARE = 0.01
"""Share of the time that roles may spend on saving their state."""


class Saves:
    """Schedule of saves. It is pure: the caller gives the time, in seconds."""

    def __init__(self) -> None:
        self._roles: frozenset[str] = frozenset()
        self._every_s: float | None = None
        self._saving: set[str] = set()
        """Roles that were asked and have not answered."""
        self._took_ns = 0
        """Longest time that a role took since all were last asked."""
        self.due_at = math.inf
        """Time at which to ask all of them."""
        self.longest_ns = 0
        """Longest save so far."""

    def begin(self, roles: Collection[str], every_s: float | None, now: float) -> None:
        """Plan the first save of a run that begins.

        Parameters
        ----------
        roles
            names of the roles that save their state on request.
        every_s
            minimum seconds between two saves. None: none are asked for.
        """
        self._roles, self._every_s = frozenset(roles), every_s
        if every_s is not None and self._roles:
            self.due_at = now + min(FIRST_SAVE_S, every_s)

    def ask(self, now: float) -> frozenset[str]:
        """Roles to ask for a save now."""
        if now < self.due_at:
            return frozenset()
        self.due_at, self._took_ns = math.inf, 0
        self._saving = set(self._roles)
        return self._roles

    def saved(self, role: str, took_ns: int, now: float) -> None:
        """Record that a role saved its state. The next save is planned when all have."""
        self._saving.discard(role)
        self._took_ns = max(self._took_ns, took_ns)
        self.longest_ns = max(self.longest_ns, took_ns)
        if not self._saving and self._every_s is not None:
            self.due_at = now + max(self._every_s, self._took_ns / 1e9 / SAVING_SHARE)

    def end(self) -> None:
        """Plan no more saves."""
        self._every_s, self.due_at = None, math.inf
