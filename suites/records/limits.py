"""Limits of what a bundle may hold, so that reading an untrusted one is safe.

Types have bounds. Files must be regular, and their size is checked before they are read. Folders are walked without following
links. The bounds are far above what any run has recorded.
"""

from __future__ import annotations

import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
from msgspec import Meta

from programs.characters import UNSEEN, one_line

MEBIBYTE = 1 << 20
DOCUMENT_BYTES = MEBIBYTE
"""Largest `bundle.json`, `certificate.json` and similar files."""
EVENTS_BYTES, EVENT_BYTES = 32 * MEBIBYTE, MEBIBYTE // 4
"""Largest `events.jsonl`, and its longest line."""
RUN_VALUES, ALL_VALUES = 1_000_000, 40_000_000
"""Values of the events of one run, and of all runs that are read together."""
FILES, DEPTH = 200_000, 16
"""Entries of a folder with all folders below, and how deep these lie."""
NESTED = 32
"""Levels of a configuration."""

Name = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9-]*\Z", max_length=64)]
"""Name of a suite, workload, system or session, which becomes part of file names."""
Key = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", max_length=64)]
"""Name of an option."""
Text = Annotated[str, Meta(pattern=rf"\A[^{UNSEEN}]*\Z", max_length=300)]
"""One line: a title, a role."""
Prose = Annotated[str, Meta(max_length=100_000)]
"""Output of a program. It is escaped where it is shown."""
Place = Annotated[str, Meta(pattern=r"\A\w[\w-]*(\.[\w-]+)*(/\w[\w-]*(\.[\w-]+)*)*\Z", max_length=200)]
"""A file below a run's folder."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""Finite, with room to be multiplied."""
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Nanoseconds = Annotated[int, Meta(ge=0, le=2**62)]


class BundleError(Exception):
    """A bundle breaks the schema; the text is one line that names the file and what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class Room:
    """Number of values that may still be read."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, values: int, place: object) -> None:
        """Count values that were read at a place.

        Raises
        ------
        BundleError
            when they are too many.
        """
        self._left -= values
        if self._left < 0:
            raise BundleError(f"{place}: has more values than are read: at most {self._most:,}")


@contextmanager
def opened(path: Path, most_bytes: int) -> Iterator[BinaryIO]:
    """Open a regular file of at most this size.

    Raises
    ------
    BundleError
        if it is missing or not a regular file. Links are not followed, and opening a pipe does not block.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "is a link, which is not followed" if path.is_symlink() else error.strerror
        raise BundleError(f"{path}: {why}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BundleError(f"{path}: is no regular file")
        if status.st_size > most_bytes:
            raise BundleError(f"{path}: has {status.st_size:,} bytes; at most {most_bytes:,} are read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def contents(path: Path, most_bytes: int = DOCUMENT_BYTES) -> bytes:
    """All of such a file."""
    with opened(path, most_bytes) as file:
        return file.read(most_bytes)


def found(root: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Everything below a folder whose name is wanted, sorted; links to folders are not followed.

    Raises
    ------
    BundleError
        for a folder that is too large or too deep or may not be read, or a wanted name that cannot be shown.
    """
    paths: list[Path] = []
    waiting, entries = [(root, 0)] if root.is_dir() else [], 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(folder)]
        except OSError as error:
            raise BundleError(f"{folder}: {error.strerror}") from None
        entries += len(listed)
        if entries > FILES or depth > DEPTH:
            raise BundleError(f"{root}: is too large or too deep: at most {FILES:,} files, {DEPTH} folders deep, are looked at")
        paths += [folder / name for name, _ in listed if wanted(name)]
        waiting += [(folder / name, depth + 1) for name, is_folder in listed if is_folder]
    for path in paths:
        if re.search(f"[{UNSEEN}]", str(path.relative_to(root))):
            raise BundleError(f"{path}: has characters in its name that cannot be shown")
    return sorted(paths)


def plain(value: Any) -> None:
    """Check data of any form: numbers that are numbers, and not so deep that those who follow it get lost.

    Raises
    ------
    ValueError
        where it is not like that.
    """
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > NESTED:
            raise ValueError(f"more than {NESTED} levels")
        if isinstance(one, int | float) and not abs(one) < 1e300:
            raise ValueError("a number is out of range")
        if isinstance(one, dict):
            waiting += [(each, depth + 1) for each in one.values()]
        elif isinstance(one, list):
            waiting += [(each, depth + 1) for each in one]


@contextmanager
def memory(more_bytes: int) -> Iterator[None]:
    """Let the process take so much memory beside what it has: a `MemoryError` is what comes of more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    told = re.search(r"^VmData:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert told is not None
    wanted = 1024 * int(told[1]) + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *(one for one in (soft, hard) if one >= 0)]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def blamed(what: object) -> Iterator[None]:
    """Say in one line what is to blame where data of the right form make no sense: what is computed with it fails.

    Raises
    ------
    BundleError
        in the place of what such data lead to. Numbers that come to nothing or to infinity are among it.
    """
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        said = str(error)
        why = said if isinstance(error, ValueError) and said else f"{type(error).__name__} {said}"
        raise BundleError(why if said.startswith(str(what)) else f"{what}: nothing can be made of it: {why}") from error
