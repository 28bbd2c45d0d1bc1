"""What a supervisor tells its listener about the roles of a run, and the errors with which it ends."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tianji.disciplines.auto import Choice
from tianji.messages import FromRole


class RoleFailed(RuntimeError):
    """A role's process failed, vanished or did not answer in time.

    Parameters
    ----------
    text
        the role and the reason, in one line.
    trace
        traceback of the process that failed, if it sent one.
    """

    def __init__(self, text: str, trace: str = "") -> None:
        super().__init__(text)
        self.trace = trace


class CoreLost(RoleFailed):
    """The process of a learner or of the Root vanished, so that the roles connected to it cannot continue."""


class Restarted(Struct, frozen=True):
    """From the supervisor: a role's process died of this cause, and is restarted after a while."""

    role: str
    cause: str
    after_s: float
    at_ns: int


class Trouble(Struct, frozen=True):
    """From the supervisor: a warning about a role. The run continues."""

    role: str
    text: str
    at_ns: int


class Evaluated(Struct, frozen=True):
    """From the process that evaluates beside training: greedy returns of a snapshot."""

    version: int
    steps: int
    returns: tuple[float, ...]
    at_ns: int


Heard = FromRole | Restarted | Trouble | Choice | Evaluated
"""Messages that a listener receives."""
Listener = Callable[[Heard], str | None]
"""Function that receives messages. If it returns a reason, the run ends."""
