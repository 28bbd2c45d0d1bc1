"""Sealed sessions: everything that was measured, in a file that pandas opens, and nothing that is not whole."""

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import past
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bundles import EVENTS, make

from programs.cli import run
from suites.__main__ import main
from suites.records import archive, bundle, columns, listing, notes, store
from suites.records.bundle import BundleError
from suites.records.events import (
    Counter,
    Delays,
    Episode,
    Evaluation,
    Histogram,
    NodeCheck,
    NodeUsage,
    Phase,
    Process,
    Progress,
    Transfer,
)

ROOT = Path(__file__).parents[3]
ALL = [
    Phase(1, "setup", 10**18),
    *EVENTS,
    Progress(10, "actor g0.a0", {"steps": 3.0, "chunks": 1.0}),
    Process(11, "learner g0", {"update": 0.5}, {}, 0.75, 1 << 30),
    Counter(12, "learner_lag", 0.1),
    Histogram(13, "learner_age", {0: 5, 7: 1}),
    NodeCheck(
        14,
        node=0,
        address="10.0.0.1",
        cores=None,
        cores_measured=0.2,
        link_bits_per_s=10**9,
        link_measured_bits_per_s=None,
        round_trip_s=1e-4,
    ),
    NodeUsage(
        15,
        node=0,
        cpu_s=1.0,
        throttled_s=None,
        daemons_cpu_s=0.0,
        wire_sent_bytes=2**40,
        wire_received_bytes=None,
        socket_bytes=1,
        control_bytes=0,
    ),
    Transfer(16, size_bytes=1024, messages=10, intervals=9.0, seconds=0.1, cpu_s=0.2, tcp_bytes=None),
    Delays(17, kind="round_trip", size_bytes=1024, count=3, percentiles_ns=list(range(101))),
]


def session(tmp_path, **more):
    folder = tmp_path / "session"
    make(folder, "w-x.b0.p0.sync", ALL, environment={"cpu_usable": 2, "cpu_model": "Abacus", "git_commit": "c" * 40}, **more)
    make(folder, "w-x.b0.p1.tianji", EVENTS, system="tianji", position=1, status="failed", error="x", exit_status=1)
    return folder


def test_there_is_an_example_of_every_event():
    assert {type(event) for event in ALL} == {kind.type for kind in columns.KINDS.values()}


def test_a_sealed_session_has_everything_that_its_folder_had(tmp_path):
    folder, file = session(tmp_path), tmp_path / "one.parquet"
    found = bundle.Equivalence("w-x", "sync", "gradient", 1e-7, 1.0, True)
    certificate = bundle.Certificate("tianji-bench/certificate/1", [found], {"sb3": "absent"})
    bundle.write_certificate(certificate, folder)
    assert archive.seal(folder, file) == 2
    loose, sealed = store.load([folder]), store.load([file])
    assert [(b.manifest, b.events, b.path.name) for b in sealed.bundles] == [
        (b.manifest, b.events, b.path.name) for b in loose.bundles
    ]
    assert [b.events for b in loose.bundles] == [ALL, EVENTS]
    assert (
        sealed.certificates == loose.certificates == [bundle.Certificate(found_in, [found], {"sb3": "absent"})]
        if (found_in := "tianji-bench/certificate/1")
        else False
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.parquet", "session"]


@pytest.mark.parametrize(
    ("suite", "judged", "keeps"),
    [("asynchrony", True, True), ("asynchrony", False, False), ("scaling", False, False), ("disciplines", False, True)],
)
def test_episodes_are_sealed_where_something_is_drawn_from_them(tmp_path, suite, judged, keeps):
    events = [event for event in EVENTS if judged or not isinstance(event, Evaluation)]
    make(tmp_path / "session", events=events, suite=suite)
    archive.seal(tmp_path / "session", tmp_path / "one.parquet")
    (sealed,) = archive.read(tmp_path / "one.parquet")
    assert sealed.events == [event for event in events if keeps or not isinstance(event, Episode)]


def test_pandas_opens_it(tmp_path):
    archive.seal(session(tmp_path), tmp_path / "one.parquet")
    table = pd.read_parquet(tmp_path / "one.parquet")
    assert list(table.columns) == list(columns.COLUMNS)
    assert set(table["run"]) == {"w-x.b0.p0.sync", "w-x.b0.p1.tianji"}
    assert list(table[table.event == "episode"]["return"]) == [9.0, 9.0]
    (first, second) = table[table.event == "run"].digest
    assert len(first) == len(second) == 64
    assert first != second
    (counts,) = table[table.event == "progress"].counts
    assert dict(counts) == {"steps": 3.0, "chunks": 1.0}


def test_the_columns_are_described_with_their_types_and_events():
    rows = re.findall(r"^\| `(\S+)` \| ([^|]+) \| [^|]*\| ([^|]+) \|", (ROOT / "docs" / "data.md").read_text(), re.M)
    kinds = {"string": "string", "int64": "int64", "double": "double", "map of": "map<", "list of": "list<"}
    assert [name for name, _, _ in rows] == list(columns.COLUMNS)
    for name, kind, where in rows:
        assert str(columns.COLUMNS[name]).startswith(next(arrow for text, arrow in kinds.items() if kind.startswith(text))), (
            name
        )
        events = {tag for tag, one in columns.KINDS.items() if name in one.columns}
        assert where in ("every row", "every event", "`run`") or set(re.findall(r"`(\w+)`", where)) == events, name


def test_the_document_s_example_draws_a_curve_for_each_system(monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL)
    assert len(list(filter(None, example.splitlines()))) == 3
    monkeypatch.chdir(ROOT)
    matplotlib.use("Agg")
    exec(example, {})
    drawn = plt.gca().get_lines()
    assert {line.get_label() for line in drawn} == {"tianji", "sync", "xingtian", "rllib", "sb3"}
    assert all(len(line.get_ydata()) > 1000 for line in drawn)
    plt.close("all")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda folder: (folder / "session.json").write_text('{"cells": [{}, {}, {}]}'), "2 of 3 cells are finished"),
        (lambda folder: make(folder, "w-x.b1.p0.sync", session="other"), "2 sessions"),
        (lambda folder: (folder.parent / "one.parquet").write_bytes(b"precious"), "exists"),
    ],
)
def test_what_cannot_be_sealed_is_refused_in_one_line(tmp_path, capsys, harm, says):
    folder, file = session(tmp_path), tmp_path / "one.parquet"
    harm(folder)
    before = file.read_bytes() if file.exists() else None
    assert run("tianji-bench", main, ["pack", str(folder), "--out", str(file)]) == 2
    assert says in capsys.readouterr().err
    assert (file.read_bytes() if file.exists() else None) == before


