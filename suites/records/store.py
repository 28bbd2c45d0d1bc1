"""Sealed sessions: every run of a session in one Parquet file, which `pandas.read_parquet` opens.

A row is an event. A run's first row (`event` is `run`) holds its manifest; its events follow in their order. The columns of
`RUN_COLUMNS` stand on every row; the others are fields of events, empty where an event has no such field. All are described in
docs/data.md. The file's own metadata holds the session's plan and certificate.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import types
import typing
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from suites.records import bundle, machine
from suites.records.bundle import Bundle, BundleError, Certificate, Manifest
from suites.records.events import AnyEvent, Episode, Evaluation, Event
from suites.records.notes import Superseded, note, superseded

SCHEMA = "tianji-bench/sealed/1"
SUFFIX = ".parquet"
KEY = b"tianji-bench"
RUN_COLUMNS = ("run", "suite", "workload", "system", "replica", "seed", "block", "nodes", "explorers")
"""On every row; but for `run`, the name of its folder, fields of the manifest."""
OPTION = "options."
"""Begins the name of a column that holds an option of the manifest; a session has those that its runs have."""
RENAMED = {("histogram", "counts"): "histogram"}
"""Fields that have another type than a field of that name in another event, and their columns."""
COMPRESSION_LEVEL = 15
DELTA = ("ns", "wall_ns", "steps")
"""Columns that grow from row to row: their differences are stored."""

_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    list[int]: pa.list_(pa.int64()),
    list[float]: pa.list_(pa.float64()),
    dict[str, float]: pa.map_(pa.string(), pa.float64()),
    dict[int, int]: pa.map_(pa.int64(), pa.int64()),
}


class _Kind(NamedTuple):
    """How one kind of event lies in the table."""

    type: type[Event]
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    """Of these fields, in their order."""


def _arrow_type(annotation: Any) -> pa.DataType:
    """The column type of a field; optional fields are nullable columns, as all are."""
    if typing.get_origin(annotation) is typing.Literal:
        return pa.string()
    if isinstance(annotation, types.UnionType):
        (annotation,) = set(typing.get_args(annotation)) - {type(None)}
    return _TYPES[annotation]


def _layout() -> tuple[dict[str, _Kind], dict[str, pa.DataType]]:
    """Kinds of events by tag, and all columns that their fields need."""
    kinds: dict[str, _Kind] = {}
    columns: dict[str, pa.DataType] = {}
    for one in typing.get_args(AnyEvent):
        tag = str(one.__struct_config__.tag)
        fields = msgspec.structs.fields(one)
        names = tuple(RENAMED.get((tag, field.encode_name), field.encode_name) for field in fields)
        kinds[tag] = _Kind(one, one.__struct_fields__, names)
        for name, field in zip(names, fields, strict=True):
            assert columns.setdefault(name, _arrow_type(field.type)) == _arrow_type(field.type), (tag, name)
    return kinds, columns


KINDS, FIELDS = _layout()
_MANIFEST = {field.name: field.type for field in msgspec.structs.fields(Manifest)}
COLUMNS: dict[str, pa.DataType] = {
    **{name: pa.string() if name == "run" else _arrow_type(_MANIFEST[name]) for name in RUN_COLUMNS},
    "event": pa.string(),
    **FIELDS,
    "manifest": pa.string(),
    "digest": pa.string(),
}
"""All columns of a sealed session, and their types."""


class Loaded(NamedTuple):
    """Everything under some folders."""

    bundles: list[Bundle]
    superseded: list[tuple[Bundle, Superseded]]
    """Runs that are in no figure, because the session that took their place is here, too."""
    certificates: list[Certificate]


def seal(folder: Path, file: Path) -> int:
    """Seal every published bundle under a folder into a new file, at once; returns their number.

    What was written is read again and compared before the file gets its name. The folder stays as it is.

    Raises
    ------
    BundleError
        when the folder has no bundle, or bundles of several sessions, or a block that is not finished, or the file exists.
    """
    if file.suffix != SUFFIX:
        raise BundleError(f"{file}: a sealed session is a file that ends in {SUFFIX}")
    if file.exists():
        raise BundleError(f"{file}: exists; a sealed session is never written over: name a new file")
    paths = bundle.find([folder])
    if not paths:
        raise BundleError(f"{folder}: holds no bundle; give a folder that `python -m suites run --out` wrote")
    bundles = [_thinned(bundle.read(path)) for path in paths]
    sessions = sorted({b.manifest.session for b in bundles})
    if len(sessions) > 1:
        raise BundleError(f"{folder}: holds bundles of {len(sessions)} sessions; seal each session's folder by itself")
    begun = folder / "session.json"
    plan = msgspec.json.decode(bundle.scrub(begun.read_text(encoding="utf-8"))) if begun.exists() else None
    if plan is not None and len(plan["cells"]) != len(bundles):
        raise BundleError(
            f"{folder}: {len(bundles)} of {len(plan['cells'])} cells are finished; go on with --resume, then seal"
        )
    certificates = bundle.certificates([folder])
    about = {"schema": SCHEMA, "session": sessions[0], "plan": plan, "certificates": certificates}
    axes = sorted({name for b in bundles for name in b.manifest.options})
    table = pa.concat_tables([_table_of(b, axes) for b in bundles], promote_options="permissive").combine_chunks()
    table = table.replace_schema_metadata({KEY: msgspec.json.encode(about)})
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(file.name + ".new")
    pq.write_table(
        table,
        new,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=[name for name in table.column_names if name not in DELTA],
        column_encoding=dict.fromkeys(DELTA, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        row_group_size=len(table),
    )
    if [(b.manifest, b.events) for b in read(new)] != [(b.manifest, b.events) for b in bundles]:
        raise BundleError(f"{new}: what was written differs from what was read; nothing is sealed")
    with new.open("rb") as written:
        os.fsync(written.fileno())
    new.rename(file)
    return len(bundles)


def _thinned(b: Bundle) -> Bundle:
    """Without the episodes of a scaling run that was measured for throughput alone: nothing is drawn from them."""
    if b.manifest.suite != "scaling" or any(isinstance(event, Evaluation) for event in b.events):
        return b
    return msgspec.structs.replace(b, events=[event for event in b.events if not isinstance(event, Episode)])


def _digest(rows: pa.Table) -> str:
    """SHA-256 over a run's rows: of each column that is not empty, in the order of names, its name and its values in JSON."""
    digest = hashlib.sha256()
    for name in sorted(rows.column_names):
        column = rows[name]
        if name != "digest" and column.null_count < len(column):
            digest.update(msgspec.json.encode((name, column.to_pylist())))
    return digest.hexdigest()


