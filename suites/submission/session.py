"""A session as it is checked: its runs, its plan and its certificates, from a folder or from a sealed file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from programs.characters import one_line
from programs.cli import ConfigError
from suites.records import archive, bundle, limits
from suites.records.bundle import Bundle, BundleError, Certificate, Manifest
from suites.records.limits import Room
from suites.session import plan as plans
from suites.session.plan import Plan

Division = Literal["closed", "open"]
SHOWN = 3
"""Names in a finding; of more it says how many."""
LINES = 40
"""Findings that are printed."""


class Session(NamedTuple):
    """What is checked."""

    place: Path
    runs: list[Bundle]
    """Without events where only the manifests were read."""
    whole: bool
    """Whether the events were read, too."""
    plan: Plan | None
    certificates: list[Certificate]

    @property
    def manifests(self) -> list[Manifest]:
        """Of all runs, in their order."""
        return [run.manifest for run in self.runs]

    @property
    def first(self) -> Manifest:
        """Of the run that was measured first."""
        return min(self.manifests, key=lambda m: (m.block, m.position))


class Verdict:
    """Collects what is wrong with a session, and what could not be checked."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.notes: list[str] = []

    def wrong(self, text: str) -> None:
        """Add a reason to refuse the session."""
        self.errors.append(one_line(text))

    def tell(self, place: Path) -> None:
        """Print what is wrong to stderr, a line each, and no more lines than anybody reads."""
        for line in self.errors[:LINES]:
            print(f"tianji-bench: {place}: {line}", file=sys.stderr)
        if (more := len(self.errors) - LINES) > 0:
            print(f"tianji-bench: {place}: and {more} more", file=sys.stderr)

    def note(self, text: str) -> None:
        """Add something that a reader should know."""
        self.notes.append(one_line(text))


def some(names: list[str]) -> str:
    """A few of these names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def called(m: Manifest) -> str:
    """What to call a run in a finding."""
    return f"{m.workload}, block {m.block}, position {m.position}, {m.system}"


def sealed(file: Path, *, events: bool = True) -> Session:
    """Read a sealed session with the reader that trusts nothing.

    Parameters
    ----------
    events
        whether to read the events, and to check the digests over them; otherwise the manifests alone are read.

    Raises
    ------
    BundleError
        when the file is no sealed session, or is damaged.
    """
    if not file.exists():
        raise BundleError(f"{file}: no such file")
    runs = (
        archive.read(file, Room(limits.ALL_VALUES))
        if events
        else [Bundle(m, [], file / str(at)) for at, m in enumerate(archive.manifests(file)[0])]
    )
    told = archive.plan(file)
    try:
        plan = None if told is None else msgspec.convert(told, Plan)
    except msgspec.ValidationError as error:
        raise BundleError(f"{file}: damaged: its plan: {error}") from None
    return Session(file, runs, events, plan, archive.certificates(file))


def folder(place: Path) -> Session:
    """Read a session's folder, as `tianji-bench run --out` wrote it.

    Raises
    ------
    ConfigError
        when it is no such folder, or a file in it is damaged.
    """
    begun = place / "session.json"
    if not begun.is_file():
        raise ConfigError(f"{place}: holds no session.json; give the folder that `tianji-bench run --out` wrote for one suite")
    try:
        room = Room(limits.ALL_VALUES)
        runs = [bundle.read(path, room) for path in bundle.find([place])]
        return Session(place, runs, True, plans.read(begun), bundle.certificates([place]))
    except BundleError as error:
        raise ConfigError(str(error)) from error


def marked(session: Session, division: Division, tuned: bool) -> Session:
    """The session with its runs marked as of this division, and as vanilla or tuned."""
    return session._replace(runs=[bundle.marked(run, division, tuned) for run in session.runs])


def by_setting(manifests: list[Manifest]) -> Iterator[tuple[str, list[Manifest]]]:
    """Runs by what all systems of a block have in common."""
    groups: dict[str, list[Manifest]] = {}
    for m in manifests:
        axes = [m.workload, *(f"{name} {value}" for name, value in sorted(m.options.items()))]
        axes += [] if m.explorers is None else [f"{m.explorers} explorers"]
        axes += [f"{m.nodes} nodes"] if m.suite == "scaling" else []
        groups.setdefault(", ".join(axes), []).append(m)
    yield from groups.items()
