"""Folders of bundles and sealed sessions, as a report reads them."""

from __future__ import annotations

import io
import json
import math
import random
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fuzz import Verdict, Wrong, folders, sessions
from benchmarks.fuzz.folders import Entry, File, Folder, Link, Pipe
from programs.characters import LONGEST, UNSEEN
from suites.records import bundle, columns, parquet, store
from suites.records.bundle import BundleError

LIMIT_S = 5.0
NAMES = ("suite", "profile", "workload", "system", "session")
"""Fields of a manifest that become part of file names."""
ESCAPED = Path("/tmp/tj-fuzz-escaped")
TEXTS = (
    *(
        "",
        "-",
        ".",
        "..",
        "../..",
        "../../../x",
        str(ESCAPED),
        "a/b",
        "a\x00b",
        "\x1b[2J\x1b]0;x\x07",
        "a\nb",
        "a\r\nb",
        "a\n\nb",
    ),
    *("<script>alert(1)</script>", '"><img src=x onerror=y>', "</svg><b>", "]]>", "&amp;", "{{ 7 * 7 }}", "{% raw %}", "<!--"),
    *("\\input{/etc/passwd}", "\\write18{id}", "$x_1^2$", "$\\frac{$", "%", "_^~#&", "\\", "[x](javascript:y)", "a | b", "|"),
    *(
        "=1+1",
        "+1",
        "-1+1",
        "@SUM(1)",
        "\t=1",
        "=cmd|' /C calc'!A0",
        "\u202egnp.exe",
        "\u2028",
        "\ufffe",
        "é",
        "龙芯",
        "\U0001f600",
    ),
    *(
        "x" * 65,
        "x" * 301,
        "x" * 5000,
        "tianji",
        "tianji-again",
        "tianji-copies",
        "sync",
        "-x",
        "A",
        "a_b",
        "nan",
        "inf",
        "null",
    ),
)
NUMBERS = (
    *(0, -1, 1, 2, 2**31, 2**53, 2**53 + 1, 2**62, 2**63, 2**64, 2**70, -(2**63), 10**300, 10**400),
    *(0.5, -0.5, 1e-320, 1e-9, 1e15, 1e16, 1e300, -1e300, 1e308, math.nan, math.inf, -math.inf),
)
VALUES: tuple[Any, ...] = (*TEXTS, *NUMBERS, None, True, False, [], {}, [1], ["x"], {"a": 1}, {"": None}, [[[]]])
LINKS = ("/dev/zero", "/dev/stdin", "/etc/passwd", "/proc/self/mem", ".", "..", "/", "nowhere", "bundle.json", "events.jsonl")


def mutate(rng: random.Random) -> bytes:
    """A session of some suite, loose or sealed, with something done to it."""
    suite = rng.choice(sorted(sessions.SOURCES))
    folder: Folder
    if rng.random() < 0.35:
        folder = {"one.parquet": File(_table(rng, sessions.sealed(suite)))}
        if rng.random() < 0.2:
            folder["sessions.toml"] = File(_notes(rng))
        changes = (_bytes, _place) if rng.random() < 0.3 else ()
    else:
        folder = dict(sessions.loose(suite))
        changes = (_json, _json, _json, _everywhere, _everywhere, _line, _line, _line, _bytes, _place, _twin, _rename)
    for _ in range(rng.choice((1, 1, 1, 2, 3)) if changes else 0):
        if folder:
            rng.choice(changes)(rng, folder)
    return folders.pack(folder)


def check(case: bytes) -> Verdict:
    """Read it."""
    with tempfile.TemporaryDirectory(prefix="tj-fuzz") as place:
        root = Path(place, "in")
        root.mkdir()
        folders.lay_out(folders.unpack(case), root)
        try:
            loaded = store.load([root])
        except BundleError as error:
            if len(str(error)) > LONGEST or re.search(f"[{UNSEEN}]", str(error)) or str(root) not in str(error):
                raise Wrong(f"refused with {str(error)[:200]!r}") from error
            return "refused"
    for b in loaded.bundles:
        _accept(b)
    return "accepted"


def _accept(b: bundle.Bundle) -> None:
    """Look at what was accepted: it is what nothing bad can come of."""
    m = b.manifest
    for name in NAMES:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", getattr(m, name)):
            raise Wrong(f"{name} is {getattr(m, name)!r}")
    for text in (m.system_title, m.configuration.get("workload", {}).get("title", ""), m.environment["cpu_model"]):
        if re.search(f"[{UNSEEN}]", text):
            raise Wrong(f"a title is {text!r}")
    for event in b.events:
        if event.ns < 0 or not re.fullmatch(r"[^/.][^\0]*", getattr(event, "file", "f")):
            raise Wrong(f"an event is {event}")
    # No number that JSON does not have.
    json.dumps(msgspec.to_builtins([m, b.events], str_keys=True), allow_nan=False)


