"""Reading a Parquet file that may lie: what it would take is known before it is unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suites.records import limits
from suites.records.bundle import BundleError
from suites.records.columns import COLUMNS, FIELDS, KNOWN

SCHEMA = "tianji-bench/sealed/1"
KEY = b"tianji-bench"
PACKED = "packed"
FILE_BYTES, UNPACKED_BYTES, TAKEN_BYTES = 64 << 20, 128 << 20, 768 << 20
"""Limits in bytes: of a file, of its unpacked columns and texts, and of the memory for reading it."""
ROWS, COLUMN_VALUES, RUNS = 1_000_000, 2_500_000, 10_000
"""Limits of a file's rows, values in a column, and runs. A column of lists has more values than rows."""
PARTS = 1_000
"""Limit of a file's columns and groups of rows."""


@contextmanager
def within(file: Path) -> Iterator[None]:
    """Say in one line why a file cannot be read."""
    try:
        yield
    except MemoryError:
        raise BundleError(f"{file}: damaged: it would take more than {TAKEN_BYTES >> 20} MiB of memory") from None
    except (KeyError, TypeError, ValueError, OSError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise BundleError(f"{file}: damaged: {str(error).partition(chr(10))[0]}") from None


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


def about_of(file: Path) -> dict[str, Any]:
    """Metadata of a file; empty for another kind of Parquet file."""
    with within(file), _parquet(file) as parquet:
        told = (parquet.metadata.metadata or {}).get(KEY, b"{}")
        if len(told) > limits.DOCUMENT_BYTES:
            raise ValueError(f"it says {len(told):,} bytes of itself")
        about = msgspec.json.decode(told, type=dict[str, Any])
        if (more := about.pop(PACKED, None)) is not None:
            about |= msgspec.json.decode(_unpacked(msgspec.convert(more, bytes)), type=dict[str, Any])
        limits.plain(about)
    if about and about.get("schema") != SCHEMA:
        raise BundleError(f"{file}: has schema {about.get('schema')}; this version reads {SCHEMA}")
    return about


def packed(about: dict[str, Any]) -> bytes:
    """Metadata of a file: its schema as it is, and the rest compressed, for plans of many cells are long."""
    rest = {name: value for name, value in about.items() if name != "schema"}
    return msgspec.json.encode({"schema": about["schema"], PACKED: zlib.compress(msgspec.json.encode(rest), 9)})


def _unpacked(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, limits.DOCUMENT_BYTES)
    except zlib.error as error:
        raise ValueError(f"what it says of itself cannot be unpacked: {error}") from None
    if not inflater.eof:
        raise ValueError(f"it says more than {limits.DOCUMENT_BYTES:,} bytes of itself")
    return found


def table_in(file: Path, columns: list[str] | None = None) -> pa.Table:
    """Read the table of a sealed session, or some of its columns.

    The memory needed is computed before it is used, because a few compressed bytes may expand to many values. Texts are first
    read as indexes into a dictionary and counted.
    """
    if not about_of(file):
        raise BundleError(f"{file}: is no sealed session; `python -m suites pack` makes them")
    with _parquet(file, page_checksum_verification=True) as parquet:
        _check_size(parquet.metadata)
        kinds = {field.name: field.type for field in parquet.schema_arrow}
        texts = [name for name, kind in kinds.items() if kind == pa.string()]
        wrong = [name for name, kind in kinds.items() if kind not in KNOWN or COLUMNS.get(name, kind) != kind]
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


def values_of(column: pa.ChunkedArray) -> int:
    """How many values a column holds, those of its lists included."""
    known: int = len(column) - column.null_count
    return known + (pc.sum(pc.list_value_length(column)).as_py() or 0) if pa.types.is_list(column.type) else known
