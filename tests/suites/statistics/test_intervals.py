"""The suite's statistics against scipy, closed forms and slow loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from suites.statistics.intervals import (
    bootstrap_iqm,
    expected_running_time,
    interquartile_mean,
    paired_ratio,
    pooled,
    wider_tail,
)

reals = st.floats(-1e3, 1e3)


@given(st.lists(reals, min_size=1, max_size=12).map(lambda v: v * 4))
def test_interquartile_mean_equals_scipys_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-6)


def test_interquartile_mean_weights_what_a_quartile_cuts():
    # Five values: 1.25 are cut on each side, so the second and fourth count three quarters.
    assert interquartile_mean([0, 1, 2, 3, 100]) == pytest.approx((0.75 * 1 + 2 + 0.75 * 3) / 2.5)
    assert interquartile_mean([1, 2, 6]) == 3


def test_no_interval_below_five():
    assert bootstrap_iqm([1, 2, 3, 4]).low is None
    assert paired_ratio([1, 2, 3, 4], [1, 1, 1, 1]).low is None
    assert bootstrap_iqm([]).value is None


def test_bootstrap_interval_agrees_with_scipys_at_the_same_percentiles():
    data = np.random.default_rng(0).normal(10, 2, 40)
    ours = bootstrap_iqm(data)
    level = 1 - 2 * wider_tail(len(data)) / 100
    assert 0.95 < level < 0.96
    theirs = stats.bootstrap(
        (data,), interquartile_mean, vectorized=False, method="percentile", n_resamples=4000, confidence_level=level, rng=1
    )
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.15)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.15)
    assert ours == bootstrap_iqm(data)


def test_a_paired_ratio_takes_out_what_blocks_share():
    rng = np.random.default_rng(3)
    machine = rng.lognormal(0, 1.0, 12)
    ours, theirs = 3.0 * machine * rng.lognormal(0, 0.01, 12), machine
    estimate = paired_ratio(ours, theirs)
    assert estimate.value == pytest.approx(stats.gmean(ours / theirs))
    assert 2.95 < estimate.low < estimate.value < estimate.high < 3.05
    expected = stats.ttest_1samp(np.log(ours / theirs), 0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


@pytest.mark.parametrize("n", [5, 10, 30])
def test_wider_percentiles_are_those_of_students_t(n):
    """Closed form: a bootstrapped mean is normal with variance (n - 1) / n^2 times the sample's."""
    reach = -stats.norm.ppf(wider_tail(n) / 100) * np.sqrt((n - 1) / n)
    assert reach == pytest.approx(stats.t.ppf(0.975, n - 1))


RUNS = 2_000
"""Of a simulation: 95 % of them is known to half a percent or so."""


@pytest.mark.parametrize("n", [5, 10, 20])
def test_intervals_of_ratios_cover_the_truth_95_times_of_100(n):
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(RUNS):
        machine = rng.lognormal(0, 0.5, n)
        estimate = paired_ratio(1.7 * machine * rng.lognormal(0, 0.1, n), machine)
        covered += estimate.low <= 1.7 <= estimate.high
    assert covered / RUNS == pytest.approx(0.95, abs=0.015)


@pytest.mark.long(why="intervals are simulated many times")
@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_intervals_of_interquartile_means_cover_the_truth_about_as_often(n, draw):
    rng = np.random.default_rng(12)
    truth = interquartile_mean(getattr(np.random.default_rng(1), draw)(size=1_000_000))
    covered = 0
    for _ in range(RUNS // 2):
        estimate = bootstrap_iqm(getattr(rng, draw)(size=n))
        covered += estimate.low <= truth <= estimate.high
    assert 0.90 <= covered / (RUNS // 2) <= 0.98


@pytest.mark.parametrize(("top", "bottom"), [([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([-1.0], [1.0])])
def test_values_that_cannot_be_paired_are_refused(top, bottom):
    with pytest.raises(ValueError):
        paired_ratio(top, bottom)


def test_expected_running_time_counts_failures():
    assert expected_running_time([10, 20, 60], [True, True, False]) == 45
    assert expected_running_time([60], [False]) is None


def test_strata_of_one_kind_are_the_plain_ratio_and_others_widen_it():
    ratios = [1.1, 1.3, 0.9, 1.2, 1.0, 1.4]
    alike = paired_ratio(ratios, [1] * 6, ["a"] * 6)
    assert alike == paired_ratio(ratios, [1] * 6)
    apart = paired_ratio([1.1, 1.3, 0.9, 4.2, 4.0, 4.4], [1] * 6, ["a"] * 3 + ["b"] * 3)
    assert apart.low < 0.1
    assert apart.high > 20
    assert paired_ratio(ratios, [1] * 6, list("abcdef")).low is None, "a block each says nothing of the scatter within"
    mean, variance, freedom = pooled([np.log(ratios)])
    assert (mean, freedom) == (pytest.approx(np.log(ratios).mean()), pytest.approx(5))
    assert variance == pytest.approx(np.log(ratios).var(ddof=1) / 6)
