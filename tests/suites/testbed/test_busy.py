"""The bare loop by which a node's speed is measured."""

import pytest

from suites.testbed import busy
from tianji.launch.node import here


def test_each_place_has_a_speed_of_its_own(monkeypatch):
    monkeypatch.setattr(busy, "LOOP_S", 1.0)
    found = busy.loops_per_s([here(), here()])
    assert len(found) == 2
    # A thousand additions take more than a hundredth of a microsecond each, and less than a millisecond.
    assert all(1 < speed < 1e5 for speed in found)


@pytest.mark.parametrize("code", ["", "print('soon')", "sys.exit(3)"])
def test_no_answer_is_one_line(monkeypatch, code):
    monkeypatch.setattr(busy, "COUNTED", code)
    with pytest.raises(RuntimeError, match=r"^a process that was to measure a node's speed gave no answer$"):
        busy.loops_per_s([here()])
