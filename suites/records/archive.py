"""Sealed sessions: every run of a session in one Parquet file, which `pandas.read_parquet` opens.

A row is an event. The first row of a run (`event` is `run`) holds its manifest, and its events follow in order. Every row has
the columns of `RUN_COLUMNS`. The other columns are fields of events, and empty if an event has no such field. docs/data.md
describes all columns. The file's metadata holds the session's plan and certificate.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Meta

from suites.records import bundle, limits, statement
from suites.records.bundle import Bundle, BundleError, Certificate, Manifest
from suites.records.events import AnyEvent, Episode, Evaluation, Event
from suites.records.limits import Room
from suites.records.statement import Statement

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
FILE_BYTES, UNPACKED_BYTES, TAKEN_BYTES = 64 << 20, 128 << 20, 768 << 20
"""Limits in bytes: of a file, of its unpacked columns and texts, and of the memory for reading it."""
ROWS, COLUMN_VALUES, RUNS = 1_000_000, 2_500_000, 10_000
"""Limits of a file's rows, values in a column, and runs. A column of lists has more values than rows."""
PARTS = 1_000
"""Limit of a file's columns and groups of rows."""
THROUGHPUT = ("asynchrony", "scaling")
"""Suites whose runs are measured for throughput alone unless their policies are evaluated."""
Run = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", max_length=200)]
"""The name of a run's folder."""

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
    keys: tuple[str, ...]
    """Names of its fields in JSON."""
    columns: tuple[str, ...]
    """Columns of these fields, in order."""


def _arrow_type(annotation: Any) -> pa.DataType:
    """The column type of a field, whose bounds are left out; optional fields are nullable columns, as all are."""
    if typing.get_origin(annotation) is typing.Literal:
        return pa.string()
    if type(None) in typing.get_args(annotation):
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
        kinds[tag] = _Kind(one, one.__struct_encode_fields__, names)
        hints = typing.get_type_hints(one)
        for name, field in zip(names, fields, strict=True):
            kind = _arrow_type(hints[field.name])
            assert columns.setdefault(name, kind) == kind, (tag, name)
    return kinds, columns


KINDS, FIELDS = _layout()
_MANIFEST = typing.get_type_hints(Manifest)
COLUMNS: dict[str, pa.DataType] = {
    **{name: pa.string() if name == "run" else _arrow_type(_MANIFEST[name]) for name in RUN_COLUMNS},
    "event": pa.string(),
    **FIELDS,
    "manifest": pa.string(),
    "digest": pa.string(),
}
"""All columns of a sealed session, and their types."""
_KNOWN = [*COLUMNS.values(), pa.bool_()]
"""Types of columns; options may be of any that is no list."""


