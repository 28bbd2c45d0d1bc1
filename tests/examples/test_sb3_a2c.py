"""The worked example of an outside system: its page is followed, and its runs are evaluated by its own player."""

import importlib.util
import os
import shutil

import pytest
from elsewhere import ROOT
from pages import blocks, install, run_block
from tiny import tiny_workload

from baselines import recording
from programs.cli import run
from suites.__main__ import main as suites
from suites.records import bundle
from suites.records.events import Evaluation, Snapshot

EXAMPLE = ROOT / "examples" / "sb3_a2c"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is None, reason="no stable_baselines3")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy, where child processes find it as they find what is installed."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "sb3_a2c", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    return folder


def test_its_recorder_is_the_project_s():
    with open(recording.__file__) as ours:
        assert (EXAMPLE / "sb3_a2c" / "recording.py").read_text() == ours.read()


def test_only_the_system_s_file_imports_the_benchmark():
    for path in (EXAMPLE / "sb3_a2c").glob("*.py"):
        if path.name != "system.py":
            assert not any(f"import {name}" in path.read_text() for name in ("baselines", "tianji", "suites"))


@pytest.mark.long(why="an example's page is followed from its start")
@pytest.mark.timeout(180)
def test_its_page_is_followed(folder):
    for block in blocks((folder / "README.md").read_text()):
        run_block(block, folder)


@pytest.mark.long(why="an example's page is followed from its start")
@pytest.mark.timeout(180)
def test_its_run_is_a_bundle_whose_policies_its_player_played(folder, tmp_path, monkeypatch):
    install(folder)
    monkeypatch.syspath_prepend(str(folder))
    (tmp_path / "cartpole-ppo-tiny.toml").write_text(tiny_workload())
    out = tmp_path / "out"
    chosen = ["--systems", "sb3-a2c", "--workloads", str(tmp_path / "cartpole-ppo-tiny.toml"), "--seeds", "1", "--once"]
    assert run("tianji-bench", suites, ["run", "convergence", *chosen, "--out", str(out)]) == 0
    (found,) = out.glob("*sb3-a2c")
    read = bundle.read(found)
    snapshots = [event for event in read.events if isinstance(event, Snapshot)]
    curve = [event for event in read.events if isinstance(event, Evaluation) and event.purpose == "curve"]
    assert [event.steps for event in snapshots] == [event.steps for event in curve]
    assert all(event.file.endswith(".npz") for event in snapshots)
    assert all(1 <= value <= 500 for event in curve for value in event.returns)
    assert any("own player" in text for text in read.manifest.deviations)
