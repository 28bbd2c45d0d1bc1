"""Running means and crossings of curves against slow loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.statistics.curves import crossing, running_mean


@given(st.lists(st.floats(-1e3, 1e3), max_size=60), st.integers(1, 20))
def test_running_mean_is_the_mean_of_the_window_before(values, window):
    got = running_mean(values, window)
    for i in range(len(values)):
        if i + 1 < window:
            assert np.isnan(got[i])
        else:
            assert got[i] == pytest.approx(np.mean(values[i + 1 - window : i + 1]), abs=1e-6)


def test_a_crossing_needs_a_full_window():
    assert crossing([500.0] * 99, 450) is None
    assert crossing([500.0] * 100, 450) == 99
    assert crossing([0.0] * 50 + [500.0] * 100, 450) == 50 + 90 - 1


def test_a_crossing_of_snapshots_is_the_last_of_the_window_whose_mean_is_high_enough():
    assert crossing([0, 5, 5, 5, 5], 5, 3) == 3
    # One bad snapshot among good ones does not begin the count anew.
    assert crossing([9, 1, 9, 9], 6, 3) == 2
    assert crossing([9, 9], 5, 3) is None
