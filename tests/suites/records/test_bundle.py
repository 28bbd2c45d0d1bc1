"""Bundles: written whole or not at all, refused if they break the schema, and without the identity of the machine."""

from types import SimpleNamespace

import pytest
from bundles import EVENTS, make, manifest

from suites.records import bundle
from suites.records.bundle import BundleError


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


def test_a_bundle_does_not_say_whose_machine_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle.os, "uname", lambda: SimpleNamespace(nodename="bigbox-7"))
    monkeypatch.setenv("USER", "someone")
    path = make(tmp_path, error='File "/home/someone/lib/site-packages/x.py" on bigbox-7 by someone at 3/4 of a/b')
    assert bundle.read(path).manifest.error == 'File ".../x.py" on (host) by (user) at 3/4 of a/b'
