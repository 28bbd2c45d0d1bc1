"""Times of processes on other hosts, whose monotonic clocks have another origin than the launcher's."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tianji.messages import Episodes, FromRole, Progress, Saved, Snapshot, Started

M = TypeVar("M", bound=FromRole)


class Clocks:
    """Translates times to this host's clock. It is pure: the caller gives the time.

    The distance of two clocks is taken from the message that took the least time to arrive. So a translated time is late by at
    most the shortest way of a message, which is below a millisecond on a local network, and never early.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._offset_ns: dict[str, int] = {}
        """Nanoseconds to add to the times of each process on another host."""

    def greeted(self, name: str, boot: str, at_ns: int, now_ns: int) -> None:
        """Record the greeting of a process, with its host, its time and this host's time."""
        self._offset_ns.pop(name, None)
        if boot and boot != self._own:
            self._offset_ns[name] = now_ns - at_ns

    def translated(self, name: str, message: M, now_ns: int) -> M:
        """The message with times of this host."""
        known = self._offset_ns.get(name)
        if known is None or not isinstance(message, Started | Episodes | Snapshot | Saved | Progress):
            return message
        offset = self._offset_ns[name] = min(known, now_ns - message.at_ns)
        changes = {"at_ns": message.at_ns + offset}
        if isinstance(message, Episodes):
            episodes = [msgspec.structs.replace(one, at_ns=one.at_ns + offset) for one in message.episodes]
            return msgspec.structs.replace(message, episodes=episodes, **changes)
        return msgspec.structs.replace(message, **changes)
