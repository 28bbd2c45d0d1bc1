"""Notes on sealed sessions in `sessions.toml`: purposes, by which one each was superseded and why, and series of sessions."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from suites.records import limits
from suites.records.bundle import BundleError, Manifest
from suites.records.limits import Count, Name, Text

FILE = "sessions.toml"
SERIES = "series"
"""Table of the file that is no session."""


class Superseded(Struct, frozen=True, forbid_unknown_fields=True):
    """Why runs of a session are in no figure any more."""

    by: Text
    """The session that took their place."""
    why: Text
    systems: tuple[Name, ...] = ()
    """Whose runs; none named: all."""
    workloads: tuple[Name, ...] = ()
    """Of which workloads; none named: all."""

    def covers(self, manifest: Manifest) -> bool:
        """Whether it speaks of this run."""
        return manifest.system in (self.systems or (manifest.system,)) and (
            manifest.workload in (self.workloads or (manifest.workload,))
        )


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
    deviation: Text | None = None
    """In what it departs from the rules of measurement; reports say so beside its figures."""
    commit: Text | None = None
    """A commit that has the session, of one that is no longer here."""


class Series(Struct, frozen=True, forbid_unknown_fields=True):
    """A series of sessions begins: the code or the machine is new, so earlier ones are not pooled with it.

    It is written before any of its sessions is measured."""

    workload: Name
    begins: Text
    """In universal time, as plans are dated: `2026-01-31T12:00:00Z`."""
    why: Text
    blocks: Count | None = None
    """Planned blocks. Until all are there reports leave the series out: to look sooner is a look. None: any number."""


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


def series(files: Sequence[Path]) -> tuple[Series, ...]:
    """The series of the notes above these sessions."""
    places = {place for file in files if (place := _notes_above(file)) is not None}
    return tuple(one for place in sorted(places) for one in _read(place)[1])


def notes(path: Path) -> dict[str, Note]:
    """Notes of a `sessions.toml` by the file name of each sealed session, relative to its folder."""
    return _read(path)[0]


def _read(path: Path) -> tuple[dict[str, Note], tuple[Series, ...]]:
    try:
        told = tomllib.loads(limits.contents(path).decode())
        begun = msgspec.convert(told.pop(SERIES, []), tuple[Series, ...])
        return msgspec.convert(told, dict[str, Note]), begun
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise BundleError(f"{path}: damaged: {error}") from None
