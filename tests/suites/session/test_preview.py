"""`tianji-bench run --dry-run`: the plan in its order, and nothing written."""

import re

from commands import refusal

from programs.cli import run
from suites.__main__ import main
from suites.records import machine
from suites.session import runner


def bench(*arguments):
    return run("tianji-bench", main, ["run", *map(str, arguments)])


def test_it_prints_the_plan_and_writes_nothing(capsys, guests, tiny, tmp_path):
    out = tmp_path / "out"
    chosen = ["convergence", "--systems", "steady,crash", "--workloads", tiny(), "--seeds", 2, "--first-seed", 5, "--once"]
    assert bench(*chosen, "--out", out, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert not out.exists()
    assert re.search(rf"^suite convergence, profile smoke: 4 runs in 2 blocks, .* into {out}$", lines[0])
    # The order is drawn for each block.
    assert lines[1] == "plan: for no claim, 1 look"
    assert [line.strip() for line in lines[2:6]] == [
        "1. block 0, seed 5, cartpole-ppo-tiny: crash: at most 60 s",
        "2. block 0, seed 5, cartpole-ppo-tiny: steady: at most 60 s",
        "3. block 1, seed 6, cartpole-ppo-tiny: steady: at most 60 s",
        "4. block 1, seed 6, cartpole-ppo-tiny: crash: at most 60 s",
    ]
    # (180 + 60 + 60) s a run.
    assert lines[6].startswith("time: at most 20 min")
    assert "MiB are free" in lines[7]
    assert lines[-1] == "dry run: nothing was started or written"


def test_of_a_session_that_is_resumed_it_prints_what_is_left(capsys, monkeypatch, guests, tiny, tmp_path):
    out = tmp_path / "out"
    chosen = ["convergence", "--systems", "steady", "--workloads", tiny(), "--once", "--out", out]
    monkeypatch.setattr(machine, "noise_floor", lambda: None)
    # As it lies there when the first of two blocks is finished.
    monkeypatch.setattr(
        "suites.session.command.run_session", lambda suite, plan, out, resume: runner.open_session(out, plan, resume)
    )
    bench(*chosen, "--seeds", 2)
    done = out / runner.read(out / runner.SESSION).cells[0].directory
    done.mkdir()
    (done / "bundle.json").touch()
    before = sorted(out.rglob("*"))
    assert bench(*chosen, "--seeds", 2, "--resume", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("1 of 2 runs are finished")
    assert [line for line in lines if "at most 60 s" in line] == [
        "    1. block 1, seed 1, cartpole-ppo-tiny: steady: at most 60 s"
    ]
    assert sorted(out.rglob("*")) == before


def test_it_refuses_what_a_run_would(capsys, guests, tiny, tmp_path):
    (tmp_path / "precious").write_text("kept")
    said = refusal(capsys, bench, "convergence", "--systems", "steady", "--workloads", tiny(), "--out", tmp_path, "--dry-run")
    assert "not a session" in said
