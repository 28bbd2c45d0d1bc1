"""The ceiling of a network for who does a channel's work: every message is written into a slot, and lands in one.

`raw-tcp` sends the same bytes over and over and keeps nothing. Here a sender writes each message into the next of its slots and
sends it from there, and the learner receives it into the next of as many. Messages share system calls as there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from suites.transmission.pipe import Message, payload
from suites.transmission.pipes.raw_tcp import RawTcp
from suites.transmission.pipes.units import UNIT_BYTES
from suites.transmission.traffic import in_flight


class KeptTcp(RawTcp):
    """TCP with slots on both sides."""

    name, title = "tcp-kept", "TCP with slots"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        return super().settings() | {"slots": "as many as messages may be under way"}

    def _slots(self, size_bytes: int) -> Message:
        """Slots of one side of one connection, [slots, words]. They are touched, so that no page is new when they are used."""
        return np.ones((in_flight(size_bytes, self.setting.explorers), size_bytes // 8), np.uint64)

    def _sender(self, connection: socket.socket, size_bytes: int) -> Callable[[int], None]:
        source, slots, at = payload(size_bytes), self._slots(size_bytes), 0
        together = max(1, UNIT_BYTES // size_bytes)

        def send(number: int) -> None:
            nonlocal at
            while number:
                few = slots[at : at + min(number, together)]
                few[:] = source
                connection.sendall(few.data.cast("B"))
                number -= len(few)
                at = (at + len(few)) % len(slots)

        return send

    def _landing(self, size_bytes: int) -> Message:
        return self._slots(size_bytes)
