import numpy as np
import pytest
from scipy import stats

from suites.statistics.equivalence import Published, difference, verdict


def test_the_interval_is_that_of_two_one_sided_welch_tests():
    ours, other = [500.0, 498.0, 489.0, 495.0], Published(490.04, 7.5, 3)
    found = difference(ours, other)
    assert found.value == pytest.approx(np.mean(ours) - 490.04)

    def p(margin, less):
        more = {"equal_var": False, "alternative": "less" if less else "greater"}
        mean = other.mean + (margin if less else -margin)
        return stats.ttest_ind_from_stats(np.mean(ours), np.std(ours, ddof=1), 4, mean, other.sd, other.n, **more).pvalue

    # At a bound of the interval as margin, the test is just at 5 %.
    assert p(found.high, True) == pytest.approx(0.05)
    assert p(-found.low, False) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("values", "other", "margin", "kind"),
    [
        ([500.0, 500.0, 500.0], Published(490.0, 7.5, 3), 24.5, "equivalent"),
        ([500.0, 500.0, 500.0], Published(490.0, 7.5, 3), 15.0, "inconclusive"),
        ([400.0, 401.0, 399.0], Published(490.0, 7.5, 3), 24.5, "different"),
        ([600.0, 601.0, 599.0], Published(490.0, 7.5, 3), 24.5, "different"),
        ([-200.0, -200.0, -200.0], Published(-200.0, 0.0, 3), 10.0, "equivalent"),
        ([-150.0, -150.0, -150.0], Published(-200.0, 0.0, 3), 10.0, "different"),
        ([490.0, 490.0], Published(490.0, 7.5, 3), 24.5, "too few seeds"),
    ],
)
def test_a_verdict_needs_the_whole_interval(values, other, margin, kind):
    assert verdict(difference(values, other), margin) == kind
