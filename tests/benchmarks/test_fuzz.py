"""The fuzzer of inputs: a few new cases in every test run, and all cases that once failed."""

import random
import time

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks import fuzz
from benchmarks.fuzz import Hung, Wrong, bundles, folders, sessions
from benchmarks.fuzz.__main__ import main
from suites.records import bundle
from suites.records.bundle import Manifest

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("fuzz")]
SOME = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)


@pytest.mark.long(why="many inputs")
@settings(SOME, max_examples=100)
@given(st.randoms(use_true_random=False))
def test_bundles(rng):
    assert fuzz.tried(bundles, bundles.mutate(rng)) in ("accepted", "refused")


@pytest.mark.long(why="many inputs")
@settings(SOME, max_examples=4)
@given(st.randoms(use_true_random=False))
def test_reports(rng):
    reports = fuzz.kind("reports")
    assert fuzz.tried(reports, reports.mutate(rng)) in ("accepted", "refused")


@pytest.mark.long(why="many inputs")
@pytest.mark.parametrize("name", ["policies", "runs", "frames"])
@settings(SOME, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_what_comes_to_training(name, rng):
    assert fuzz.tried(fuzz.kind(name), fuzz.kind(name).mutate(rng)) in ("accepted", "refused")


@pytest.mark.parametrize(
    ("name", "file"),
    [(name, file) for name in fuzz.KINDS for file in fuzz.kept(name)],
    ids=lambda one: getattr(one, "name", one),
)
def test_what_once_failed(name, file):
    assert fuzz.tried(fuzz.kind(name), file.read_bytes()) in ("accepted", "refused")


@pytest.mark.parametrize("suite", sorted(sessions.SOURCES))
def test_what_nothing_is_done_to_is_accepted(suite):
    for folder in (sessions.loose(suite), {"one.parquet": folders.File(sessions.sealed(suite))}):
        assert fuzz.tried(bundles, folders.pack(dict(folder))) == "accepted"
        assert folders.unpack(folders.pack(dict(folder))) == folder


def test_the_command_counts_and_fails_where_anything_did(monkeypatch, tmp_path, capsys):
    assert main(["bundles", "--count", "20"]) == 0
    assert "bundles: tried " in capsys.readouterr().out

    def check(case):
        if case[0] % 4 == 0:
            raise KeyError(case)
        if case[0] % 4 == 1:
            raise Wrong("x")
        if case[0] % 4 == 2:
            time.sleep(5)
        return "refused"

    monkeypatch.setattr(bundles, "check", check)
    monkeypatch.setattr(bundles, "LIMIT_S", 0.05)
    numbers = iter(range(8))
    monkeypatch.setattr(bundles, "mutate", lambda rng: bytes([next(numbers)]))
    monkeypatch.setattr(fuzz, "kept", lambda name: [])
    assert main(["bundles", "--count", "8", "--failures", str(tmp_path)]) == 1
    assert "tried 8: accepted 0, refused 2, crashed 2, hung 2, wrong 2" in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 6


class Loose(Manifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest with any text for names."""

    workload: str
    system: str
    session: str


def test_a_reader_that_takes_names_as_they_come_is_found_out(monkeypatch):
    monkeypatch.setattr(bundle, "_manifest", msgspec.json.Decoder(Loose))

    def wrong(number):
        try:
            fuzz.tried(bundles, bundles.mutate(random.Random(f"bundles 0 {number}")))
        except Wrong:
            return True
        return False

    assert any(wrong(number) for number in range(400))


def test_a_case_that_takes_too_long_or_too_much_is_ended(monkeypatch):
    def check(case):
        if case:
            return [0] * 10**9
        time.sleep(5)
        return "refused"

    monkeypatch.setattr(bundles, "check", check)
    monkeypatch.setattr(bundles, "LIMIT_S", 0.05)
    with pytest.raises(Hung):
        fuzz.tried(bundles, b"")
    with pytest.raises(MemoryError):
        fuzz.tried(bundles, b"x")
