"""The runner of sessions: systems that behave or misbehave, kept results, and resuming."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from commands import processes_told, refusal

from programs.cli import run
from suites.__main__ import main
from suites.records import bundle, statement
from suites.records.events import Evaluation, Usage
from suites.session import plan as plans
from suites.session import runner
from suites.testbed import local


def bench(*arguments):
    return run("tianji-bench", main, ["run", *map(str, arguments)])


def complaint(capsys, *arguments):
    return refusal(capsys, bench, *arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["transmision"], "known: asynchrony, convergence, disciplines, price, scaling, staleness, transmission"),
        (["convergence", "convergence"], "twice"),
        (["convergence", "--profile", "huge"], "known: smoke"),
        (["convergence", "--systems", "tianji,rlib"], "did you mean rllib"),
        (["convergence", "--systems", "sync,sync"], "twice"),
        (["convergence", "--workloads", "chess-ppo"], "unknown workload"),
        (["convergence", "--seeds", "0"], "at least 1"),
        (["convergence", "--seeds", "x"], "invalid int"),
        (["convergence", "--first-seed", "-1"], "count from 0"),
        (["convergence", "--testbed", "moon"], "known: local"),
        (["convergence", "--among", "8"], "does not ask what the number of nodes does"),
        (["scaling", "--among", "65"], "--among 65: give a number from 1 to 64"),
        (["convergence", "--resume"], "nothing to resume"),
    ],
)
def test_bad_input_gets_one_line_and_writes_nothing(capsys, tmp_path, arguments, says):
    out = tmp_path / "out"
    assert says in complaint(capsys, *arguments, "--out", out)
    assert not out.exists()


def test_an_environment_that_cannot_be_made_is_told_of_before_anything_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    said = complaint(capsys, "convergence", "--profile", "paper", "--out", tmp_path / "out")
    assert "LunarLander-v3: Box2D is not installed; pip install 'tianji-bench[box2d]' brings it" in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(capsys, tmp_path):
    (tmp_path / "precious").write_text("kept")
    assert "not a session" in complaint(capsys, "convergence", "--out", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_system_that_cannot_run_here_is_said_so(capsys, guests, tmp_path):
    said = complaint(capsys, "convergence", "--systems", "absent", "--out", tmp_path / "out")
    assert "its package is not installed" in said


@pytest.mark.long(why="whole sessions of real processes")
def test_one_fails_and_the_others_go_on(capsys, guests, tiny, tmp_path):
    out = tmp_path / "out"
    status = bench("convergence", "--systems", "steady,crash", "--workloads", tiny(), "--seeds", 1, "--out", out)
    assert status == 1
    assert "the engine fell off" in capsys.readouterr().err
    cells = {b.manifest.system: b for b in map(bundle.read, bundle.find([out]))}
    assert cells["crash"].manifest.status == "failed"
    assert cells["crash"].manifest.exit_status == 1
    assert "the engine fell off" in cells["crash"].manifest.error
    assert str(tmp_path) not in (cells["crash"].path / "bundle.json").read_text()
    steady = cells["steady"]
    assert steady.manifest.status == "completed"
    assert steady.manifest.configuration["system"] == {"guest": True}
    assert steady.manifest.deviations == ["It does not learn."]
    evaluations = [e for e in steady.events if isinstance(e, Evaluation)]
    assert [e.steps for e in evaluations] == [0, 256, 512, 768, 1024]
    # The same untrained policy on the same seeds: the player is deterministic.
    assert len({tuple(e.returns) for e in evaluations}) == 1
    assert len(evaluations[0].returns) == 4
    assert any(isinstance(e, Usage) for e in steady.events)


@pytest.mark.long(why="whole sessions of real processes")
def test_one_that_hangs_is_ended_and_kept_as_failed(capsys, guests, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "SETUP_LIMIT_S", 2.0)
    monkeypatch.setattr(local, "TEARDOWN_LIMIT_S", 1.0)
    path = tiny()
    path.write_text(path.read_text().replace("budget_seconds = 60.0", "budget_seconds = 1.0"))
    out = tmp_path / "out"
    assert bench("convergence", "--systems", "hang", "--workloads", path, "--seeds", 1, "--out", out) == 1
    for cell in bundle.find([out]):
        manifest = bundle.read(cell).manifest
        assert (manifest.status, manifest.exit_status) == ("failed", None)
        assert "its time was over" in manifest.error


@pytest.mark.long(why="whole sessions of real processes")
def test_what_a_system_leaves_running_is_ended(guests, tiny, tmp_path):
    assert bench("convergence", "--systems", "litter", "--workloads", tiny(), "--seeds", 1, "--out", tmp_path / "out") == 0
    # Its site folder is in the environment of all that descends from the run.
    assert not processes_told(str(tmp_path))


@pytest.mark.long(why="whole sessions of real processes")
def test_resuming_runs_whole_blocks_again_and_keeps_the_old_cells(capsys, guests, tiny, tmp_path):
    out, workload = tmp_path / "out", tiny()
    arguments = ["convergence", "--systems", "steady", "--workloads", workload, "--seeds", 2, "--out", out]
    assert bench(*arguments) == 0
    capsys.readouterr()
    assert "add --resume" in complaint(capsys, *arguments)
    cells = bundle.find([out])
    kept, lost = [c for c in cells if ".b0." in c.name], [c for c in cells if ".b1." in c.name]
    stamps = {c: (c / "bundle.json").stat().st_mtime_ns for c in cells}
    # As an interrupt would leave it: the second cell of block 1 half measured.
    lost[1].rename(lost[1].with_name(lost[1].name + ".partial"))
    other = tiny("cartpole-ppo-other")
    assert "was begun with" in complaint(capsys, *arguments[:4], other, *arguments[5:], "--resume")
    assert bench(*arguments, "--resume") == 0
    assert bundle.find([out]) == cells
    assert all((c / "bundle.json").stat().st_mtime_ns == stamps[c] for c in kept)
    assert all((c / "bundle.json").stat().st_mtime_ns != stamps[c] for c in lost)
    assert len(list((out / "superseded").iterdir())) == 2
    assert len({bundle.read(c).manifest.session for c in cells}) == 1


@pytest.mark.long(why="whole sessions of real processes")
@pytest.mark.parametrize(
    ("system", "sent"),
    [
        ("hang", signal.SIGINT),
        ("hang", signal.SIGTERM),
        ("hang", signal.SIGKILL),
        ("litter", signal.SIGKILL),
        ("sync", signal.SIGKILL),
        ("sync", signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_nothing(guests, tiny, tmp_path, system, sent):
    """Ctrl-C, SIGTERM and kill -9 of the runner: no process, no shared memory, no half bundle, no temporary folder."""
    out, workload = tmp_path / "out", tiny()
    workload.write_text(workload.read_text().replace("budget_steps = 1024", "budget_steps = 1000000"))
    command = ["-m", "suites", "run", "convergence", "--systems", system, "--workloads", str(workload), "--out", str(out)]
    folder = tempfile.mkdtemp(prefix="t-", dir="/tmp")
    process = subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": folder},
    )
    deadline = time.monotonic() + 60
    # Well into training: its first snapshots are there.
    while not list(out.glob("*.partial/snapshots/000000[2-9]*")) and not list(out.glob("*.partial/snapshots/00000[1-9]*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if sent == signal.SIGKILL else 130), err
    assert "Traceback" not in err
    assert sent == signal.SIGKILL or "--resume" in err

    while left := processes_told(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert all(p.suffix == ".partial" for p in out.iterdir() if p.is_dir())
    assert not list(Path(folder).iterdir())
    Path(folder).rmdir()


def test_list_and_doctor_speak(capsys):
    assert run("tianji-bench", main, ["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"sync", "tianji", "rllib"} <= set(listed["suites"]["convergence"]["systems"])
    assert run("tianji-bench", main, ["doctor", "--brief"]) == 0
    screen = capsys.readouterr().out
    for line in ("cores", "memory", "eight emulated nodes", "GPU", "versions"):
        assert line in screen
    assert "noise floor" not in screen


@pytest.mark.long(why="whole sessions of real processes")
def test_a_block_runs_again_if_the_machine_changed_and_the_loop_alone_decides(guests, tiny, tmp_path, monkeypatch):
    # Two readings a run, two runs a block. In block 0 and in its repeat the machine is .4 faster in the second run.
    steady, moved = [100.0] * 4, [100.0, 100.0, 120.0, 160.0]
    readings = iter([*moved, *steady, *moved, *moved])
    monkeypatch.setattr(runner.machine, "bare_loop", lambda on, seconds: next(readings))
    out = tmp_path / "out"
    how = ("--systems", "steady,crash", "--workloads", tiny(), "--profile", "standard", "--busy", "--once")
    assert bench("convergence", *how, "--seeds", 2, "--first-seed", 7, "--out", out) == 1
    assert next(readings, None) is None, "no more often than twice"
    begun = plans.read(out / "session.json")
    assert [(one.block, one.of, one.changed) for one in begun.repeats] == [(2, 0, 0.4), (3, 0, 0.4)]
    assert [cell.block for cell in begun.planned] == [0, 0, 1, 1]
    found = [bundle.read(path) for path in bundle.find([out])]
    assert {b.manifest.block: b.manifest.seed for b in found} == {0: 7, 1: 8, 2: 7, 3: 7}
    assert sorted({b.manifest.block for b in statement.repeated(found)}) == [0, 2], "all are kept, the last ones count"
    stated = statement.in_folder(out)
    assert stated.seeds == (7, 8)
    # Whoever goes on asks for what was planned, and decides by what lies there.
    again = ("convergence", *how, "--seeds", 2, "--first-seed", 7, "--out", out, "--resume")
    assert bench(*again) == 1
    begun = msgspec.structs.replace(begun, cells=begun.cells[:-2], repeats=begun.repeats[:-1])
    (out / "session.json").write_bytes(msgspec.json.encode(begun))
    for path in bundle.find([out]):
        if bundle.read(path).manifest.block == 3:
            shutil.rmtree(path)
    more = iter(steady)
    monkeypatch.setattr(runner.machine, "bare_loop", lambda on, seconds: next(more))
    assert bench(*again) == 1
    assert [one.block for one in plans.read(out / "session.json").repeats] == [2, 3], "as if nobody had ended it in between"


@pytest.mark.long(why="whole sessions of real processes")
def test_a_bare_loop_is_read_before_and_after_each_run(guests, tiny, tmp_path):
    out = tmp_path / "out"
    assert bench("convergence", "--systems", "steady", "--workloads", tiny(), "--seeds", 1, "--once", "--out", out) == 0
    (b,) = map(bundle.read, bundle.find([out]))
    before, after = b.manifest.environment["bare_loop"]
    assert before > 0
    assert after > 0
