"""Stated plans: written before the first run, sealed with the session, and what was added beyond them is not pooled."""

import json

import msgspec
import pytest
from bundles import make, manifest

from programs.cli import run
from reports import dataset
from suites.__main__ import main
from suites.records import archive, statement, store
from suites.records.bundle import Bundle, BundleError
from suites.records.statement import Statement, beyond, looks


def plan(session, *, seeds=(0, 1), looks=1, written="2026-01-01T00:00:00Z", **more):
    fields = {"suite": "convergence", "profile": "paper", "systems": ("sync",), "workloads": ("w-x",)}
    return Statement(session=session, written=written, seeds=seeds, looks=looks, **fields | more)


def runs(tmp_path, *blocks):
    return [Bundle(manifest(session=session, seed=seed, block=seed), [], tmp_path / session / "x") for session, seed in blocks]


def late(found):
    return sorted({(b.manifest.session, b.manifest.seed) for b in found})


def test_blocks_that_a_plan_does_not_name_are_beyond_it(tmp_path):
    found = runs(tmp_path, ("a", 0), ("a", 1), ("a", 2))
    assert late(beyond(found, {"a": plan("a")})) == [("a", 2)]
    assert beyond(found, {}) == [], "nothing is beyond a plan that was not recorded"


@pytest.mark.parametrize("planned", ["ab", "a", "b", ""])
def test_no_session_is_dropped_for_another(tmp_path, planned):
    stated = {name: plan(name, written=f"2026-01-0{day}T00:00:00Z") for day, name in enumerate("ba", 1) if name in planned}
    assert beyond(runs(tmp_path, ("b", 0), ("a", 1)), stated) == []


def test_looks_are_the_most_that_any_plan_states(tmp_path):
    found = runs(tmp_path, ("a", 0), ("b", 0), ("c", 0))
    assert looks(found, {"a": plan("a", looks=2), "b": plan("b", looks=3)}) == 3
    assert looks(found, {}) == 1


def test_a_plan_is_sealed_with_its_session_and_read_again(tmp_path):
    folder, file = tmp_path / "mine", tmp_path / "mine.parquet"
    make(folder, "w-x.b0.p0.sync", profile="paper")
    without = tmp_path / "without.parquet"
    archive.seal(folder, without)
    assert archive.stated(without) is None
    stated = plan("s", claim="one claim", busy=True)
    (folder / statement.FILE).write_bytes(msgspec.json.encode(stated))
    archive.seal(folder, file)
    assert archive.stated(file) == stated
    assert store.load([file]).stated == store.load([folder]).stated == {"s": stated}
    assert "for 'one claim': 2 blocks of sync, 1 look, begun on a busy machine" in stated.words
    (folder / statement.FILE).write_bytes(msgspec.json.encode(plan("another")))
    with pytest.raises(BundleError, match="is of another session"):
        archive.seal(folder, tmp_path / "other.parquet")


def cut_short(tmp_path, cells):
    """A session of one finished run, whose plan has so many cells."""
    folder = tmp_path / "mine"
    make(folder, "w-x.b0.p0.sync", profile="paper")
    (folder / statement.FILE).write_bytes(msgspec.json.encode(plan("s")))
    (folder / "session.json").write_text(json.dumps({"cells": [{}] * cells}))
    return folder


def test_a_session_that_was_stopped_is_sealed_with_the_reason(tmp_path, capsys):
    folder, file = cut_short(tmp_path, 2), tmp_path / "mine.parquet"
    pack = ["pack", str(folder), "--out", str(file)]
    assert run("tianji-bench", main, pack) == 2
    assert "1 of 2 cells are finished" in capsys.readouterr().err
    assert run("tianji-bench", main, [*pack, "--stopped", "the power went"]) == 0
    assert archive.stated(file) == msgspec.structs.replace(plan("s"), stopped="the power went")
    assert archive.stated(file).words.endswith("; stopped before it was done: the power went")
    assert statement.in_folder(folder) == plan("s"), "the folder stays as it is"


@pytest.mark.parametrize(
    ("reason", "cells", "says"),
    [("", 2, "give a reason of one line"), ("two\nlines", 2, "give a reason of one line"), ("why", 1, "are not finished")],
)
def test_a_reason_is_for_what_was_stopped(tmp_path, capsys, reason, cells, says):
    folder, file = cut_short(tmp_path, cells), tmp_path / "mine.parquet"
    assert run("tianji-bench", main, ["pack", str(folder), "--out", str(file), "--stopped", reason]) == 2
    assert says in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "tianji-bench/plan/9"}, "has schema tianji-bench/plan/9"),
        ({"looks": 0}, "damaged"),
        ({"claim": "two\nlines"}, "damaged"),
        ({"seeds": [-1]}, "damaged"),
        ({"more": 1}, "damaged"),
    ],
)
def test_a_damaged_plan_is_refused_in_one_line(tmp_path, change, says):
    told = json.loads(msgspec.json.encode(plan("s"))) | change
    with pytest.raises(BundleError, match=says):
        statement.read(json.dumps(told).encode(), tmp_path / statement.FILE)


def test_a_report_leaves_out_what_goes_beyond_a_plan_and_says_so(tmp_path):
    for at, session in enumerate(("first", "later")):
        folder = tmp_path / session
        for seed in (0, 1) if session == "first" else (0, 1, 2):
            make(folder, f"w-x.b{seed}.p0.sync", profile="paper", session=session, seed=seed, block=seed)
        stated = plan(session, written=f"2026-01-0{at + 1}T00:00:00Z")
        (folder / statement.FILE).write_bytes(msgspec.json.encode(stated))
    data = dataset.load([tmp_path])
    assert late(data.bundles) == [("first", 0), ("first", 1), ("later", 0), ("later", 1)]
    assert data.left_out == ["left out: 1 run of w-x (convergence) in later, in blocks that its stated plan does not name"]
