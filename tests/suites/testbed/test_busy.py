"""The bare loop by which a node's speed is measured."""

import os
import time

import psutil
import pytest

from suites.testbed import busy
from tianji.launch.node import here


def test_each_place_has_a_speed_of_its_own(monkeypatch):
    monkeypatch.setattr(busy, "LOOP_S", 1.0)
    found = busy.loops_per_s([here(), here()])
    assert len(found) == 2
    # A thousand additions take more than a hundredth of a microsecond each, and less than a millisecond.
    assert all(1 < speed < 1e5 for speed in found)


def test_cores_are_kept_awake_by_processes_that_anything_pushes_aside():
    cores = os.sched_getaffinity(0)
    before = set(psutil.Process().children())
    with busy.awake():
        kept = set(psutil.Process().children()) - before
        deadline = time.monotonic() + 30
        while {os.sched_getscheduler(one.pid) for one in kept} != {os.SCHED_IDLE} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert {os.sched_getscheduler(one.pid) for one in kept} == {os.SCHED_IDLE}
        assert sorted(core for one in kept for core in one.cpu_affinity()) == sorted(cores)
        used = sum(sum(one.cpu_times()[:2]) for one in kept)
        while sum(sum(one.cpu_times()[:2]) for one in kept) < used + 0.05 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sum(sum(one.cpu_times()[:2]) for one in kept) >= used + 0.05
    assert not any(one.is_running() for one in kept)


@pytest.mark.parametrize("code", ["", "print('soon')", "sys.exit(3)"])
def test_no_answer_is_one_line(monkeypatch, code):
    monkeypatch.setattr(busy, "COUNTED", code)
    with pytest.raises(RuntimeError, match=r"^a process that was to measure a node's speed gave no answer$"):
        busy.loops_per_s([here()])