def _some_file(rng: random.Random, folder: Folder) -> str | None:
    names = [name for name, entry in folder.items() if isinstance(entry, File)]
    return rng.choice(names) if names else None


def _bytes(rng: random.Random, folder: Folder) -> None:
    """Change bytes of a file, whatever they are."""
    if (name := _some_file(rng, folder)) is None:
        return
    data = bytearray(folder[name].data)  # type: ignore[union-attr]
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randint(0, len(data)) for _ in range(2))
        match rng.randrange(5):
            case 0 if data:
                data[min(at, len(data) - 1)] = rng.randrange(256)
            case 1:
                del data[at : min(end, at + 40)]
            case 2:
                data[at:at] = rng.choice(
                    (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"{", b"[" * 2000, b'"', b"\n", b"\x1b[2J", b",1" * 50)
                )
            case 3:
                del data[at:]
            case 4:
                data[at:at] = data[at : min(end, at + 4000)]
    folder[name] = File(bytes(data))


def _place(rng: random.Random, folder: Folder) -> None:
    """Put something else in the place of a file, or take it away."""
    name = rng.choice(sorted(folder))
    entry = folder.pop(name)
    others: tuple[Entry, ...] = (
        Link(rng.choice(LINKS)),
        Pipe(),
        File(b""),
        File(entry.data if isinstance(entry, File) else b"", rng.choice((2**21, 2**26, 2**27, 2**33))),
    )
    match rng.randrange(6):
        case 0:
            return
        case 1:
            folder[f"{name}/x"] = entry
        case _:
            folder[name] = rng.choice(others)


def _twin(rng: random.Random, folder: Folder) -> None:
    """Have a run twice."""
    run = rng.choice(sorted(folder)).partition("/")[0]
    new = rng.choice((f"{run}-2", f"deep{'/x' * rng.choice((3, 20))}/{run}", f"{run}.partial", f"superseded/{run}"))
    folder |= {name.replace(run, new, 1): entry for name, entry in folder.items() if name.startswith(f"{run}/")}


def _rename(rng: random.Random, folder: Folder) -> None:
    """Give a run's folder another name."""
    run = rng.choice(sorted(folder)).partition("/")[0]
    text = rng.choice([text for text in TEXTS if "\0" not in text and len(text) < 200 and ".." not in text])
    for name in [name for name in folder if name.startswith(f"{run}/")]:
        folder[text.strip("/").replace("/", "-") + name.removeprefix(run)] = folder.pop(name)


def _json(rng: random.Random, folder: Folder) -> None:
    """Change a document in one place, and leave it JSON."""
    documents = [name for name, entry in folder.items() if name.endswith(".json") and isinstance(entry, File)]
    if documents:
        name = rng.choice(documents)
        folder[name] = File(_changed(rng, folder[name].data))  # type: ignore[union-attr]


def _everywhere(rng: random.Random, folder: Folder) -> None:
    """Change a name or a title in all manifests alike: it is then no odd one among others."""
    keys = rng.choice(
        (*([name] for name in NAMES), ["system_title"], ["configuration", "workload", "title"], ["environment", "cpu_model"])
    )
    text = rng.choice(TEXTS)
    for name, entry in folder.items():
        if name.endswith("bundle.json") and isinstance(entry, File):
            try:
                inside = manifest = json.loads(entry.data)
                for key in keys[:-1]:
                    inside = inside[key]
                inside[keys[-1]] = text
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
            folder[name] = File(json.dumps(manifest).encode())


def _line(rng: random.Random, folder: Folder) -> None:
    """Change an event in one place, or leave it out, or have it twice or elsewhere."""
    logs = [name for name, entry in folder.items() if name.endswith(".jsonl") and isinstance(entry, File)]
    if not logs:
        return
    name = rng.choice(logs)
    lines = folder[name].data.splitlines(keepends=True)  # type: ignore[union-attr]
    if not lines:
        return
    # As often of a rare kind as of a common one.
    kinds: dict[bytes, list[int]] = {}
    for at, line in enumerate(lines):
        kinds.setdefault(line[:18], []).append(at)
    at = rng.choice(kinds[rng.choice(sorted(kinds))])
    match rng.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randint(0, len(lines)), lines[at])
        case 2:
            lines = [line for line in lines if line[:18] != lines[at][:18]]
        case _:
            lines[at] = _changed(rng, lines[at].strip()) + b"\n"
    folder[name] = File(b"".join(lines))


