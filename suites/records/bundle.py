"""Bundles: the result of one run, a directory with `bundle.json` and `events.jsonl` that is written once and never edited.

This module imports nothing that measures, so that a bundle can be read anywhere. Bundles are not trusted: names, sizes and the
contents that a suite promises are checked once, when a bundle is read (`limits`, `events`, `promises`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from suites.records import limits, promises
from suites.records.events import AnyEvent, Event, Named, Phase, PhaseName
from suites.records.limits import BundleError as BundleError
from suites.records.limits import Count, Key, Name, Number, Prose, Room, Text
from suites.records.promises import Few

SCHEMA = "tianji-bench/bundle/1"
CERTIFICATE = "certificate.json"
PARTIAL = ".partial"
"""Suffix of a cell's directory until it is measured and evaluated."""

Kind = TypeVar("Kind", bound=Event)
Scalar = bool | Annotated[int, Meta(ge=-(2**53), le=2**53)] | Number | Text


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a run but its events."""

    schema: str
    status: Literal["completed", "failed", "interrupted"]
    suite: Name
    profile: Name
    workload: Name
    system: Name
    system_title: Text
    seed: Count
    replica: Annotated[int, Meta(ge=0, le=1)]
    """0, or 1 for the second run of a system within a block: A against A."""
    block: Count
    position: Count
    """Within the block, in order of execution."""
    session: Name
    testbed: Literal["local", "netns", "ray"] = "local"
    nodes: Few = 1
    division: Literal["closed", "open"] = "closed"
    """`closed`: the project's workload, unchanged. `open`: anything else."""
    tuned: bool = False
    """Whether settings of a system were chosen for this workload; otherwise they are what its adapter makes of it."""
    scaling: Literal["strong", "weak"] | None = None
    size_bytes: Count | None = None
    explorers: Few | None = None
    options: Annotated[dict[Key, Scalar], Meta(max_length=16)] = {}
    """Values of further axes that the suite varies."""
    cores: Count
    configuration: dict[str, Any]
    """`workload`: the complete workload; `system`: how the system translated it; `options`: what tuning chose."""
    deviations: Annotated[list[Prose], Meta(max_length=200)]
    environment: dict[str, Any]
    phases_s: Named
    """`setup`, `measured`, `teardown`."""
    exit_status: Annotated[int, Meta(ge=-(2**31), le=2**31)] | None = None
    error: Prose | None = None
    """Last lines of a failed run's output."""
    derived_from: Text | None = None
    """Of a thinned run: the digest of the run as it was sealed. In old sessions: SHA-256 over its bundle's two files."""

    @property
    def axes(self) -> dict[str, Scalar]:
        """Values within which runs are compared: `options`, and the division where it is not closed and vanilla."""
        marks: dict[str, Scalar] = {"division": self.division} if self.division != "closed" else {}
        return {**self.options, **marks, **({"tuned": True} if self.tuned else {})}


class Equivalence(Struct, frozen=True, forbid_unknown_fields=True):
    """One quantity of one system against the certificate's reference; see `baselines.certificate`."""

    workload: Name
    system: Name
    quantity: Text
    error: Number | None
    scale: Number
    equal: bool | None


class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """The equivalence certificate of a session, in `certificate.json` beside its bundles."""

    schema: Literal["tianji-bench/certificate/1"]
    findings: list[Equivalence]
    failures: dict[Name, Prose]
    """Systems that could not be certified, and why."""


class Bundle(Struct, frozen=True, dict=True):
    """A manifest with its events."""

    manifest: Manifest
    events: list[AnyEvent]
    path: Path

    @cached_property
    def _by_kind(self) -> dict[type[Event], list[Any]]:
        found: dict[type[Event], list[Any]] = {}
        for event in self.events:
            found.setdefault(type(event), []).append(event)
        return found

    def of(self, kind: type[Kind]) -> Sequence[Kind]:
        """Events of one kind, in order. An analysis asks for many things of a run, and looks through all events once."""
        return self._by_kind.get(kind, ())


def marked(bundle: Bundle, division: Literal["closed", "open"], tuned: bool) -> Bundle:
    """The same run, marked as of this division, and as vanilla or tuned."""
    return msgspec.structs.replace(bundle, manifest=msgspec.structs.replace(bundle.manifest, division=division, tuned=tuned))


_events = msgspec.json.Decoder(AnyEvent)
_manifest = msgspec.json.Decoder(Manifest)
encode_event = msgspec.json.Encoder().encode