def test_no_bundles_no_sealed_session(tmp_path):
    (tmp_path / "empty").mkdir()
    for call in (lambda: archive.seal(tmp_path / "empty", tmp_path / "x.parquet"), lambda: store.load([tmp_path / "empty"])):
        with pytest.raises(BundleError, match="holds no bundle"):
            call()
    with pytest.raises(BundleError, match="no such folder"):
        store.load([tmp_path / "nowhere"])
    with pytest.raises(BundleError, match=r"ends in \.parquet"):
        archive.seal(tmp_path / "empty", tmp_path / "x.zip")


def test_damage_is_found(tmp_path):
    file = tmp_path / "one.parquet"
    archive.seal(session(tmp_path), file)
    whole = file.read_bytes()
    table = pd.read_parquet(file)
    schema = pq.read_schema(file)
    table.loc[table.event == "episode", "return"] += 1.0
    pq.write_table(pa.Table.from_pandas(table, schema=schema), file)
    with pytest.raises(BundleError, match=r"damaged: w-x\.b0\.p0\.sync is not what was sealed"):
        store.load([file])
    file.write_bytes(whole[:-100])
    with pytest.raises(BundleError, match="damaged"):
        store.load([file])


def test_a_session_that_was_sealed_before_a_field_was_thought_of_is_read(tmp_path):
    file = tmp_path / "one.parquet"
    folder = tmp_path / "session"
    make(folder, "w-x.b0.p0.sync")
    archive.seal(folder, file)
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["round_trip_s", "wire_sent_bytes"]), file)
    assert [b.events for b in store.load([file]).bundles] == [EVENTS]


def test_parquet_of_another_kind_is_no_session(tmp_path):
    archive.seal(session(tmp_path), tmp_path / "one.parquet")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    assert store.sealed([tmp_path]) == [tmp_path / "one.parquet"]
    with pytest.raises(BundleError, match="no sealed session"):
        archive.read(tmp_path / "other.parquet")


def write_notes(tmp_path, **more):
    told = "\n".join(f"{key} = {value}" for key, value in ({"by": "'new.parquet'", "why": "'it stood still'"} | more).items())
    (tmp_path / "sessions.toml").write_text(
        f"['old.parquet']\npurpose = 'old'\n['old.parquet'.superseded]\n{told}\n['new.parquet']\npurpose = 'new'\n"
    )


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({}, 0),
        ({"systems": ["tianji"]}, 1),
        ({"systems": ["other"]}, 2),
        ({"workloads": ["w-x"]}, 0),
        ({"workloads": ["other"]}, 2),
    ],
)
def test_runs_that_were_superseded_are_left_out_beside_those_that_took_their_place(tmp_path, more, left):
    for name in ("old", "new"):
        archive.seal(session(tmp_path / name), tmp_path / f"{name}.parquet")
    write_notes(tmp_path, **more)
    both = store.load([tmp_path / "old.parquet", tmp_path / "new.parquet"])
    assert len(both.bundles) == 2 + left
    assert [reason.why for _, reason in both.superseded] == ["it stood still"] * (2 - left)
    assert {b.path.parent.name for b, _ in both.superseded} <= {"old.parquet"}
    # By itself it is what it was.
    alone = store.load([tmp_path / "old.parquet"])
    assert (len(alone.bundles), alone.superseded) == (2, [])


