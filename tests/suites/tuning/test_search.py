"""The search repeats itself, begins with what is advised, and tries nothing twice."""

import math

import pytest

from baselines.space import Space

pytest.importorskip("optuna", reason="optuna is not installed (the extra tune)")

from suites.tuning.search import propose, sampler

SPACE = Space({"a": (1, 2, 3, 4), "b": ("x", "y")}, ({"a": 3, "b": "y"}, {"a": 1, "b": "x"}))


def search(seed, trials, loss):
    """Settings that were tried, in order."""
    tried = []
    for _ in range(trials):
        tried.append(propose(SPACE, seed, [loss(one) for one in tried]))
    return tried


def test_what_is_advised_comes_first_and_nothing_twice():
    tried = search(0, SPACE.size, lambda one: one["a"])
    assert tried[:2] == list(SPACE.first)
    assert sorted(map(str, tried)) == sorted(map(str, SPACE.settings())), "in the end every setting was tried"


def test_the_same_results_give_the_same_search():
    first, second = (search(7, 6, lambda one: one["a"]) for _ in range(2))
    assert first == second
    assert search(8, 6, lambda one: one["a"]) != first


def test_it_goes_on_after_failed_trials():
    assert len(search(1, 5, lambda one: math.inf)) == 5


def test_the_sampler_is_named():
    assert sampler(3).endswith(", seed 3")
