"""Processes that environments started and left behind: found by a mark in their environment, and ended."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TIANJI_RUN"
GRACE_S = 0.5
"""Seconds that leftovers have to end by themselves, as helpers do whose parent has ended."""
PAUSE_S = 0.02


class Leftovers:
    """Descendants of a run's processes, whose environment has a variable with a value of its own."""

    def __init__(self) -> None:
        self.mark = {VARIABLE: secrets.token_hex(16)}
        """Variables for the environment of the run's processes. Whatever these start inherits them."""
        self._text = f"{VARIABLE}={self.mark[VARIABLE]}".encode()

    def end(self) -> int:
        """End all that are left, once the run's own processes have ended, and return how many were killed."""
        deadline = time.monotonic() + GRACE_S
        while (left := list(self._found())) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        return sum(map(self._kill, left))

    def _found(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and self._is_marked(int(entry.name)):
                yield int(entry.name)

    def _is_marked(self, pid: int) -> bool:
        try:
            return self._text in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False  # It has ended, or belongs to another user.

    def _kill(self, pid: int) -> bool:
        """Kill a process, if its number still belongs to a leftover."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            marked = self._is_marked(pid)
            if marked:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return marked
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
