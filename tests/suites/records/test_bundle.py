"""Bundles: whole or not there, refused when they break the schema, and silent about whose machine it was."""

from types import SimpleNamespace

import msgspec
import pytest

from suites.records import bundle
from suites.records.bundle import BundleError, Manifest
from suites.records.events import Episode, Evaluation, FirstStep, Snapshot, Usage


def manifest(**more):
    fields = {
        "schema": bundle.SCHEMA,
        "status": "completed",
        "suite": "convergence",
        "profile": "smoke",
        "workload": "w-x",
        "system": "sync",
        "system_title": "Sync",
        "seed": 0,
        "replica": 0,
        "block": 0,
        "position": 0,
        "session": "s",
        "cores": 2,
        "configuration": {},
        "deviations": [],
        "environment": {},
        "phases_s": {},
    }
    return Manifest(**(fields | more))


EVENTS = [FirstStep(5), Episode(6, 9.0, 9, 9), Snapshot(7, 0, 0, "f"), Usage(8, 0.5, 10), Evaluation(9, 0, 0, "curve", [1.0])]


def make(folder, name="cell", events=EVENTS, **more):
    partial = folder / f"{name}.partial"
    partial.mkdir(parents=True)
    (partial / "events.jsonl").write_bytes(b"".join(bundle.encode_event(e) + b"\n" for e in events))
    return bundle.publish(partial, manifest(**more))


def test_what_was_written_is_read(tmp_path):
    path = make(tmp_path)
    read = bundle.read(path)
    assert read.events == EVENTS
    assert read.manifest == manifest()
    assert [p.name for p in tmp_path.iterdir()] == ["cell"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda p: (p / "bundle.json").unlink(), "no such file"),
        (lambda p: (p / "bundle.json").write_text("{"), "damaged"),
        (lambda p: (p / "bundle.json").write_text((p / "bundle.json").read_text().replace("bundle/1", "bundle/9")), "bundle/9"),
        (lambda p: (p / "bundle.json").write_text((p / "bundle.json").read_text().replace('"seed": 0', '"seed": "x"')), "seed"),
        (lambda p: (p / "bundle.json").write_text((p / "bundle.json").read_text().replace('"seed"', '"sead"')), "sead"),
        (lambda p: (p / "events.jsonl").unlink(), "No such file"),
        (lambda p: (p / "events.jsonl").write_text('{"event":"party","ns":1}\n'), "line 1"),
        (lambda p: (p / "events.jsonl").write_text('{"event":"first_step"}\n'), "ns"),
        (lambda p: (p / "events.jsonl").write_bytes(b'{"event":"first_step","ns":1}\n{"eve'), "cut short"),
        (lambda p: (p / "events.jsonl").write_bytes(b"\xff\xfe\n"), "line 1"),
    ],
)
def test_a_damaged_bundle_is_refused_in_one_line(tmp_path, damage, says):
    path = make(tmp_path)
    damage(path)
    with pytest.raises(BundleError) as raised:
        bundle.read(path)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_find_passes_over_what_is_not_finished(tmp_path):
    make(tmp_path / "cells", "a")
    make(tmp_path / "superseded", "b")
    (tmp_path / "c.partial").mkdir()
    (tmp_path / "c.partial" / "bundle.json").write_text("{}")
    assert [p.name for p in bundle.find([tmp_path])] == ["a"]


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_find_wants_bundles(tmp_path, name):
    with pytest.raises(BundleError, match="python -m suites run"):
        bundle.find([tmp_path / name])


def test_a_bundle_does_not_say_whose_machine_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle.os, "uname", lambda: SimpleNamespace(nodename="bigbox-7"))
    monkeypatch.setenv("USER", "someone")
    path = make(tmp_path, error='File "/home/someone/lib/site-packages/x.py" on bigbox-7 by someone at 3/4 of a/b')
    assert bundle.read(path).manifest.error == 'File ".../x.py" on (host) by (user) at 3/4 of a/b'


def test_certificates_of_sessions_that_come_to_lie_side_by_side_are_one(tmp_path):
    def certificate(folder, workload, error, failures):
        (tmp_path / folder).mkdir()
        finding = bundle.Finding(workload, "sync", "gradient", error, 1.0, True)
        bundle.write_certificate(bundle.Certificate("tianji-bench/certificate/1", [finding], failures), tmp_path / folder)
        return tmp_path / folder

    first = certificate("a", "one", 1e-7, {"sb3": "it is not installed"})
    second, third = certificate("b", "two", 2e-7, {}), certificate("c", "one", 3e-7, {})
    kept = tmp_path / "kept"
    bundle.add_certificates([first], kept)
    bundle.add_certificates([second, third], kept)
    (whole,) = bundle.certificates([kept])
    assert {(f.workload, f.error) for f in whole.findings} == {("one", 3e-7), ("two", 2e-7)}
    assert whole.failures == {"sb3": "it is not installed"}
    bundle.add_certificates([tmp_path / "nothing"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_derived_bundle_has_the_same_events_and_its_parents_digest(tmp_path):
    parent = bundle.read(make(tmp_path))
    (parent.path / "snapshots").mkdir()
    child = bundle.read(bundle.derive(parent, tmp_path / "derived"))
    assert child.events == parent.events
    assert len(child.manifest.derived_from) == 64
    assert msgspec.structs.replace(child.manifest, derived_from=None) == parent.manifest
    assert sorted(p.name for p in child.path.iterdir()) == ["bundle.json", "events.jsonl"]
    with pytest.raises(BundleError, match="exists"):
        bundle.derive(parent, tmp_path / "derived")
