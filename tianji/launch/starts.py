"""Processes that start: whether they get on, and which call into an environment holds one up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LIMIT_S = 120.0
"""Seconds that a process may take to start without getting on. Each environment that it has made or reset is progress."""
PATIENCE_S = 10.0
"""Seconds after which a call into an environment is reported."""
LOOK_S = 0.5
"""Seconds between two looks."""


@dataclass
class _Start:
    since: float
    """Time at which it last got on."""
    doing: str | None = None
    """Its call into an environment, in words."""
    told: bool = False


class Starts:
    """Processes that have not said hello yet. It is pure: the caller gives the time.

    Parameters
    ----------
    call_limit_s
        seconds that one call into an environment may take. None: as long as `LIMIT_S`.
    """

    def __init__(self, call_limit_s: float | None) -> None:
        self._call_limit_s = call_limit_s
        self._starting: dict[str, _Start] = {}

    def begin(self, names: Iterable[str], now: float) -> None:
        """Record that these processes start."""
        self._starting.update((name, _Start(now)) for name in names)

    def greeted(self, name: str) -> None:
        """Record that a process has started, or has ended."""
        self._starting.pop(name, None)

    @property
    def names(self) -> set[str]:
        """Processes that have not started."""
        return set(self._starting)

    def look(self, doing: Mapping[str, str | None], now: float) -> tuple[dict[str, str], dict[str, str]]:
        """Processes to report once, because a call takes long, and those that are given up: the reason in words by name.

        Parameters
        ----------
        doing
            the call into an environment of each process in words. None: there is none, or it is not known.
        """
        slow, stuck = {}, {}
        for name, start in self._starting.items():
            what = doing.get(name)
            if what != start.doing:
                start.doing, start.since, start.told = what, now, False
            passed = now - start.since
            if what is not None and self._call_limit_s is not None and passed >= self._call_limit_s:
                stuck[name] = f"{what} has not returned for {self._call_limit_s:g} s (silence_seconds)"
            elif passed >= LIMIT_S:
                stuck[name] = f"{what or 'it'} did not get on within {LIMIT_S:.0f} s"
            elif what is not None and passed >= PATIENCE_S and not start.told:
                start.told = True
                slow[name] = f"{what} has not returned for {passed:.0f} s"
        for name in stuck:
            del self._starting[name]
        return slow, stuck