def seal(folder: Path, file: Path, mark: Callable[[Bundle], Bundle] | None = None) -> int:
    """Seal every published bundle under a folder into a new file, at once; returns their number.

    What was written is read again and compared before the file gets its name. The folder stays as it is.

    Parameters
    ----------
    mark
        changes what a run says of itself, such as its division.

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
    bundles = bundles if mark is None else [mark(b) for b in bundles]
    sessions = sorted({b.manifest.session for b in bundles})
    if len(sessions) > 1:
        raise BundleError(f"{folder}: holds bundles of {len(sessions)} sessions; seal each session's folder by itself")
    begun = folder / "session.json"
    plan = bundle.plan(begun) if begun.exists() else None
    if plan is not None and (cells := len(plan["cells"])) != len(bundles):
        raise BundleError(f"{folder}: {len(bundles)} of {cells} cells are finished; go on with --resume, then seal")
    certificates = bundle.certificates([folder])
    stated = statement.beside(folder)
    if stated is not None and stated.session != sessions[0]:
        raise BundleError(f"{folder}: its {statement.FILE} is of another session")
    about = {"schema": SCHEMA, "session": sessions[0], "plan": plan, "stated": stated, "certificates": certificates}
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
    """Without the episodes of a run that was measured for throughput alone: nothing is drawn from them."""
    if b.manifest.suite not in THROUGHPUT or b.of(Evaluation):
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


def read(file: Path, room: Room | None = None) -> list[Bundle]:
    """The runs of a sealed session, in the order in which they were sealed.

    Parameters
    ----------
    room
        of all that is read together.

    Raises
    ------
    BundleError
        when the file is no sealed session, or is damaged.
    """
    with _within(file):
        table = _open(file)
        if room:
            room.take(sum(map(_values, table.columns)), file)
        names, tags, manifests, digests = (table[name].to_pylist() for name in ("run", "event", "manifest", "digest"))
        starts = [place for place, tag in enumerate(tags) if tag == "run"]
        if starts[:1] != [0]:
            raise BundleError(f"{file}: damaged: it does not begin with a run")
        if len(starts) > RUNS:
            raise BundleError(f"{file}: has {len(starts):,} runs; at most {RUNS:,} are read")
        events = _events(table, tags)
        found = []
        for start, end in itertools.pairwise([*starts, len(tags)]):
            place = file / msgspec.convert(names[start], Run)
            manifest = bundle.decode_manifest(msgspec.convert(manifests[start], str), place)
            found.append(Bundle(manifest, events[start + 1 : end], place))
        for start, b in zip(starts, found, strict=True):
            if _digest(table.slice(start, 1 + len(b.events))) != digests[start]:
                raise BundleError(f"{file}: damaged: {b.path.name} is not what was sealed")
    return found


@contextmanager
def _within(file: Path) -> Iterator[None]:
    """Say in one line why a file cannot be read."""
    try:
        yield
    except MemoryError:
        raise BundleError(f"{file}: damaged: it would take more than {TAKEN_BYTES >> 20} MiB of memory") from None
    except (KeyError, TypeError, ValueError, OSError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise BundleError(f"{file}: damaged: {str(error).partition(chr(10))[0]}") from None


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
        plain = [dict(zip(kind.keys, values, strict=True)) for values in zip(*columns, strict=True)]
        # A list at once: a call for each event takes as long as the events.
        for place, event in zip(own, msgspec.convert(plain, list[kind.type]), strict=True):  # type: ignore[name-defined]
            found[place] = event
    return found


@contextmanager
def _parquet(file: Path, **more: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file, of which nothing but the metadata is read yet."""
    with limits.opened(file, FILE_BYTES) as data:
        try:
            yield pq.ParquetFile(data, pre_buffer=False, thrift_container_size_limit=10 * PARTS, **more)
        except MemoryError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise BundleError(f"{file}: damaged, or no sealed session: {str(error).partition(chr(10))[0]}") from None


def _about(file: Path) -> dict[str, Any]:
    """Metadata of a file; empty for another kind of Parquet file."""
    with _within(file), _parquet(file) as parquet:
        told = (parquet.metadata.metadata or {}).get(KEY, b"{}")
        if len(told) > limits.DOCUMENT_BYTES:
            raise ValueError(f"it says {len(told):,} bytes of itself")
        about = msgspec.json.decode(told, type=dict[str, Any])
        limits.plain(about)
    if about and about.get("schema") != SCHEMA:
        raise BundleError(f"{file}: has schema {about.get('schema')}; this version reads {SCHEMA}")
    return about


