"""Ratios of times over all blocks, where a side missed the target in some: by hand, and the interval by enumeration."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from suites.statistics.crossings import RESTRICTED, RUNNING, Crossing, all_ratios
from suites.statistics.intervals import wider_tail

KIND = "evaluated"


def run(seconds, measured_s=100.0):
    """A run that takes a step a second."""
    crossing = None if seconds is None else Crossing(seconds, seconds, int(seconds), None)
    return SimpleNamespace(
        crossings={KIND: crossing},
        measured_s=measured_s,
        measured_steps=int(measured_s),
        seconds_at=lambda steps: min(float(steps), measured_s),
    )


def side(*runs):
    return {("s", block): one for block, one in enumerate(runs)}


OURS = side(run(10), run(20), run(None, 40.0), run(10), run(30))
THEIRS = side(run(40), run(None, 100.0), run(50), run(20), run(90))
LIMITED = np.array([[40, 10], [40, 20], [40, 40], [20, 10], [40, 30]], float)
"""Their seconds and ours, each at most 40: the shortest run that did not get there lasted so long."""


def test_restricted_means_and_expected_running_times_count_every_block():
    found = {metric: (estimate, left_out) for metric, estimate, left_out in all_ratios(OURS, THEIRS, KIND)}
    restricted, running = found[RESTRICTED][0], found[RUNNING][0]
    assert (restricted.value, restricted.n, found[RESTRICTED][1]) == (pytest.approx(180 / 110), 5, 0)
    assert running.value == pytest.approx((300 / 4) / (110 / 4))
    assert (running.low, running.n) == (None, 5)


def test_its_interval_is_that_of_all_resamples_of_blocks():
    draws = [LIMITED[list(drawn)].sum(axis=0) for drawn in itertools.product(range(5), repeat=5)]
    ratios = [top / bottom for top, bottom in draws]
    tail = wider_tail(5)
    restricted = next(all_ratios(OURS, THEIRS, KIND))[1]
    assert (restricted.low, restricted.high) == pytest.approx(np.percentile(ratios, [tail, 100 - tail]), rel=0.02)


def test_the_other_way_round_both_are_the_inverse():
    here, there = list(all_ratios(OURS, THEIRS, KIND)), list(all_ratios(THEIRS, OURS, KIND))
    assert [one[1].value for one in here] == pytest.approx([1 / one[1].value for one in there])


def test_where_every_run_got_there_there_is_nothing_more_to_tell():
    assert list(all_ratios(side(run(1), run(2)), side(run(3), run(4)), KIND)) == []
    assert list(all_ratios({}, THEIRS, KIND)) == []


def test_a_side_that_never_got_there_has_no_expected_running_time():
    found = dict(one[:2] for one in all_ratios(side(run(10), run(20)), side(run(None, 50.0), run(None, 60.0)), KIND))
    assert found[RUNNING].value is None
    assert found[RESTRICTED].value == pytest.approx((50 + 50) / 30)
    assert found[RESTRICTED].low is None, "two blocks have no interval"
