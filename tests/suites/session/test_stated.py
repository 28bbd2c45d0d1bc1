"""A session states its plan before its first run, and begins on an idle machine."""

import os

import pytest
from commands import refusal

from programs.cli import ConfigError, run
from suites.__main__ import main
from suites.records import machine, statement
from suites.session import runner
from suites.session.plan import Plan, block_of, read


def plan(**more):
    cells = [cell for block in range(3) for cell in block_of("w", ("a", "b"), "b", block, first_seed=7)]
    fields = {"session": "s", "suite": "x", "profile": "paper", "workloads": {"w": {}}, "systems": ("a", "b"), "cores": (0, 1)}
    return Plan(cells=tuple(cells), **fields | more)


@pytest.fixture
def load(monkeypatch):
    """Set the machine's load."""
    monkeypatch.setattr(machine, "noise_floor", lambda: 0.01)

    def of(load_1min):
        monkeypatch.setattr(os, "getloadavg", lambda: (load_1min, 0.0, 0.0))

    return of


def test_the_plan_is_written_before_any_run(load, tmp_path):
    load(0.5)
    runner.open_session(tmp_path / "out", plan(claim="8 nodes", looks=2), resume=False)
    stated = statement.in_folder(tmp_path / "out")
    assert (stated.session, stated.claim, stated.looks, stated.seeds) == ("s", "8 nodes", 2, (7, 8, 9))
    assert (stated.systems, stated.workloads) == (("a", "b"), ("w",))
    assert (stated.busy, stated.load_1min, stated.noise_floor) == (False, 0.5, 0.01)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["plan.json", "session.json"]


def test_a_resumed_session_keeps_its_plan(load, tmp_path):
    load(0.5)
    out = tmp_path / "out"
    runner.open_session(out, plan(claim="first"), resume=False)
    before = (out / statement.FILE).read_bytes()
    load(9.0)
    assert runner.open_session(out, plan(claim="second"), resume=True).claim == "first"
    assert (out / statement.FILE).read_bytes() == before


def test_a_busy_machine_is_refused_and_nothing_is_written(load, tmp_path):
    load(1.01)
    with pytest.raises(ConfigError, match=r"load 1\.01 over one minute, more than 1: .* add --busy"):
        runner.open_session(tmp_path / "out", plan(), resume=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [{"busy": True}, {"profile": "smoke"}])
def test_what_may_begin_on_a_busy_machine_writes_it_down(load, tmp_path, more):
    load(1.01)
    runner.open_session(tmp_path / "out", plan(**more), resume=False)
    assert statement.in_folder(tmp_path / "out").busy
    assert read(tmp_path / "out" / runner.SESSION).busy
    load(1.0)
    runner.open_session(tmp_path / "idle", plan(**more), resume=False)
    assert not statement.in_folder(tmp_path / "idle").busy


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--looks", "0"], "--looks 0: give a number from 1 to 100"),
        (["--for", "two\nlines"], "--for: give one line"),
        (["--for", "x" * 301], "--for: give one line"),
    ],
)
def test_a_plan_that_cannot_be_written_is_refused_in_one_line(capsys, tmp_path, arguments, says):
    def bench(*more):
        return run("tianji-bench", main, ["run", "convergence", *more, "--out", str(tmp_path / "out")])

    assert says in refusal(capsys, bench, *arguments)
    assert not (tmp_path / "out").exists()