def _open(file: Path, columns: list[str] | None = None) -> pa.Table:
    """Read the table of a sealed session, or some of its columns.

    The memory needed is computed before it is used, because a few compressed bytes may expand to many values. Texts are first
    read as indexes into a dictionary and counted.
    """
    if not _about(file):
        raise BundleError(f"{file}: is no sealed session; `python -m suites pack` makes them")
    with _parquet(file, page_checksum_verification=True) as parquet:
        _check_size(parquet.metadata)
        kinds = {field.name: field.type for field in parquet.schema_arrow}
        texts = [name for name, kind in kinds.items() if kind == pa.string()]
        wrong = [name for name, kind in kinds.items() if kind not in _KNOWN or COLUMNS.get(name, kind) != kind]
    if len(kinds) < len(parquet.schema_arrow) or wrong:
        raise BundleError(f"{file}: damaged: the column {(wrong or ['twice'])[0]} is of another type, or there twice")
    if missing := [name for name in ("run", "event", "manifest", "digest") if name not in kinds]:
        raise BundleError(f"{file}: damaged: it lacks the column {missing[0]}")
    # What it says of its size may be a lie.
    with _bounded(), _parquet(file, page_checksum_verification=True, read_dictionary=texts) as parquet:
        table = parquet.read(columns, use_threads=False)
    long = sum(_length(chunk) for name in texts if name in table.column_names for chunk in table[name].chunks)
    if long > UNPACKED_BYTES:
        raise BundleError(f"{file}: its texts have {long:,} bytes; at most {UNPACKED_BYTES:,} are read")
    for place, name in enumerate(table.column_names):
        if name in texts:
            table = table.set_column(place, name, table[name].cast(pa.string()))
    if columns is None:
        # Sealed before any event had such a field.
        for name in (name for name in FIELDS if name not in kinds):
            table = table.append_column(name, pa.nulls(len(table), FIELDS[name]))
    return table


@contextmanager
def _bounded() -> Iterator[None]:
    """Context that limits the memory that Arrow can allocate."""
    pool = pa.default_memory_pool()
    # Arrow's default pool keeps freed memory, and reuse of it would not be counted.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        with limits.memory(TAKEN_BYTES):
            yield
    finally:
        pa.set_memory_pool(pool)


def _check_size(metadata: pq.FileMetaData) -> None:
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    values: dict[str, int] = {}
    for chunk in chunks:
        values[chunk.path_in_schema] = values.get(chunk.path_in_schema, 0) + chunk.num_values
    for what, there, most in (
        ("rows", metadata.num_rows, ROWS),
        ("columns and groups", len(chunks), PARTS),
        ("values in a column", max(values.values(), default=0), COLUMN_VALUES),
        ("bytes", sum(chunk.total_uncompressed_size for chunk in chunks), UNPACKED_BYTES),
    ):
        if not 0 <= there <= most:
            raise ValueError(f"it has {there:,} {what}; at most {most:,} are read")


def _length(texts: pa.DictionaryArray) -> int:
    """Bytes of all texts, each as often as it is there."""
    length: int | None = pc.sum(pc.binary_length(texts.dictionary).take(texts.indices)).as_py()
    return length or 0


def _values(column: pa.ChunkedArray) -> int:
    known: int = len(column) - column.null_count
    return known + (pc.sum(pc.list_value_length(column)).as_py() or 0) if pa.types.is_list(column.type) else known


def is_sealed(file: Path) -> bool:
    """Whether a Parquet file is a sealed session rather than someone's table."""
    return bool(_about(file))


def manifests(file: Path) -> tuple[list[Manifest], int]:
    """Manifests of a session without events, and its start in nanoseconds since 1970.

    Raises
    ------
    BundleError
        for a damaged file.
    """
    with _within(file):
        table = _open(file, ["manifest", "wall_ns"])
        found = [bundle.decode_manifest(text, file) for text in table["manifest"].drop_null().to_pylist()]
        return found, msgspec.convert(min(table["wall_ns"].drop_null().to_pylist()), limits.Nanoseconds)


def plan(file: Path) -> dict[str, Any] | None:
    """The session's plan, as `session.json` said it; None where it was sealed without one."""
    with _within(file):
        return msgspec.convert(_about(file).get("plan"), dict[str, Any] | None)


def stated(file: Path) -> Statement | None:
    """The plan that was stated before the session began; None where none was."""
    with _within(file):
        told = _about(file).get("stated")
    return None if told is None else statement.read(msgspec.json.encode(told), file)


def certificates(file: Path) -> list[Certificate]:
    """Certificates that were sealed with a session."""
    try:
        return msgspec.convert(_about(file)["certificates"], list[Certificate])
    except (KeyError, msgspec.ValidationError) as error:
        raise BundleError(f"{file}: damaged: {error}") from None
