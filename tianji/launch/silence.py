"""Detection of silent processes: when to ping a process, and when to report that it does not answer."""

from __future__ import annotations

import math
from collections.abc import Iterable


class Silence:
    """Times at which each process was heard. It is pure: the caller gives the time."""

    def __init__(self) -> None:
        self._heard_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._told: set[str] = set()

    def heard(self, name: str, now: float) -> None:
        """Record a message of a process."""
        self._heard_at[name] = now
        self._told.discard(name)

    def look(self, names: Iterable[str], now: float, limit_s: float) -> tuple[list[str], list[str]]:
        """Processes to ping, and processes to report, once each, because they do not answer.

        Parameters
        ----------
        limit_s
            seconds after which a silent process is reported. It is pinged after half of that time.
        """
        ask: list[str] = []
        tell: list[str] = []
        for name in names:
            quiet_s = now - self._heard_at[name]
            if quiet_s < limit_s / 2:
                continue
            if now - self._asked_at.get(name, -math.inf) > limit_s:
                self._asked_at[name] = now
                ask.append(name)
            elif quiet_s >= limit_s and name not in self._told:
                self._told.add(name)
                tell.append(name)
        return ask, tell