class EventLog:
    """Writes events to a new file, a line each, so that a killed run leaves what it had."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)

    def write(self, event: AnyEvent) -> None:
        """Append an event."""
        self._file.write(encode_event(event) + b"\n")

    def phase(self, name: PhaseName) -> None:
        """A phase begins now."""
        self.write(Phase(time.monotonic_ns(), name, time.time_ns()))

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_events(path: Path, room: Room | None = None) -> list[AnyEvent]:
    """Events of a file, in order of writing.

    Parameters
    ----------
    room
        of all files that are read together.

    Raises
    ------
    BundleError
        for a line that is no event of this schema.
    """
    events, own = [], Room(limits.RUN_VALUES)
    with limits.opened(path, limits.EVENTS_BYTES) as file:
        for number, line in enumerate(iter(partial(file.readline, limits.EVENT_BYTES), b""), 1):
            if not line.endswith(b"\n"):
                short = len(line) < limits.EVENT_BYTES
                why = "its last line is cut short; the run was not finished" if short else f"line {number} is too long"
                raise BundleError(f"{path}: {why}")
            # A value ends with a comma, or with the line.
            for counted in (own, room) if room else (own,):
                counted.take(1 + line.count(b","), f"{path}: line {number}")
            try:
                events.append(_events.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise BundleError(f"{path}: line {number}: {error}") from None
    return events


def read(directory: Path, room: Room | None = None) -> Bundle:
    """Read and check one bundle.

    Parameters
    ----------
    room
        of all that are read together.

    Raises
    ------
    BundleError
        when a file is missing or breaks the schema.
    """
    path = directory / "bundle.json"
    if not os.path.lexists(path):
        raise BundleError(f"{path}: no such file; a bundle is a directory with bundle.json and events.jsonl")
    return Bundle(decode_manifest(limits.contents(path), path), read_events(directory / "events.jsonl", room), directory)


def decode_manifest(data: bytes | str, place: Path) -> Manifest:
    """Read and check what `bundle.json` holds; `place` is named where it breaks the schema.

    Raises
    ------
    BundleError
        when it does.
    """
    try:
        manifest = _manifest.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{place}: damaged, or not a bundle of schema {SCHEMA}: {error}") from None
    if manifest.schema != SCHEMA:
        raise BundleError(f"{place}: has schema {manifest.schema}; this version reads {SCHEMA}")
    try:
        promises.check(manifest.suite, manifest.configuration, manifest.environment)
    except ValueError as error:
        raise BundleError(f"{place}: {error}") from None
    return manifest


def publish(partial: Path, manifest: Manifest) -> Path:
    """Make a `.partial` directory a bundle, in one step: it is whole, or not there.

    Host names, user names and absolute paths are taken out of all text first.
    """
    if partial.suffix != PARTIAL:
        raise ValueError(f"{partial} does not end in {PARTIAL}")
    final = partial.with_name(partial.name.removesuffix(PARTIAL))
    text = scrub(msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode())
    _manifest.decode(text)
    temporary = partial / "bundle.json.new"
    temporary.write_text(text + "\n", encoding="utf-8")
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.rename(partial / "bundle.json")
    partial.rename(final)
    return final


PATH = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)+([\w.@+-]+)")


def scrub(text: str) -> str:
    """Take out what says whose machine it was: absolute paths keep their last part; host and user names go."""
    text = PATH.sub(r".../\1", text)
    node = os.uname().nodename
    names = [node, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")]
    for name in names:
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "(host)" if name == node else "(user)", text)
    return text


def plan(path: Path) -> dict[str, Any]:
    """What a session's `session.json` says, without what says whose machine it was; it has `cells`.

    Raises
    ------
    BundleError
        when it is damaged.
    """
    try:
        plan = msgspec.json.decode(scrub(limits.contents(path).decode()), type=dict[str, Any])
        limits.plain(plan)
        msgspec.convert(plan.get("cells"), list[Any])
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: damaged: {error}") from None
    return plan


def certificates(roots: list[Path]) -> list[Certificate]:
    """Certificates under these folders.

    Raises
    ------
    BundleError
        for a damaged one.
    """
    found = []
    for path in sorted({path for root in roots for path in limits.found(root, CERTIFICATE.__eq__)}):
        try:
            found.append(msgspec.json.decode(limits.contents(path), type=Certificate))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BundleError(f"{path}: damaged certificate: {error}") from None
    return found


def write_certificate(certificate: Certificate, directory: Path) -> None:
    """Write `certificate.json` there, in the place of one that may be there."""
    (directory / CERTIFICATE).write_bytes(msgspec.json.format(msgspec.json.encode(certificate), indent=1) + b"\n")


def find(roots: list[Path]) -> list[Path]:
    """Directories of published bundles under these folders, sorted; `.partial` and superseded ones are passed over."""
    return sorted(
        {
            path.parent
            for root in roots
            for path in limits.found(root, "bundle.json".__eq__)
            if path.parent.suffix != PARTIAL and "superseded" not in path.parts
        }
    )
