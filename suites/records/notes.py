"""What `sessions.toml` says of the sealed sessions below its folder: what each is for, and what took its place and why."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from suites.records.bundle import BundleError, Manifest

FILE = "sessions.toml"


class Superseded(Struct, frozen=True, forbid_unknown_fields=True):
    """Why runs of a session are in no figure any more."""

    by: str
    """The session that took their place."""
    why: str
    systems: tuple[str, ...] = ()
    """Whose runs; none named: all."""

    def covers(self, manifest: Manifest) -> bool:
        """Whether it speaks of this run."""
        return not self.systems or manifest.system in self.systems


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a sealed session beside what was measured."""

    purpose: str
    superseded: Superseded | None = None


def note(file: Path) -> Note | None:
    """What the nearest `sessions.toml` above a sealed session says of it; None where none does.

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
    """By file name relative to its folder, what `sessions.toml` says of each sealed session."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Note])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BundleError(f"{path}: damaged: {error}") from None
