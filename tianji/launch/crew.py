"""Where the processes of a run live: what a supervisor needs to know of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection


class Crew(ABC):
    """Processes by the names of their roles. A name may be started again when its process has ended."""

    @property
    @abstractmethod
    def descriptors(self) -> list[int]:
        """What becomes readable when a process ends."""

    @abstractmethod
    def ended(self) -> list[tuple[str, str, bool]]:
        """Processes that ended since the last call: name, how (`status -9`), and whether by themselves.

        What a process said before it left by itself may still be on its way.
        """

    @abstractmethod
    def end(self, orderly: Collection[str]) -> None:
        """Leave no process: those named end by themselves, the others are killed."""
