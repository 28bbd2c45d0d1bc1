"""Sealed sessions: every run of a session in one Parquet file, which `pandas.read_parquet` opens.

`suites.records.columns` says what lies where, and docs/data.md describes all columns. The file's metadata holds the session's
plan and certificate.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from suites.records import bundle, limits, parquet, statement
from suites.records.bundle import Bundle, BundleError, Certificate, Manifest
from suites.records.columns import digests_of, encodings, events_of, table_of
from suites.records.events import Episode, Evaluation
from suites.records.limits import Room
from suites.records.parquet import RUNS
from suites.records.statement import Statement

SUFFIX = ".parquet"
COMPRESSION_LEVEL = 22
THROUGHPUT = ("asynchrony", "scaling")
"""Suites whose runs are measured for throughput alone unless their policies are evaluated."""
Run = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", max_length=200)]
"""The name of a run's folder."""


def seal(folder: Path, file: Path, mark: Callable[[Bundle], Bundle] | None = None, *, stopped: str | None = None) -> int:
    """Seal every published bundle under a folder into a new file, at once; returns their number.

    The folder stays as it is.

    Parameters
    ----------
    mark
        changes what a run says of itself, such as its division.
    stopped
        why a session ended before its plan was done, which is sealed with its plan. None: it is whole.

    Raises
    ------
    BundleError
        when the folder has no bundle, or bundles of several sessions, or the file exists, or cells are not finished and nobody
        says why, or somebody does and all are.
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
    unfinished = 0 if plan is None else len(plan["cells"]) - len(bundles)
    if unfinished < 0 or (unfinished and stopped is None):
        raise BundleError(
            f"{folder}: {len(bundles)} of {len(bundles) + unfinished} cells are finished; go on with --resume, then seal, or "
            "say with --stopped why it ends here"
        )
    certificates = bundle.certificates([folder])
    stated = statement.in_folder(folder)
    if stated is not None and stated.session != sessions[0]:
        raise BundleError(f"{folder}: its {statement.FILE} is of another session")
    if stopped is not None:
        if not unfinished or stated is None:
            raise BundleError(f"{folder}: --stopped is for a session with a stated plan of which cells are not finished")
        stated = msgspec.structs.replace(stated, stopped=stopped)
    told = {"schema": parquet.SCHEMA, "session": sessions[0], "plan": plan, "stated": stated, "certificates": certificates}
    return write(bundles, file, told)


def write(bundles: Sequence[Bundle], file: Path, told: dict[str, Any]) -> int:
    """Write the runs of a session into a new file at once, and return their number.

    What was written is read again and compared before the file gets its name.

    Parameters
    ----------
    told
        what the file says beside its runs, as `about` reads it.

    Raises
    ------
    BundleError
        where the file exists, or what was written differs.
    """
    if file.suffix != SUFFIX:
        raise BundleError(f"{file}: a sealed session is a file that ends in {SUFFIX}")
    if file.exists():
        raise BundleError(f"{file}: exists; a sealed session is never written over: name a new file")
    axes = sorted({name for b in bundles for name in b.manifest.options})
    table = pa.concat_tables([table_of(b, axes) for b in bundles], promote_options="permissive").combine_chunks()
    table = table.replace_schema_metadata({parquet.KEY: parquet.packed(told)})
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(file.name + ".new")
    pq.write_table(
        table,
        new,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        **encodings(table.schema),
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
    with parquet.within(file):
        table = parquet.table_in(file)
        if room:
            room.take(sum(map(parquet.values_of, table.columns)), file)
        names, tags, manifests, digests = (table[name].to_pylist() for name in ("run", "event", "manifest", "digest"))
        starts = [place for place, tag in enumerate(tags) if tag == "run"]
        if starts[:1] != [0]:
            raise BundleError(f"{file}: damaged: it does not begin with a run")
        if len(starts) > RUNS:
            raise BundleError(f"{file}: has {len(starts):,} runs; at most {RUNS:,} are read")
        events = events_of(table, tags)
        found = []
        for start, end in itertools.pairwise([*starts, len(tags)]):
            place = file / msgspec.convert(names[start], Run)
            manifest = bundle.decode_manifest(msgspec.convert(manifests[start], str), place)
            found.append(Bundle(manifest, events[start + 1 : end], place))
        for start, b, digest in zip(starts, found, digests_of(table, starts), strict=True):
            if digest != digests[start]:
                raise BundleError(f"{file}: damaged: {b.path.name} is not what was sealed")
    return found


def digests(file: Path) -> dict[str, str]:
    """The digest of each run, by its name."""
    with parquet.within(file):
        table = parquet.table_in(file, ["run", "digest"]).drop_null()
        return dict(zip(*(table[name].to_pylist() for name in ("run", "digest")), strict=True))


def about(file: Path) -> dict[str, Any]:
    """What a sealed session says beside its runs: plan, statement and certificates."""
    return parquet.about_of(file)


def is_sealed(file: Path) -> bool:
    """Whether a Parquet file is a sealed session rather than someone's table."""
    return bool(parquet.about_of(file))


def manifests(file: Path) -> tuple[list[Manifest], int]:
    """Manifests of a session without events, and its start in nanoseconds since 1970.

    Raises
    ------
    BundleError
        for a damaged file.
    """
    with parquet.within(file):
        table = parquet.table_in(file, ["manifest", "wall_ns"])
        found = [bundle.decode_manifest(text, file) for text in table["manifest"].drop_null().to_pylist()]
        return found, msgspec.convert(min(table["wall_ns"].drop_null().to_pylist()), limits.Nanoseconds)


def plan(file: Path) -> dict[str, Any] | None:
    """The session's plan, as `session.json` said it; None where it was sealed without one."""
    with parquet.within(file):
        return msgspec.convert(parquet.about_of(file).get("plan"), dict[str, Any] | None)


def stated(file: Path) -> Statement | None:
    """The plan that was stated before the session began; None where none was."""
    with parquet.within(file):
        told = parquet.about_of(file).get("stated")
    return None if told is None else statement.read(msgspec.json.encode(told), file)


def certificates(file: Path) -> list[Certificate]:
    """Certificates that were sealed with a session."""
    try:
        return msgspec.convert(parquet.about_of(file)["certificates"], list[Certificate])
    except (KeyError, msgspec.ValidationError) as error:
        raise BundleError(f"{file}: damaged: {error}") from None
