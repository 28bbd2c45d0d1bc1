"""The gate: what it calls worse, how often it is wrong, and when it has seen enough."""

import math

import numpy as np
import pytest
from scipy import stats

from suites.statistics.gate import Judgement, Rule, decide, final, judge, worsening

HIGHER = "higher"


def one(values, rule=None):
    return judge({"m": values}, {"m": HIGHER}, rule or Rule())["m"]


def noisy(rng, shift, sd, n):
    return list(rng.normal(shift, sd, n))


def test_worse_is_worse_in_either_direction():
    assert worsening(200.0, 100.0, "higher") == pytest.approx(math.log(2))
    assert worsening(100.0, 200.0, "lower") == pytest.approx(math.log(2))
    assert worsening(100.0, 200.0, "higher") == pytest.approx(-math.log(2))
    for values in ((0.0, 1.0), (1.0, -1.0), (1.0, float("nan"))):
        with pytest.raises(ValueError, match="positive"):
            worsening(*values, "higher")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.150, 0.155, 0.145, 0.151, 0.149, 0.152], "worse"),
        ([0.030, 0.031, 0.029, 0.030, 0.032, 0.028], "equivalent"),
        ([0.0, 0.0, 0.0, 0.0], "equivalent"),
        ([0.20, 0.20, 0.20, 0.20], "worse"),
        ([-0.15, -0.151, -0.149, -0.152], "better"),
        ([-0.03, -0.10, -0.04, -0.08, -0.02, -0.11], "better"),
        ([-0.02, -0.09, 0.0, -0.07, 0.01, -0.06], "not worse"),
        ([0.10, -0.05, 0.20, 0.0, 0.15, -0.10], "inconclusive"),
        ([0.040, 0.056, 0.044, 0.052], "inconclusive"),
    ],
)
def test_verdicts(values, kind):
    assert one(values).kind == kind


def test_a_difference_that_is_shown_but_small_does_not_fail_a_build():
    assert one([0.03, 0.0301, 0.0299, 0.03]).kind == "equivalent"
    assert one([0.03, 0.0301, 0.0299, 0.03], Rule(size=0.01)).kind == "worse"


def test_a_difference_that_is_large_but_not_shown_does_not_either():
    assert one([0.9, -0.5, 0.4, -0.3]).kind == "inconclusive"


def test_the_ratio_and_its_interval_are_students():
    values = [0.10, 0.14, 0.08, 0.13, 0.11]
    found = one(values)
    expected = stats.ttest_1samp(values, 0, alternative="greater")
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.ratio, found.n) == (pytest.approx(math.exp(-np.mean(values))), 5)
    assert (found.low, found.high) == (pytest.approx(math.exp(-interval.high)), pytest.approx(math.exp(-interval.low)))
    other = judge({"m": values}, {"m": "lower"}, Rule())["m"]
    assert other.ratio == pytest.approx(math.exp(np.mean(values))), "seconds rise where rates fall"


def test_it_looks_again_only_while_something_is_open():
    rule = Rule(looks=(4, 6))
    flat = [0.001, -0.001, 0.002, 0.0, 0.001, -0.002]
    wide = [0.2, -0.2, 0.15, -0.1, 0.1, 0.2]
    better = {"flat": HIGHER, "wide": HIGHER}
    assert decide({"flat": flat[:3], "wide": wide[:3]}, better, rule) == ({}, 0, False)
    verdicts, used, over = decide({"flat": flat[:5], "wide": wide[:5]}, better, rule)
    assert (used, over, verdicts["flat"].kind, verdicts["wide"].kind) == (4, False, "equivalent", "inconclusive")
    verdicts, used, over = decide({"flat": flat, "wide": wide}, better, rule)
    assert (used, over, final(verdicts)) == (6, True, False), "the last look: what is open stays inconclusive"
    verdicts, used, over = decide({"flat": flat}, {"flat": HIGHER}, rule)
    assert (used, over) == (4, True)


def test_it_stops_at_once_where_something_is_worse():
    rule = Rule(looks=(4, 6, 9))
    rounds = {"bad": [0.20, 0.201, 0.199, 0.2] + [0.0] * 5, "open": [0.2, -0.2, 0.15, -0.1] + [0.1] * 5}
    verdicts, used, over = decide(rounds, dict.fromkeys(rounds, HIGHER), rule)
    assert (used, over, verdicts["bad"].kind) == (4, True, "worse")


TRIALS = 600


def test_false_alarms_of_all_metrics_and_looks_together_stay_below_what_was_asked():
    """With no practical size to shield it: only the evidence counts."""
    rng, rule = np.random.default_rng(5), Rule(size=1e-6)
    names = [f"m{i}" for i in range(7)]
    alarms = 0
    for _ in range(TRIALS):
        verdicts, _, _ = decide(
            {name: noisy(rng, 0, 0.03, rule.looks[-1]) for name in names}, dict.fromkeys(names, HIGHER), rule
        )
        alarms += any(verdict.kind == "worse" for verdict in verdicts.values())
    assert stats.binomtest(alarms, TRIALS, rule.error, alternative="greater").pvalue > 0.01
    assert alarms > 0, "a gate that cannot be wrong does not look"


def test_what_is_15_percent_slower_is_found_nine_times_of_ten_among_others():
    rng, names = np.random.default_rng(6), [f"m{i}" for i in range(7)]
    found = 0
    for _ in range(TRIALS // 3):
        rounds = {name: noisy(rng, math.log(1.15) if name == "m0" else 0, 0.05, Rule.looks[-1]) for name in names}
        verdicts, _, _ = decide(rounds, dict.fromkeys(names, HIGHER), Rule())
        found += verdicts["m0"].kind == "worse"
    assert found >= 0.9 * (TRIALS // 3)


@pytest.mark.parametrize(
    ("more", "says"),
    [({"size": 0.0}, "size 0"), ({"error": 0.6}, "error 0.6"), ({"looks": (2, 4)}, "looks"), ({"looks": (6, 4)}, "rising")],
)
def test_a_rule_that_makes_no_sense_is_refused(more, says):
    with pytest.raises(ValueError, match=says):
        Rule(**more)


def test_two_rounds_are_not_judged():
    with pytest.raises(ValueError, match="m: 2 rounds cannot be judged"):
        one([0.1, 0.2])
    assert isinstance(one([0.1, 0.2, 0.15]), Judgement)
