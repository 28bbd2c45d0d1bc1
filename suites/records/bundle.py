"""The result of one run: a directory with `bundle.json` and `events.jsonl`, written once and never edited.

Of the project this imports the events alone (`suites.records.events`): whoever has a bundle can read it.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from suites.records.events import AnyEvent, Phase, PhaseName

SCHEMA = "tianji-bench/bundle/1"
CERTIFICATE = "certificate.json"
PARTIAL = ".partial"
"""Suffix of a cell's directory until it is measured and evaluated."""


Scalar = bool | int | float | str


class BundleError(Exception):
    """A bundle breaks the schema; the text is one line that names the file and what is wrong."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a run but its events."""

    schema: str
    status: Literal["completed", "failed", "interrupted"]
    suite: str
    profile: str
    workload: str
    system: str
    system_title: str
    seed: int
    replica: int
    """0, or 1 for the second run of a system within a block: A against A."""
    block: int
    position: int
    """Within the block, in order of execution."""
    session: str
    testbed: Literal["local", "netns", "ray"] = "local"
    nodes: int = 1
    division: Literal["closed", "open"] = "closed"
    scaling: Literal["strong", "weak"] | None = None
    size_bytes: int | None = None
    explorers: int | None = None
    options: dict[str, Scalar] = {}
    """Values of further axes that the suite varies."""
    cores: int
    configuration: dict[str, Any]
    """`workload`: the complete workload; `system`: how the system translated it."""
    deviations: list[str]
    environment: dict[str, Any]
    phases_s: dict[str, float]
    """`setup`, `measured`, `teardown`."""
    exit_status: int | None = None
    error: str | None = None
    """Last lines of a failed run's output."""
    derived_from: str | None = None
    """Of a thinned copy, as earlier versions committed: SHA-256 over the parent's two files."""


class Equivalence(Struct, frozen=True, forbid_unknown_fields=True):
    """One quantity of one system against the certificate's reference; see `baselines.certificate`."""

    workload: str
    system: str
    quantity: str
    error: float | None
    scale: float
    equal: bool | None


class Certificate(Struct, frozen=True, forbid_unknown_fields=True):
    """The equivalence certificate of a session, in `certificate.json` beside its bundles."""

    schema: Literal["tianji-bench/certificate/1"]
    findings: list[Equivalence]
    failures: dict[str, str]
    """Systems that could not be certified, and why."""


class Bundle(Struct, frozen=True):
    """A manifest with its events."""

    manifest: Manifest
    events: list[AnyEvent]
    path: Path


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


def read_events(path: Path) -> list[AnyEvent]:
    """Events of a file, in order of writing.

    Raises
    ------
    BundleError
        for a line that is no event of this schema.
    """
    events = []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}") from None
    if lines.pop() != b"":
        raise BundleError(f"{path}: its last line is cut short; the run was not finished")
    for number, line in enumerate(lines, 1):
        try:
            events.append(_events.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BundleError(f"{path}: line {number}: {error}") from None
    return events


def read(directory: Path) -> Bundle:
    """Read and check one bundle.

    Raises
    ------
    BundleError
        when a file is missing or breaks the schema.
    """
    path = directory / "bundle.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BundleError(f"{path}: no such file; a bundle is a directory with bundle.json and events.jsonl") from None
    return Bundle(decode_manifest(data, path), read_events(directory / "events.jsonl"), directory)


def decode_manifest(data: bytes | str, place: Path) -> Manifest:
    """Read and check what `bundle.json` holds; `place` is named where it breaks the schema.

    Raises
    ------
    BundleError
        when it does.
    """
    try:
        manifest = _manifest.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{place}: damaged, or not a bundle of schema {SCHEMA}: {error}") from None
    if manifest.schema != SCHEMA:
        raise BundleError(f"{place}: has schema {manifest.schema}; this version reads {SCHEMA}")
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


_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)+([\w.@+-]+)")


def scrub(text: str) -> str:
    """Take out what says whose machine it was: absolute paths keep their last part; host and user names go."""
    text = _PATH.sub(r".../\1", text)
    node = os.uname().nodename
    names = [node, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")]
    for name in names:
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "(host)" if name == node else "(user)", text)
    return text


def certificates(roots: list[Path]) -> list[Certificate]:
    """Certificates under these folders.

    Raises
    ------
    BundleError
        for a damaged one.
    """
    found = []
    for path in sorted({path for root in roots for path in root.rglob(CERTIFICATE)}):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Certificate))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
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
            for path in root.rglob("bundle.json")
            if path.parent.suffix != PARTIAL and "superseded" not in path.parts
        }
    )