def test_a_series_and_a_deviation_are_read_beside_the_notes(tmp_path):
    archive.seal(session(tmp_path / "one"), tmp_path / "old.parquet")
    (tmp_path / "sessions.toml").write_text(
        "[[series]]\nworkload = 'w-x'\nbegins = '2026-11-28T09:00:00Z'\nwhy = 'new code'\nblocks = 32\n"
        "['old.parquet']\npurpose = 'old'\ndeviation = 'fewer seeds'\n"
    )
    assert notes.note(tmp_path / "old.parquet").deviation == "fewer seeds"
    (series,) = store.load([tmp_path / "old.parquet"]).series
    assert (series.workload, series.begins, series.blocks) == ("w-x", "2026-11-28T09:00:00Z", 32)
    (tmp_path / "sessions.toml").write_text("[[series]]\nworkload = 'w-x'\n")
    with pytest.raises(BundleError, match=r"sessions.toml: damaged: .*begins"):
        store.load([tmp_path / "old.parquet"])


def test_notes_that_cannot_be_read_are_told_of(tmp_path):
    archive.seal(session(tmp_path), tmp_path / "old.parquet")
    (tmp_path / "sessions.toml").write_text("['old.parquet']\npurpos = 'x'\n")
    with pytest.raises(BundleError, match=r"sessions.toml: damaged: .*purpos"):
        store.load([tmp_path / "old.parquet"])


@pytest.mark.long(why="every sealed session is read")
def test_what_is_kept_here_is_described_and_the_readme_says_the_same(capsys):
    results = ROOT / "results"
    text = (results / "README.md").read_text()
    for part, lines in listing.tables(results).items():
        between = re.findall(rf"<!-- {part}: .*? not by hand -->\n\n(.*?)\n<!-- /{part} -->", text, re.DOTALL)
        assert between == [lines], part
    for part, options in (("sessions", []), ("machines", ["--machines"])):
        assert run("tianji-bench", main, ["sessions", str(results), *options]) == 0
        assert listing.tables(results)[part] == capsys.readouterr().out
    sealed = store.sealed([results])
    # A submission brings its own note.
    assert all(notes.note(path) for path in sealed)
    own = [path for path in sealed if "submitted" not in path.relative_to(results).parts]
    files = {path.relative_to(results).as_posix() for path in own}
    known = notes.notes(results / notes.FILE)
    assert files == {name for name, note in known.items() if not note.commit}
    for note in known.values():
        assert note.superseded is None or note.superseded.by in files


def test_what_is_kept_is_little():
    """At most 50 files and 15 MB, and a session has at most so many bytes a run."""
    results = ROOT / "results"
    kept = [path for path in results.rglob("*") if path.is_file() and "submitted" not in path.parts]
    committed = [path for path in kept if not re.match(r"[a-z]+-\d{3}$", path.relative_to(results).parts[0])]
    assert len(committed) <= 50
    assert sum(path.stat().st_size for path in committed) <= 15_000_000
    for file in (path for path in committed if path.suffix == ".parquet"):
        runs, _ = archive.manifests(file)
        assert file.stat().st_size <= 32_000 * (1 + len(runs)), file
    beside = [path for path in (ROOT / "docs" / "results").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in beside) <= 3_000_000


def test_sessions_of_the_history_can_be_read():
    known = notes.notes(ROOT / "results" / notes.FILE)
    name = min((name for name, note in known.items() if note.commit), key=len)
    assert archive.read(past.session(name))


def test_a_system_that_has_another_name_today_is_read_under_it(tmp_path):
    folder, file = session(tmp_path), tmp_path / "sealed" / "one.parquet"
    finding = bundle.Equivalence("w-x", "sync", "gradient", 1e-7, 1.0, True)
    bundle.write_certificate(bundle.Certificate("tianji-bench/certificate/1", [finding], {"sync": "why"}), folder)
    archive.seal(folder, file)
    (file.parent / "sessions.toml").write_text(
        '["one.parquet"]\npurpose = "x"\nrenamed.sync = { id = "sync-one", title = "one actor" }\n'
    )
    loaded = store.load([file.parent])
    assert [(b.manifest.system, b.manifest.system_title) for b in loaded.bundles][:1] == [("sync-one", "one actor")]
    assert loaded.bundles[1].manifest.system == "tianji"
    (certificate,) = loaded.certificates
    assert certificate.findings[0].system == "sync-one"
    assert certificate.failures == {"sync-one": "why"}
    # The file stays what was measured.
    assert [b.manifest.system for b in archive.read(file)] == ["sync", "tianji"]
