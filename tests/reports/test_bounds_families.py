"""Extremes and looks have wider intervals, and steps come before seconds."""

from types import SimpleNamespace

import numpy as np
import pytest

from reports import bounds
from reports.training import Trained
from suites.statistics.intervals import paired_ratio


def row(value, low=None, high=None, n=5, baseline="other"):
    return {"value": value, "ci_low": low, "ci_high": high, "n": n, "censored": 0, "baseline": baseline}


def of(ratios):
    found = paired_ratio(ratios, np.ones(len(ratios)))
    return row(found.value, found.low, found.high, found.n)


def test_the_lowest_of_many_ratios_has_an_interval_for_all_of_them():
    """With twenty equal ratios, the lowest one's own interval misses 1 too often."""
    rng = np.random.default_rng(4)
    misses = {1: 0, 20: 0}
    tables = 400
    for _ in range(tables):
        lowest = min((of(np.exp(rng.normal(0, 0.1, 5))) for _ in range(20)), key=lambda one: one["value"])
        for cells in misses:
            misses[cells] += bounds.extreme(lowest, cells)["ci_high"] < 1
    assert misses[1] / tables > 0.15
    assert misses[20] / tables < 0.05
    assert bounds.extreme(row(2.0), 20) == row(2.0)


def test_looks_widen_ratios_and_nothing_else():
    one = of([1.1, 1.2, 1.3, 1.2, 1.1])
    assert bounds.looked(one, 1) == one
    assert bounds.looked(one, 2)["ci_low"] < one["ci_low"] < one["ci_high"] < bounds.looked(one, 2)["ci_high"]
    seconds = one | {"baseline": None}
    assert bounds.looked(seconds, 2) == seconds


ROWS = {("sync", "rllib"): row(0.8, 0.7, 0.9), ("tianji", "sync"): row(1.25, 1.1, 1.42), ("sync", "sb3"): row(0.9, 0.7, 1.2)}
"""How many times as many steps the second system needs as the first."""


@pytest.mark.parametrize(("label", "ratio"), [("rllib", 0.8), ("tianji", 0.8), ("sb3", 0.9), ("sync", None), ("unknown", None)])
def test_steps_are_over_those_of_the_synchronous_system(label, ratio):
    def find(system, metric, threshold_kind, baseline):
        return ROWS.get((system, baseline))

    found = Trained.steps(SimpleNamespace(synchronous="sync", row=find), label, "evaluated")
    assert (found and found["value"]) == (None if ratio is None else pytest.approx(ratio))


def test_a_system_that_needs_significantly_fewer_steps_is_named():
    steps = {"rllib": row(0.8, 0.7, 0.9), "sb3": row(0.9, 0.7, 1.2), "few": row(0.5, n=3)}
    view = SimpleNamespace(steps=lambda label, kind: steps.get(label) if kind == "training" else None, title=str.upper)
    view.fewer = lambda label: Trained.fewer(view, label)
    assert Trained.suspected(view, "rllib") == "RLLIB (another algorithm? training 0.800x the steps)"
    assert [Trained.suspected(view, label) for label in ("sb3", "few", "sync")] == ["SB3", "FEW", "SYNC"]
