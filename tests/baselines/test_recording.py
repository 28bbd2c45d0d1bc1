"""The recorder that any program can hold: one file, on the standard library alone, that old Pythons can run."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baselines import recording
from baselines.recording import Recording
from suites.records import bundle

FILE = Path(recording.__file__)
PROGRAM = """
import sys, time
from recording import Recording
assert not {"numpy", "msgspec", "gymnasium", "baselines"} & set(sys.modules)
with Recording(sys.argv[1]) as r:
    r.phase("setup")
    r.first_step(time.monotonic_ns())
    r.episode(time.monotonic_ns(), 1.5, 3, 3)
    (r.snapshots / "000000003.zip").write_bytes(b"policy")
    r.snapshot_file(time.monotonic_ns(), 3, 1, "snapshots/000000003.zip")
    r.progress(time.monotonic_ns(), "driver", {"samples_produced": 3})
    r.histogram("lag_versions", {0: 2, 3: 1})
    r.counter("learner_steps", 3.0)
    r.process("driver", {"all": 1.0}, {}, 1.0, 5)
"""
INSTALLED = [*Path.home().glob(".pyenv/versions/3.8*/bin/python3.8"), shutil.which("python3.8") or "python3.8"]
OLD = str(INSTALLED[0])


def test_it_imports_the_standard_library_alone_and_is_python_3_8():
    tree = ast.parse(FILE.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("python", [sys.executable, OLD])
def test_a_copy_of_it_writes_what_a_bundle_reads(python, tmp_path):
    if not Path(python).exists() or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("there is no Python 3.8 here")
    shutil.copy(FILE, tmp_path / "recording.py")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "run").mkdir()
    subprocess.run([python, "-E", "program.py", "run"], cwd=tmp_path, check=True, timeout=60)
    events = bundle.read_events(tmp_path / "run" / "events.jsonl")
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Phase", "FirstStep", "Episode", "Snapshot", "Progress", "Histogram", "Counter", "Process"]
    assert (events[2].episode_return, events[2].length, events[3].file) == (1.5, 3, "snapshots/000000003.zip")
    assert events[5].counts == {0: 2, 3: 1}


def test_a_snapshot_is_on_disk_when_it_has_been_recorded_and_the_clock_starts_once(tmp_path):
    begun = []
    with Recording(tmp_path, lambda: begun.append(1)) as told:
        told.first_step(5)
        told.first_step(9)
        assert (tmp_path / "events.jsonl").read_text() == ""
        told.snapshot_file(8, 0, 0, "snapshots/0.zip")
        lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [(line["event"], line["ns"]) for line in lines] == [("first_step", 5), ("snapshot", 8)]
    assert begun == [1]


def test_a_number_that_is_not_finite_is_refused_when_it_is_recorded(tmp_path):
    with Recording(tmp_path) as told:
        with pytest.raises(ValueError):
            told.episode(1, float("nan"), 1, 1)
        told.episode(2, 1.0, 1, 1)
    assert len(bundle.read_events(tmp_path / "events.jsonl")) == 1
