"""Bound on the snapshots that are on their way from a learner to its launcher."""

from __future__ import annotations

from tianji.messages import Snapshot
from tianji.telemetry import Sink

IN_FLIGHT_BYTES = 64 << 20
"""Most bytes of snapshots that the launcher has not taken. Two snapshots are always allowed."""
LEAST = 2


class Snapshots:
    """Sends snapshots, at most so many ahead of the launcher. Beyond that the newest one waits, and replaces an older one.

    Parameters
    ----------
    send
        sends a message to the launcher, which answers each snapshot with `Taken`.
    most_bytes
        most bytes that are sent and not taken.
    """

    def __init__(self, send: Sink, most_bytes: int = IN_FLIGHT_BYTES) -> None:
        self._send, self._most_bytes = send, most_bytes
        self._in_flight = 0
        self._waiting: Snapshot | None = None
        self.dropped = 0
        """Snapshots that were replaced by newer ones."""

    def send(self, snapshot: Snapshot) -> None:
        """Send a snapshot, or keep it until the launcher has taken earlier ones."""
        if self._in_flight >= max(LEAST, self._most_bytes // max(1, len(snapshot.weights))):
            self.dropped += self._waiting is not None
            self._waiting = snapshot
            return
        self._in_flight += 1
        self._send(snapshot)

    def taken(self) -> None:
        """Record that the launcher has taken one."""
        self._in_flight = max(0, self._in_flight - 1)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.send(waiting)

    def finish(self) -> None:
        """Send what waits, because the learner ends."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._send(waiting)