def _table_of(b: Bundle, axes: Iterable[str]) -> pa.Table:
    """A run's rows; `axes` are the options that any run of the session has."""
    length = 1 + len(b.events)
    values: dict[str, list[Any]] = {name: [None] * length for name in (*FIELDS, "event", "manifest", "digest")}
    values["event"][0], values["manifest"][0] = "run", msgspec.json.encode(b.manifest).decode()
    for place, event in enumerate(b.events, 1):
        tag = str(event.__struct_config__.tag)
        values["event"][place] = tag
        for column, value in zip(KINDS[tag].columns, msgspec.structs.astuple(event), strict=True):
            values[column][place] = list(value.items()) if isinstance(value, dict) else value
    for name in RUN_COLUMNS:
        values[name] = [b.path.name if name == "run" else getattr(b.manifest, name)] * length
    columns = {name: pa.array(values[name], kind) for name, kind in COLUMNS.items()}
    columns |= {f"{OPTION}{name}": pa.array([b.manifest.options.get(name)] * length) for name in axes}
    digest = pa.array([_digest(pa.table(columns)), *[None] * len(b.events)], pa.string())
    return pa.table(columns | {"digest": digest})


def read(file: Path) -> list[Bundle]:
    """The runs of a sealed session, in the order in which they were sealed.

    Raises
    ------
    BundleError
        when the file is no sealed session, or is damaged.
    """
    table = _open(file)
    names, tags, manifests, digests = (table[name].to_pylist() for name in ("run", "event", "manifest", "digest"))
    starts = [place for place, tag in enumerate(tags) if tag == "run"]
    if starts[:1] != [0]:
        raise BundleError(f"{file}: damaged: it does not begin with a run")
    try:
        events = _events(table, tags)
        found = [
            Bundle(bundle.decode_manifest(manifests[start], file / names[start]), events[start + 1 : end], file / names[start])
            for start, end in itertools.pairwise([*starts, len(tags)])
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{file}: damaged: {error}") from None
    for start, b in zip(starts, found, strict=True):
        if _digest(table.slice(start, 1 + len(b.events))) != digests[start]:
            raise BundleError(f"{file}: damaged: {b.path.name} is not what was sealed")
    return found


def _events(table: pa.Table, tags: Sequence[str]) -> list[Any]:
    """Every row's event; None for a run's first row."""
    places: dict[str, list[int]] = {}
    for place, tag in enumerate(tags):
        places.setdefault(tag, []).append(place)
    found: list[Any] = [None] * len(tags)
    for tag, own in places.items():
        if tag == "run":
            continue
        kind = KINDS[tag]
        part = table.select(list(dict.fromkeys(kind.columns))).take(pa.array(own))
        columns = []
        for name in kind.columns:
            column = part[name].to_pylist()
            columns.append(list(map(dict, column)) if pa.types.is_map(COLUMNS[name]) else column)
        for place, values in zip(own, zip(*columns, strict=True), strict=True):
            found[place] = kind.type(**dict(zip(kind.fields, values, strict=True)))
    return found


def _about(file: Path) -> dict[str, Any]:
    """What a file says of itself; empty where it is a Parquet file of another kind."""
    try:
        about = msgspec.json.decode((pq.read_schema(file).metadata or {}).get(KEY, b"{}"), type=dict[str, Any])
    except (OSError, pa.ArrowException, msgspec.DecodeError) as error:
        raise BundleError(f"{file}: damaged, or no sealed session: {str(error).splitlines()[0]}") from None
    if about and about.get("schema") != SCHEMA:
        raise BundleError(f"{file}: has schema {about.get('schema')}; this version reads {SCHEMA}")
    return about


def _open(file: Path) -> pa.Table:
    """The table of a sealed session."""
    if not _about(file):
        raise BundleError(f"{file}: is no sealed session; `python -m suites pack` makes them")
    try:
        table = pq.read_table(file, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise BundleError(f"{file}: damaged: {str(error).splitlines()[0]}") from None
    if missing := [name for name in ("run", "event", "manifest", "digest") if name not in table.column_names]:
        raise BundleError(f"{file}: damaged: it lacks the column {missing[0]}")
    for name in (name for name in FIELDS if name not in table.column_names):  # Sealed before any event had such a field.
        table = table.append_column(name, pa.nulls(len(table), FIELDS[name]))
    return table


def certificates(file: Path) -> list[Certificate]:
    """Those that were sealed with a session."""
    try:
        return msgspec.convert(_about(file)["certificates"], list[Certificate])
    except (KeyError, msgspec.ValidationError) as error:
        raise BundleError(f"{file}: damaged: {error}") from None


def load(roots: Sequence[Path]) -> Loaded:
    """Read every bundle and every sealed session under these folders; a root may be a sealed session's file, too.

    Raises
    ------
    BundleError
        for a root without any, and for the first one that is damaged.
    """
    for root in roots:
        if not root.exists():
            raise BundleError(f"{root}: no such folder; give one that `python -m suites run --out` wrote, or a sealed session")
        if not (sealed([root]) or bundle.find([root])):
            raise BundleError(
                f"{root}: holds no bundle; give a folder that `python -m suites run --out` wrote, or a sealed session"
            )
    files = sealed(roots)
    found = [b for file in files for b in read(file)] + [bundle.read(path) for path in bundle.find([*roots])]
    old = superseded(files)
    loaded = Loaded([], [], bundle.certificates([*roots]))
    for b in sorted(found, key=_place):
        reason = old.get(b.path.parent)
        if reason is not None and reason.covers(b.manifest):
            loaded.superseded.append((b, reason))
        else:
            loaded.bundles.append(b)
    in_use = {b.path.parent for b in loaded.bundles}
    loaded.certificates[:0] = [one for file in files if file in in_use for one in certificates(file)]
    return loaded


def _place(b: Bundle) -> tuple[Path, str]:
    """Where a bundle stands among others: sealed or not, in the same place."""
    parent = b.path.parent
    return parent.with_name(parent.name.removesuffix(SUFFIX)), b.path.name


def described(folder: Path) -> list[dict[str, str]]:
    """A line for each sealed session of a folder: what was measured, where and when, and what `sessions.toml` says of it."""
    lines = []
    for file in sealed([folder]):
        _open(file)
        table = pq.read_table(file, columns=["event", "manifest", "wall_ns"])
        manifests = [bundle.decode_manifest(text, file) for text in table["manifest"].drop_null().to_pylist()]
        first, about = manifests[0], note(file)
        old = None if about is None else about.superseded
        lines.append(
            {
                "session": file.relative_to(folder).as_posix(),
                "date": datetime.fromtimestamp(min(table["wall_ns"].drop_null().to_pylist()) / 1e9, UTC).date().isoformat(),
                "machine": machine.name(first.environment),
                "commit": (first.environment["git_commit"] or "-")[:7],
                "runs": str(len(manifests)),
                "for": "" if about is None else about.purpose,
                "superseded": "" if old is None else f"{', '.join(old.systems) or 'all'} by {old.by}: {old.why}",
            }
        )
    return lines


def sealed(roots: Iterable[Path]) -> list[Path]:
    """Sealed sessions at or below these places, sorted; Parquet files of another kind are none."""
    found: set[Path] = set()
    for root in roots:
        found |= {root} if root.is_file() else {file for file in root.rglob(f"*{SUFFIX}") if _about(file)}
    return sorted(found)