def _changed(rng: random.Random, data: bytes) -> bytes:
    """JSON with another value, name or form in one place; with numbers and text that Python writes and JSON does not have."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        inside = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        places += [(one, key) for key, _ in inside]
        waiting += [each for _, each in inside]
    if not places:
        return data
    within, key = rng.choice(places)
    match rng.randrange(10):
        case 0:
            del within[key]
        case 1 if isinstance(within, dict):
            within[rng.choice(TEXTS)] = within.pop(key)
        case 2 if isinstance(within, dict):
            within[rng.choice(TEXTS)] = rng.choice(VALUES)
        case 3:
            within[key] = [within[key]] * rng.choice((1, 2, 20_000))
        case 4:
            deep: Any = within[key]
            for _ in range(rng.choice((10, 40, 900))):
                deep = {"a": deep} if rng.random() < 0.5 else [deep]
            within[key] = deep
        case 5 | 6 if isinstance(within[key], int | float):
            within[key] = rng.choice(NUMBERS)
        case 5 | 6 if isinstance(within[key], str):
            within[key] = rng.choice(TEXTS)
        case _:
            within[key] = rng.choice(VALUES)
    try:
        return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):
        return b"[" * 100_000


def _table(rng: random.Random, data: bytes) -> bytes:
    """A sealed session with something else in its table, whose digests are right again."""
    table = pq.read_table(pa.BufferReader(data))
    metadata = table.schema.metadata
    # What it has, and not what it lacks.
    column = rng.choice([name for name in table.column_names if name != "digest" and table[name].null_count < len(table)])
    place = table.column_names.index(column)
    known = [at for at, value in enumerate(table[column].to_pylist()) if value is not None]
    try:
        match rng.randrange(8):
            case 0:
                table = table.drop_columns([column])
            case 1:
                table = table.rename_columns([rng.choice(TEXTS) if name == column else name for name in table.column_names])
            case 2:
                table = table.set_column(
                    place, column, table[column].cast(rng.choice((pa.string(), pa.float64(), pa.binary())))
                )
            case 3:
                metadata = {parquet.KEY: _changed(rng, metadata[parquet.KEY])}
            case 4:
                table = pa.concat_tables([table.slice(at) for at in rng.sample(range(len(table)), 2)])
            case _ if column == "manifest":
                table = _with(
                    table, column, {at: _changed(rng, table[column][at].as_py().encode()).decode() for at in known[:1]}
                )
            case _:
                values = (
                    NUMBERS if pa.types.is_integer(table[column].type) or pa.types.is_floating(table[column].type) else VALUES
                )
                chosen = known if rng.random() < 0.1 else [rng.choice(known)]
                table = _with(table, column, dict.fromkeys(chosen, rng.choice(values)))
        # Without its columns, or with others, it keeps the digests of before.
        with suppress(pa.ArrowException, TypeError, ValueError, KeyError, AttributeError):
            table = _digested(table)
        sink = io.BytesIO()
        size = rng.choice((10**6, 500))
        pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd", row_group_size=size)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError, AttributeError):
        # No Parquet file can hold it.
        return data
    return sink.getvalue()


def _with(table: pa.Table, column: str, values: dict[int, Any]) -> pa.Table:
    """A table with other values in a column, of its type where that is possible."""
    changed = table[column].to_pylist()
    for at, value in values.items():
        changed[at] = value
    try:
        made = pa.array(changed, table.schema.field(column).type)
    except (pa.ArrowException, TypeError, OverflowError):
        made = pa.array(changed)
    return table.set_column(table.column_names.index(column), column, made)


def _digested(table: pa.Table) -> pa.Table:
    """The same with digests of what it has now."""
    tags = table["event"].to_pylist()
    starts = [at for at, tag in enumerate(tags) if tag == "run"]
    digests: list[str | None] = [None] * len(table)
    for start, digest in zip(starts, columns.digests_of(table, starts), strict=True):
        digests[start] = digest
    return table.set_column(table.column_names.index("digest"), "digest", pa.array(digests, pa.string()))


def _notes(rng: random.Random) -> bytes:
    """Random contents of a `sessions.toml`."""
    text = json.dumps(rng.choice(TEXTS))
    return rng.choice(
        (
            f'["one.parquet"]\npurpose = {text}\n',
            f'["one.parquet"]\npurpose = "x"\nrenamed.tianji = {{ id = {text}, title = "x" }}\n',
            f'["one.parquet"]\npurpose = "x"\nrenamed.tianji = {{ id = "x", title = {text} }}\n',
            f'["one.parquet"]\npurpose = "x"\n["one.parquet".superseded]\nby = {text}\nwhy = {text}\n',
            f"[{text}]\n" + "a = " + "[" * rng.choice((1, 3000)),
        )
    ).encode("utf-8", "surrogatepass")
