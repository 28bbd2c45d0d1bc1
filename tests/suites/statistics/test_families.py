"""Families of verdicts: Holm against closed testing by enumeration, p-values and intervals against Student's t."""

import itertools

import numpy as np
import pytest
from scipy import stats

from suites.statistics.families import ERROR, holm, p_value, widened
from suites.statistics.intervals import paired_ratio


def closed_testing(ps):
    """Adjusted p-values by definition: the largest of Bonferroni's over all intersections that a hypothesis is part of."""
    every = range(len(ps))
    subsets = [s for size in range(1, len(ps) + 1) for s in itertools.combinations(every, size)]
    return [max(min(1.0, len(s) * min(ps[j] for j in s)) for s in subsets if i in s) for i in every]


@pytest.mark.parametrize("seed", range(6))
def test_holm_is_the_closed_test_of_bonferronis(seed):
    rng = np.random.default_rng(seed)
    ps = list(rng.uniform(0, 0.2, size=rng.integers(1, 9)) ** 2)
    ps += ps[:1]
    assert holm(ps) == pytest.approx(closed_testing(ps))


def test_holm_of_four_by_hand():
    """4 x .01, 3 x .005 raised in order: .005 x 4, .01 x 3, .03 x 2, .04 x 1 not below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    fall = [p <= ERROR for p in holm([0.02, 0.005, 0.04, 0.011])]
    assert fall == [True] * 4, ".005 <= .05/4, .011 <= .05/3, .02 <= .05/2, .04 <= .05"
    assert [p <= ERROR for p in holm([0.03, 0.005, 0.04, 0.011])] == [False, True, False, True], ".03 > .05/2 ends it"


def test_fewer_than_one_family_in_twenty_has_a_false_verdict():
    rng = np.random.default_rng(5)
    families = stats.ttest_1samp(rng.normal(size=(2000, 20, 5)), 0, axis=2).pvalue
    wrong = np.mean([min(holm(list(ps))) <= ERROR for ps in families])
    assert wrong == pytest.approx(0.05, abs=0.015)
    assert np.mean(families.min(axis=1) <= ERROR) > 0.5, "without it, most families have one"


@pytest.mark.parametrize("centre", [0.7, 1.0, 3.0])
def test_p_values_and_wider_intervals_are_those_of_the_ratios(centre):
    ratios = centre * np.exp(np.random.default_rng(2).normal(0, 0.2, 7))
    found = paired_ratio(ratios, np.ones(7))
    expected = stats.ttest_1samp(np.log(ratios), 0)
    told = (found.value, found.low, found.high, found.n)
    assert p_value(*told) == pytest.approx(expected.pvalue)
    for times in (1, 8, 40):
        interval = expected.confidence_interval(1 - 0.05 / times)
        assert widened(*told, times) == pytest.approx(np.exp([interval.low, interval.high]))


def test_ratios_without_scatter():
    assert p_value(2.0, 2.0, 2.0, 5) == 0.0
    assert p_value(1.0, 1.0, 1.0, 5) == 1.0
