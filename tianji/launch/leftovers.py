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
LOOK_S = 0.001
"""Seconds between looks at a process that is just starting a program."""
STARTING_S = 2.0
"""Seconds that a process may take to start a program."""


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
        deadline = time.monotonic() + STARTING_S
        try:
            while not (environment := Path(f"/proc/{pid}/environ").read_bytes()) and _has_another(pid):
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_S)
            return self._text in environment.split(b"\0")
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


def _has_another(pid: int) -> bool:
    """Whether a process whose environment was read as empty has one all the same (`man 5 proc`, fields 23, 50 and 51).

    That is so in the middle of `execve`, when it has memory but no addresses of an environment yet, and just after it. A
    kernel thread and a process that has ended have no memory; an environment that is empty begins where it ends.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory, begin, end = int(fields[20]), int(fields[47]), int(fields[48])
    return memory > 0 and (end == 0 or end > begin)
