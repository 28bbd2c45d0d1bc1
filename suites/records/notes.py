"""Notes on sealed sessions in `sessions.toml`: the purpose of each, and by which session and why it was superseded."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from suites.records import limits
from suites.records.bundle import BundleError, Manifest
from suites.records.limits import Name, Text

FILE = "sessions.toml"


class Superseded(Struct, frozen=True, forbid_unknown_fields=True):
    """Why runs of a session are in no figure any more."""

    by: Text
    """The session that took their place."""
    why: Text
    systems: tuple[Name, ...] = ()
    """Whose runs; none named: all."""

    def covers(self, manifest: Manifest) -> bool:
        """Whether it speaks of this run."""
        return not self.systems or manifest.system in self.systems


class Renamed(Struct, frozen=True, forbid_unknown_fields=True):
    """Current name of a system."""

    id: Name
    title: Text


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a sealed session beside what was measured."""

    purpose: Text
    renamed: dict[Name, Renamed] = {}
    """Systems of the session that are known by another id today."""
    superseded: Superseded | None = None


def note(file: Path) -> Note | None:
    """Note on a sealed session in the nearest `sessions.toml` above it; None if there is none.

    Raises
    ------
    BundleError
        when that file is damaged.
    """
    place = _notes_above(file)
    return None if place is None else notes(place).get(file.absolute().relative_to(place.parent).as_posix())


def _notes_above(file: Path) -> Path | None:
    return next((folder / FILE for folder in file.absolute().parents if (folder / FILE).is_file()), None)


def superseded(files: Sequence[Path]) -> dict[Path, Superseded]:
    """Which of these sessions another one of them has superseded."""
    here = {file.absolute() for file in files}
    found = {}
    for file in files:
        place, about = _notes_above(file), note(file)
        old = None if about is None else about.superseded
        if place is not None and old is not None and place.parent / old.by in here:
            found[file] = old
    return found


def notes(path: Path) -> dict[str, Note]:
    """Notes of a `sessions.toml` by the file name of each sealed session, relative to its folder."""
    try:
        return msgspec.convert(tomllib.loads(limits.contents(path).decode()), dict[str, Note])
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise BundleError(f"{path}: damaged: {error}") from None
