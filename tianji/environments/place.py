"""What a process does with its environments at the moment. Its launcher reads it, even if the process hangs or has died."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

DEEDS = ("", "constructor", "reset", "step", "close")
"""What a process can be doing with an environment, by the code in the memory. The first one is nothing."""
CONSTRUCTOR, RESET, STEP, CLOSE = range(1, 5)
BYTES = 8


class Doing(NamedTuple):
    """A call into an environment that has not returned."""

    number: int
    """Number of the environment over all actors."""
    deed: str
    """One of `DEEDS`."""


class Place:
    """Eight bytes in a file that two processes map.

    Parameters
    ----------
    path
        the file, which exists. None: memory of this process, which nobody else reads.
    """

    def __init__(self, path: Path | None = None) -> None:
        memory: mmap.mmap | bytearray = bytearray(BYTES)
        if path is not None:
            with path.open("r+b") as file:
                memory = mmap.mmap(file.fileno(), BYTES)
        self.word = memoryview(memory).cast("q")
        """One number, which `code` makes. 0: no call is under way. Writing it takes some ten nanoseconds."""

    @staticmethod
    def code(number: int, deed: int) -> int:
        """Number for a call into an environment."""
        return number * len(DEEDS) + deed

    def doing(self) -> Doing | None:
        """The call that is under way; None if there is none."""
        number, deed = divmod(self.word[0], len(DEEDS))
        return Doing(number, DEEDS[deed]) if deed else None

    @classmethod
    def made(cls, path: Path) -> Place:
        """Make the file, and map it."""
        path.write_bytes(bytes(BYTES))
        return cls(path)
