"""A long run under faults: what is read from it, and a short one."""

import json
import math

import psutil
import pytest

from benchmarks import soak
from benchmarks.soak import Fault, Second, Soak, slope


def seconds(rates, memory=lambda at: 10**8):
    """A run of so many steps in each second."""
    steps, found = 0, []
    for at, rate in enumerate(rates):
        steps += rate
        found.append(Second(float(at), steps, round(memory(at)), 100, 20, 4))
    return found


def followed(rates, *faults):
    run = Soak(180.0, 0, list(soak.FAULTS))
    run.seconds, run.faults = seconds(rates), [Fault(at, "kill an actor") for at in faults]
    return run.judged()


def test_a_run_has_recovered_when_it_is_at_speed_again():
    (one,) = followed([100] * 60 + [0] * 6 + [100] * 40, 59.5)
    assert one.recovered_s == pytest.approx(6, abs=1.5)
    assert one.steps_lost == 0


def test_a_run_that_is_not_slower_has_recovered_at_once():
    assert followed([100] * 100, 50.5)[0].recovered_s <= 1


def test_a_run_that_does_not_come_back_to_speed_has_not_recovered():
    assert followed([100] * 60 + [50] * 80, 59.5)[0].recovered_s is None


def test_steps_of_a_learner_that_went_on_from_an_earlier_state_are_lost():
    assert followed([100] * 60 + [0, -450] + [100] * 40, 59.5)[0].steps_lost == 450


def test_another_fault_ends_what_is_said_of_the_one_before():
    first, second = followed([100] * 60 + [0] * 30 + [100] * 40, 59.5, 70.5)
    assert first.recovered_s is None
    assert second.recovered_s == pytest.approx(19, abs=1.5)


def test_growth_is_told_with_its_interval():
    flat = slope(seconds([100] * 1200), "bytes")
    assert flat == pytest.approx((0, 0, 0), abs=1e-9)
    grows, low, high = slope(seconds([100] * 1200, lambda at: 1e8 * (1 + at / 3600)), "bytes")
    assert low <= grows <= high
    assert grows == pytest.approx(1 / (1 + 1200 / 7200), rel=0.05)
    assert all(math.isnan(value) for value in slope(seconds([100] * 100), "bytes"))


def test_an_output_that_exists_is_not_overwritten(tmp_path, capsys):
    there = tmp_path / "soak.jsonl"
    there.write_text("mine")
    from programs.cli import run

    assert run("python -m benchmarks.soak", soak.main, ["--out", str(there)]) == 2
    assert "exists; name a new file" in capsys.readouterr().err
    assert there.read_text() == "mine"


@pytest.mark.long(why="processes are ended and started again")
@pytest.mark.timeout(120)
def test_a_run_goes_on_under_faults_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(soak, "STOPPED_S", 2.0)
    out, before = tmp_path / "soak.jsonl", psutil.Process().children()
    assert soak.main(["--seconds", "16", "--every", "1.5", "--seed", "3", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "left behind: 0 processes, 0 files" in said
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    faults = [line for line in lines if line["type"] == "fault"]
    assert len(faults) >= 2
    last = [line["steps"] for line in lines if line["type"] == "second"]
    assert last[-1] > last[5]
    assert psutil.Process().children() == before
