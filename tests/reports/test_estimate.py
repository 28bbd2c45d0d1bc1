"""A log-ratio of times: paired, over strata, with runs that missed, and against independent computations."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from run_times import runs
from scipy import stats

from reports.estimate import combined, paired, term
from suites.statistics.intervals import pooled


def pairs(ours, theirs, **place):
    return paired(pd.DataFrame(runs(ours, "a", **place) + runs(theirs, "b", **place)), "a", "b")


def test_one_session_without_misses_is_the_paired_t_of_logarithms():
    rng = np.random.default_rng(1)
    ours, theirs = np.exp(rng.normal(0, 0.3, (2, 9)))
    one = combined([term(pairs(ours, 2 * theirs))])
    logs = np.log(2 * theirs / ours)
    expected = stats.ttest_1samp(logs, 0)
    interval = expected.confidence_interval(0.95)
    assert one.value == pytest.approx(np.exp(logs.mean()))
    assert (one.low, one.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert one.p == pytest.approx(expected.pvalue)


def test_only_runs_of_one_block_session_and_machine_are_paired():
    frame = pd.DataFrame(
        runs([1.0, 2.0], "a") + runs([3.0], "b") + runs([5.0], "b", session="other") + runs([7.0], "b", machine="other")
    )
    found = paired(frame, "a", "b")
    assert found[["ours", "theirs"]].to_numpy().tolist() == [[1.0, 3.0]]
    assert term(found.iloc[:0]) is None


def test_equal_weights_of_workloads_whatever_their_numbers_of_blocks():
    few, many = term(pairs([1.0] * 5, [2.0] * 5)), term(pairs([1.0] * 50, [8.0] * 50))
    assert combined([few, many]).value == pytest.approx(4.0)


def test_sessions_that_disagree_widen_the_interval_and_those_that_agree_do_not():
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.1, (2, 20))
    noise -= noise.mean(axis=1, keepdims=True)
    alike = pooled([noise[0] + 1.0, noise[1] + 1.0])
    apart = pooled([noise[0] + 0.5, noise[1] + 1.5])
    assert alike[0] == pytest.approx(1.0)
    assert apart[0] == pytest.approx(1.0)
    within = noise.var(ddof=0) * 40 / 38
    assert alike[1] == pytest.approx(within / 40), "no variance between sessions: as if they were one"
    # Two sessions that are 1 apart: their means have the variance .5, and their mean half of it.
    assert apart[1] == pytest.approx(0.25, rel=0.01)
    assert apart[2] == pytest.approx(1.0, rel=0.05), "nearly one degree of freedom"


def test_between_session_variance_is_that_of_the_one_way_random_model():
    rng = np.random.default_rng(3)
    found = [pooled([rng.normal(rng.normal(0, 0.5), 0.2, 8) for _ in range(6)]) for _ in range(800)]
    means = np.array([one[0] for one in found])
    assert np.mean([one[1] for one in found]) == pytest.approx(means.var(), rel=0.1)
    excluded = [abs(mean) > stats.t.ppf(0.975, freedom) * math.sqrt(variance) for mean, variance, freedom in found]
    assert 0.03 < np.mean(excluded) < 0.075, "an interval of 95 % misses the truth about once in twenty"


def test_where_a_run_missed_all_time_is_divided_by_successes():
    ours, theirs = [2.0, 2.0, 2.0, 2.0, -4.0], [8.0, 8.0, -16.0, -16.0, 8.0]
    one = term(pairs(ours, theirs))
    assert (one.ours, one.theirs, one.bound, one.missed) == ((4, 5), (3, 5), "", True)
    assert math.exp(one.log) == pytest.approx((56 / 3) / (12 / 4))


def test_the_error_of_running_times_is_that_of_every_resample_of_blocks():
    ours, theirs = np.array([2.0, 3.0, -9.0, 2.5, 2.0]), np.array([8.0, 7.0, 9.0, -20.0, 6.0])

    def log(places):
        sides = [(abs(side[places]).sum() / max(1, (side[places] > 0).sum())) for side in (ours, theirs)]
        return math.log(sides[1] / sides[0])

    every = [log(list(places)) for places in itertools.product(range(5), repeat=5)]
    assert term(pairs(ours, theirs)).variance == pytest.approx(np.var(every) * 5 / 4, rel=0.1)


@pytest.mark.parametrize(
    ("ours", "theirs", "bound", "value"),
    [([2.0] * 5, [-8.0] * 5, "at_least", 4.0), ([-8.0] * 5, [2.0] * 5, "at_most", 0.25)],
)
def test_a_side_that_never_succeeds_gives_a_bound_by_what_its_runs_lasted(ours, theirs, bound, value):
    one = term(pairs(ours, theirs))
    assert (one.bound, combined([one]).bound) == (bound, bound)
    assert math.exp(one.log) == pytest.approx(value)
    assert term(pairs([-1.0] * 5, [-1.0] * 5)) is None, "nobody succeeded"


def test_bounds_in_two_directions_leave_a_ratio_open():
    least, most = term(pairs([2.0] * 5, [-8.0] * 5)), term(pairs([-8.0] * 5, [2.0] * 5))
    assert combined([least, most]).bound == "open"


def test_below_five_pairs_there_is_a_value_without_an_interval():
    one = combined([term(pairs([1.0] * 4, [2.0, 2.0, 2.0, 3.0]))])
    assert one.value > 2
    assert (one.low, one.high, one.p) == (None, None, None)


def test_looks_share_the_error():
    one = term(pairs([1.0, 1.1, 0.9, 1.0, 1.2], [1.5, 1.6, 1.2, 1.8, 1.4]))
    once, thrice = combined([one]), combined([one], looks=3)
    assert thrice.p == pytest.approx(3 * once.p)
    assert thrice.low < once.low < once.high < thrice.high
    assert math.log(thrice.high / thrice.value) == pytest.approx(stats.t.ppf(1 - 0.05 / 6, 4) * once.error)


def test_a_machine_that_changed_between_runs_is_taken_out_by_its_loops():
    rng = np.random.default_rng(4)
    speed = {name: np.exp(rng.normal(0, 0.3, 40)) for name in ("a", "b")}
    true = {"a": 1.0, "b": 1.5}
    every = pd.DataFrame(
        [
            line | {"loop": 100 * speed[name][line["block"]]}
            for name in ("a", "b")
            for line in runs(list(true[name] / speed[name] * np.exp(rng.normal(0, 0.02, 40))), name)
        ]
    )
    adjusted = combined([term(paired(every, "a", "b"))])
    plain = combined([term(paired(every.drop(columns="loop"), "a", "b"))])
    assert adjusted.value == pytest.approx(1.5, rel=0.02)
    assert adjusted.error < plain.error / 5
    assert adjusted.low < 1.5 < adjusted.high
    # One reading is missing: nothing is changed.
    every.loc[0, "loop"] = math.nan
    assert combined([term(paired(every, "a", "b"))]) == plain
