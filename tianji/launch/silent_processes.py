"""Detection of silent processes: when to ping a process, and when to report that it does not answer."""

from __future__ import annotations

from collections.abc import Iterable


class Silence:
    """Times at which each process was heard and pinged. It is pure: the caller gives the time."""

    def __init__(self) -> None:
        self._heard_at: dict[str, float] = {}
        self._pinged_at: dict[str, float] = {}
        """Time of the ping that each process has not answered yet."""
        self._told: set[str] = set()

    def heard(self, name: str, now: float) -> None:
        """Record a message of a process. Any message answers a ping."""
        self._heard_at[name] = now
        self._pinged_at.pop(name, None)
        self._told.discard(name)

    def look(self, names: Iterable[str], now: float, limit_s: float) -> tuple[list[str], list[str]]:
        """Processes to ping, and processes to report, once each, because they do not answer.

        A process that has nothing to say is quiet and healthy. So only an unanswered ping counts: it is sent after half of the
        limit, and the process is reported when it has been unanswered for the other half.

        Parameters
        ----------
        limit_s
            seconds after which a silent process is reported.
        """
        ping: list[str] = []
        tell: list[str] = []
        for name in names:
            pinged_at = self._pinged_at.get(name)
            if pinged_at is None:
                if now - self._heard_at[name] >= limit_s / 2:
                    self._pinged_at[name] = now
                    ping.append(name)
            elif now - pinged_at >= limit_s / 2 and name not in self._told:
                self._told.add(name)
                tell.append(name)
        return ping, tell
