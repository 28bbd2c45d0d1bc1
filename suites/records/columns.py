"""The columns of a sealed session: how manifests and events lie in a table.

A row is an event. The first row of a run (`event` is `run`) holds its manifest, and its events follow in order. Every row has
the columns of `RUN_COLUMNS`. The other columns are fields of events, and empty if an event has no such field.
"""

from __future__ import annotations

import hashlib
import itertools
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from suites.records.bundle import Bundle, Manifest
from suites.records.events import AnyEvent, Event

RUN_COLUMNS = ("run", "suite", "workload", "system", "replica", "seed", "block", "nodes", "explorers")
"""On every row; but for `run`, the name of its folder, fields of the manifest."""
OPTION = "options."
"""Begins the name of a column that holds an option of the manifest; a session has those that its runs have."""
RENAMED = {("histogram", "counts"): "histogram"}
"""Fields that have another type than a field of that name in another event, and their columns."""

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
KNOWN = [*COLUMNS.values(), pa.bool_()]
"""Types of columns; options may be of any that is no list."""


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """How a table is written, as arguments of `pyarrow.parquet.write_table`.

    Numbers of events have each byte together with those of the other rows: the upper ones are alike, and lower ones are often
    nothing. All the rest has a dictionary.
    """
    split: list[str] = []
    texts: list[str] = []
    for field in schema:
        inner = {field.name: field.type}
        if pa.types.is_list(field.type):
            inner = {f"{field.name}.list.element": field.type.value_type}
        elif pa.types.is_map(field.type):
            inner = {f"{field.name}.key_value.key": field.type.key_type, f"{field.name}.key_value.value": field.type.item_type}
        for path, kind in inner.items():
            (split if field.name in FIELDS and kind in (pa.int64(), pa.float64()) else texts).append(path)
    return {"use_dictionary": texts, "column_encoding": dict.fromkeys(split, "BYTE_STREAM_SPLIT")}


def digests_of(table: pa.Table, starts: Sequence[int]) -> list[str]:
    """SHA-256 over each run's rows: of each column that is not empty, in the order of names, its name and its values in JSON.

    Parameters
    ----------
    starts
        the first row of each run, ascending.
    """
    digests = [hashlib.sha256() for _ in starts]
    for name in sorted(table.column_names):
        column = table[name]
        if name == "digest" or column.null_count == len(column):
            continue
        # Rows with a value before each row. A column is converted once, and not once a run.
        known = np.concatenate([[0], np.cumsum(column.is_valid().to_numpy())]).tolist()
        values = column.to_pylist()
        for digest, (start, end) in zip(digests, itertools.pairwise([*starts, len(table)]), strict=True):
            if known[end] > known[start]:
                digest.update(msgspec.json.encode((name, values[start:end])))
    return [digest.hexdigest() for digest in digests]


def table_of(b: Bundle, axes: Iterable[str]) -> pa.Table:
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
    digest = pa.array([*digests_of(pa.table(columns), [0]), *[None] * len(b.events)], pa.string())
    return pa.table(columns | {"digest": digest})


def events_of(table: pa.Table, tags: Sequence[str]) -> list[Any]:
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
