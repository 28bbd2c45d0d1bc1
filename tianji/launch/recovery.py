"""What a supervisor may do about processes that die or do not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BACKOFF_S, BACKOFF_MAX_S = 0.25, 8.0
"""Seconds before the first restart of a role, and the most. Each further restart waits twice as long."""


def backoff_s(earlier: int) -> float:
    """Seconds to wait before a restart, after `earlier` earlier restarts of the role."""
    return min(BACKOFF_S * 2.0**earlier, BACKOFF_MAX_S)


@dataclass
class Recovery:
    """Permitted restarts and saves of a run."""

    respawn: Callable[[str, int, int, dict[str, str]], None] | None = None
    """Function that restarts a role, from its name, its number of earlier processes, their environment steps, and addresses."""
    replaceable: frozenset[str] = frozenset()
    """Roles without which others can continue for a while."""
    restarts: int = 0
    """Most restarts of each role."""
    savers: frozenset[str] = frozenset()
    """Roles that save their state on request."""
    save_every_s: float | None = None
    silence_s: float | None = None
    """Seconds without an answer after which a role is reported; None: no check."""
    replace_silent: bool = False
    """Whether a silent role that can be restarted is killed."""
    doing: Callable[[str], str | None] = lambda name: None
    """Function that says in words which call into an environment a process is in. None: in none, or it is not known."""
