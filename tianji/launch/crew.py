"""Interface through which a supervisor controls the processes of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection


class Crew(ABC):
    """Processes of a run by name. A name may be started again when its process has ended."""

    @property
    @abstractmethod
    def descriptors(self) -> list[int]:
        """Descriptors that become readable when a process ends."""

    @abstractmethod
    def ended(self) -> list[tuple[str, str, bool]]:
        """Processes that ended since the last call: name, exit status in words, and whether they ended by themselves.

        The last messages of a process that ended by itself may still be in flight.
        """

    @abstractmethod
    def kill(self, name: str) -> None:
        """Kill a process."""

    @abstractmethod
    def end(self, orderly: Collection[str]) -> Collection[str]:
        """End all processes: those named end by themselves, the others are killed.

        Returns
        -------
        collection of str
            those of the named processes that did not end by themselves.
        """
