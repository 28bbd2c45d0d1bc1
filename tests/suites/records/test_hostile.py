"""Malicious bundles: refused in one line that names the file, quickly and with little memory."""

import json
import os
import resource
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bundles import ENVIRONMENT, EVENTS, WORKLOAD, make

from programs.characters import LONGEST, one_line, visible
from suites.records import archive, bundle, columns, limits, notes, parquet, store
from suites.records.bundle import BundleError

MEBIBYTE = 1 << 20


def refused(root):
    """The line that a folder is refused with, in the time and the memory that this may take."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BundleError) as raised:
        store.load([root])
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024
    text = str(raised.value)
    assert text.isprintable()
    assert str(root) in text
    return text


def edit(path, **changes):
    file = path / "bundle.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("field", ["suite", "profile", "workload", "system", "session"])
@pytest.mark.parametrize(
    "text",
    ["../..", "/tmp/x", "a/b", "", "-a", "A", "a\nb", "a\n", "a\0", "\\input{x}", "$a", '"', "a|b", "a" * 65, ["a"], None, 3],
)
def test_names_are_names(tmp_path, field, text):
    edit(make(tmp_path), **{field: text})
    assert "bundle.json" in refused(tmp_path)


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2J", "a\0b", "\u202ea", "\u2028", "\ufffe", "x" * 301])
def test_titles_are_a_line_that_can_be_seen(tmp_path, text):
    for name, changes in {
        "a": {"system_title": text},
        "b": {"configuration": {"workload": WORKLOAD | {"title": text}}},
        "c": {"environment": ENVIRONMENT | {"cpu_model": text}},
        "d": {"options": {"tail": text}},
    }.items():
        edit(make(tmp_path / name), **changes)
        assert "bundle.json" in refused(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"environment": {}}, "cpu_model"),
        ({"environment": ENVIRONMENT | {"memory_bytes": "many"}}, "memory_bytes"),
        ({"environment": ENVIRONMENT | {"packages": [1]}}, "packages"),
        ({"environment": ENVIRONMENT | {"date": 20250101}}, "date"),
        ({"configuration": {}}, "workload"),
        ({"configuration": {"workload": [1]}}, "workload"),
        ({"configuration": {"workload": WORKLOAD | {"thresholds": {"training": "high", "evaluated": 1.0}}}}, "training"),
        ({"configuration": {"workload": WORKLOAD | {"algo": "dqn"}}}, "table dqn"),
        ({"configuration": {"workload": WORKLOAD | {"budget_steps": 2**62}}}, "budget_steps"),
        ({"configuration": {"workload": WORKLOAD, "x": 10**301}}, "out of range"),
        ({"suite": "transmission"}, "ceiling"),
        ({"suite": "elsewhere", "configuration": {"x": 10**301}}, "out of range"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**70}, "seed"),
        ({"block": 2**62}, "block"),
        ({"replica": 2}, "replica"),
        ({"nodes": 0}, "nodes"),
        ({"phases_s": {"setup": -1.0}}, "phases_s"),
        ({"phases_s": {"setup": 1e300}}, "phases_s"),
        ({"options": {"../x": 1}}, "options"),
        ({"options": {"x": 2**70}}, "options"),
    ],
)
def test_a_manifest_holds_what_its_suite_promises(tmp_path, changes, says):
    edit(make(tmp_path), **changes)
    text = refused(tmp_path)
    assert says in text
    assert "bundle.json" in text


@pytest.mark.parametrize(
    "line",
    [
        '{"event":"first_step","ns":-1}',
        f'{{"event":"first_step","ns":{2**70}}}',
        '{"event":"first_step","ns":1e5}',
        f'{{"event":"phase","ns":1,"name":"setup","wall_ns":{2**70}}}',
        f'{{"event":"episode","ns":1,"return":1,"length":1,"steps":{2**62}}}',
        '{"event":"episode","ns":1,"return":NaN,"length":1,"steps":1}',
        '{"event":"episode","ns":1,"return":1e999,"length":1,"steps":1}',
        '{"event":"episode","ns":1,"return":1e300,"length":1,"steps":1}',
        '{"event":"snapshot","ns":1,"steps":1,"version":1,"file":"../x"}',
        '{"event":"snapshot","ns":1,"steps":1,"version":1,"file":"/etc/passwd"}',
        '{"event":"evaluation","ns":1,"steps":1,"version":1,"purpose":"curve","returns":[]}',
        '{"event":"process","ns":1,"role":"a\\nb","busy_s":{},"wait_s":{},"cpu_s":1,"peak_rss_bytes":1}',
        '{"event":"process","ns":1,"role":"a","busy_s":{"env":-1},"wait_s":{},"cpu_s":1,"peak_rss_bytes":1}',
        f'{{"event":"histogram","ns":1,"name":"x","counts":{{"{2**70}":1}}}}',
        '{"event":"histogram","ns":1,"name":"x","counts":{"1":-1}}',
        '{"event":"histogram","ns":1,"name":"x","counts":{"-1":1}}',
        '{"event":"transfer","ns":1,"size_bytes":0,"messages":1,"intervals":1,"seconds":1,"cpu_s":1,"tcp_bytes":null}',
        '{"event":"transfer","ns":1,"size_bytes":1,"messages":1,"intervals":1,"seconds":0,"cpu_s":1,"tcp_bytes":null}',
        '{"event":"delays","ns":1,"kind":"round_trip","size_bytes":1,"count":1,"percentiles_ns":[1]}',
        '{"event":"counter","ns":1,"name":"\\ud800","value":1}',
        "[" * 100_000,
        '{"event":"first_step","ns":' + "1" * 300_000 + "}",
        '{"event":"evaluation","ns":1,"steps":1,"version":1,"purpose":"curve","returns":[' + "1," * 20_000 + "1]}",
    ],
)
def test_events_are_within_bounds(tmp_path, line):
    path = make(tmp_path)
    with (path / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    assert f"events.jsonl: line {len(EVENTS) + 1}" in refused(tmp_path)


def test_what_is_nested_without_end_is_refused(tmp_path):
    for name, levels in (("a", 100), ("b", 100_000)):
        path = make(tmp_path / name)
        text = (path / "bundle.json").read_text()
        deep = text.replace('"environment": {', '"environment": {"x": ' + "[" * levels + "]" * levels + ", ")
        (path / "bundle.json").write_text(deep)
        assert "bundle.json" in refused(tmp_path / name)


@pytest.mark.parametrize("name", ["bundle.json", "events.jsonl", "certificate.json", "one.parquet"])
@pytest.mark.parametrize(
    "put",
    [
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(__file__),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.mkdir(),
        lambda path: os.truncate(path, 2**40) if path.touch() is None else None,
    ],
    ids=["pipe", "zero", "outside", "nowhere", "folder", "hole"],
)
def test_only_regular_files_are_read_and_none_without_end(tmp_path, name, put):
    place = make(tmp_path) / name
    place.unlink(missing_ok=True)
    put(place)
    assert name in refused(tmp_path)


def test_a_link_that_was_named_is_followed(tmp_path):
    archive.seal(make(tmp_path).parent, tmp_path / "one.parquet")
    (tmp_path / "link.parquet").symlink_to("one.parquet")
    assert len(store.load([tmp_path / "link.parquet"]).bundles) == 1


def test_many_small_events_take_no_more_than_is_allowed(tmp_path):
    path = make(tmp_path)
    with (path / "events.jsonl").open("ab") as file:
        file.write(b'{"event":"first_step","ns":1}\n' * (limits.EVENTS_BYTES // 30 - 20))
    assert "more values than are read" in refused(tmp_path)


def test_many_runs_take_no_more_than_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ALL_VALUES", 50)
    for name in "abc":
        make(tmp_path, name, session=name)
    assert "more values than are read" in refused(tmp_path)
    archive.seal(make(tmp_path / "d").parent, tmp_path / "d" / "one.parquet")
    monkeypatch.setattr(limits, "ALL_VALUES", 20)
    assert "more values than are read" in refused(tmp_path / "d" / "one.parquet")


def test_folders_are_walked_so_far_and_no_farther(tmp_path):
    make(tmp_path / "/".join("x" * limits.DEPTH))
    assert "too deep" in refused(tmp_path)
    make(tmp_path / "y", "a\x1bb")
    assert "cannot be shown" in refused(tmp_path / "y")


def test_no_link_to_a_folder_is_followed(tmp_path):
    make(tmp_path / "there")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there")
    assert "holds no bundle" in refused(tmp_path / "here")


def sealed(tmp_path):
    file = tmp_path / "one.parquet"
    archive.seal(make(tmp_path / "in").parent, file)
    return file, pq.read_table(file)


def replaced(file, table, column, values, kind=None):
    """Write the table with another column, and a digest that is right again."""
    made = pa.array(values, kind or table.schema.field(column).type)
    table = table.set_column(table.column_names.index(column), column, made)
    digest = [*columns.digests_of(table, [0]), *[None] * (len(table) - 1)]
    table = table.set_column(table.column_names.index("digest"), "digest", pa.array(digest, pa.string()))
    pq.write_table(table, file, compression="zstd")


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("ns", -1, None),
        ("ns", 2**62 + 1, None),
        ("steps", 2**62, None),
        ("return", float("nan"), None),
        ("return", float("inf"), None),
        ("returns", [float("nan")], None),
        ("returns", [None], None),
        ("file", "../x", None),
        ("event", "party", None),
        ("return", "x", pa.string()),
        ("suite", "a\nb", pa.binary()),
        ("run", "../..", None),
        ("run", "/etc", None),
        ("run", None, None),
        ("manifest", "{}", None),
        ("manifest", "[" * 100_000, None),
        ("manifest", None, None),
    ],
)
def test_a_sealed_session_is_checked_as_a_folder_is(tmp_path, column, value, kind):
    file, table = sealed(tmp_path)
    old = table[column].to_pylist()
    replaced(file, table, column, [value if one is not None else None for one in old], kind)
    assert "one.parquet" in refused(file)


@pytest.mark.long(why="every sealed session is read")
def test_a_bomb_is_not_unpacked(tmp_path):
    file, table = sealed(tmp_path)
    rows, zeros = len(table), pa.array([0.0])
    many = pa.concat_arrays([zeros] * 1).take(pa.array([0] * 30_000_000, pa.int32()))
    lists = pa.ListArray.from_arrays(pa.array([0, *[len(many)] * rows], pa.int32()), many)
    long = ["x" * (50 * MEBIBYTE)] * rows
    for column, values, says in (
        ("returns", lists, "values in a column"),
        ("role", pa.array(long), "at most"),
        ("name", pa.array(["y" * MEBIBYTE] * rows).take(pa.array([*range(rows)] * 40)), "at most"),
    ):
        big = table if len(values) == rows else pa.concat_tables([table] * 40)
        pq.write_table(big.set_column(big.column_names.index(column), column, values), file, compression="zstd")
        assert file.stat().st_size < MEBIBYTE
        assert says in refused(file)
    nulls = pa.nulls(3_000_000, pa.int64())
    pq.write_table(pa.table({"ns": nulls}).replace_schema_metadata({parquet.KEY: b'{"schema":"tianji-bench/sealed/1"}'}), file)
    assert "rows" in refused(file)


def test_what_a_file_says_of_its_size_may_be_a_lie(tmp_path, monkeypatch):
    """Whatever gets past the metadata meets the end of the memory that reading may take."""
    file, table = sealed(tmp_path)
    many = pa.array([0.0]).take(pa.array([0] * 30_000_000, pa.int32()))
    lists = pa.ListArray.from_arrays(pa.array([0, *[len(many)] * len(table)], pa.int32()), many)
    pq.write_table(table.set_column(table.column_names.index("returns"), "returns", lists), file, compression="zstd")
    monkeypatch.setattr(parquet, "_check_size", lambda metadata: None)
    monkeypatch.setattr(parquet, "TAKEN_BYTES", 64 * MEBIBYTE)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert "memory" in refused(file)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize("plan", ["[]", "{}", '{"cells": 3}', "[" * 100_000, "\xff"])
def test_a_plan_that_makes_no_sense_is_named(tmp_path, plan):
    make(tmp_path / "in")
    (tmp_path / "in" / "session.json").write_bytes(plan.encode("latin-1"))
    with pytest.raises(BundleError, match=r"session\.json"):
        archive.seal(tmp_path / "in", tmp_path / "one.parquet")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, '["x"]\npurpose = "a\\nb"', '["x"]\npurpose = 3', "\0"])
def test_notes_that_make_no_sense_are_named(tmp_path, text):
    (tmp_path / notes.FILE).write_text(text)
    with pytest.raises(BundleError, match=r"sessions\.toml"):
        notes.notes(tmp_path / notes.FILE)


def test_certificates_are_checked(tmp_path):
    make(tmp_path)
    finding = {"workload": "w-x", "system": "../x", "quantity": "loss", "error": 1.0, "scale": 1.0, "equal": True}
    whole = {"schema": "tianji-bench/certificate/1", "findings": [finding], "failures": {}}
    (tmp_path / bundle.CERTIFICATE).write_text(json.dumps(whole))
    assert bundle.CERTIFICATE in refused(tmp_path)


def test_what_cannot_be_seen_stands_by_its_number():
    assert visible("a\tb\nc\x1b[2J\u202e") == "a\tb\nc\\x1b[2J\\u202e"
    assert one_line("a\n b\x07") == "a b\\x07"
    assert len(one_line("x" * 10**6)) == LONGEST
