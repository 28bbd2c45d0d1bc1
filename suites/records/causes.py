"""The cause of a failed run, out of what its processes printed."""

from __future__ import annotations

import re

EXIT = "exit status"
"""Begins the reason of a run whose process said itself why it failed."""
NOISE = re.compile(r"\s|(DEBUG|INFO|WARNING)\b|.*\w+Warning:|\(.*\) ")
"""Lines that are no cause: log lines below an error, warnings, what is indented, and what Ray prefixes with a process."""
ENDED = re.compile(rf".* ended with ({EXIT}|status) -?\d+$")
"""A line of a process about another one, which may have said itself why it ended."""


def cause(error: str | None) -> str:
    """Why a run failed, in one line.

    Parameters
    ----------
    error
        as a manifest has it: the runner's own reason, then the last lines of the run's output. If the reason is only an exit
        status, the last line that is no warning says more.
    """
    reason, *said = (error or "no reason is known").splitlines()
    if not reason.startswith(EXIT):
        return reason
    told = [line for line in reversed(said) if line.strip() and not NOISE.match(line)]
    return next((line for line in told if not ENDED.match(line)), told[0] if told else reason)
