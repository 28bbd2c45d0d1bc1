"""The schedule of saves, with a clock that the tests move."""

import math

from tianji.launch.saves import FIRST_SAVE_S, SAVING_SHARE, Saves

BOTH = frozenset({"learner g0", "learner g1"})


def begun(every_s=10.0, roles=BOTH):
    saves = Saves()
    saves.begin(roles, every_s, 100.0)
    return saves


def test_the_first_save_comes_soon_so_that_an_early_death_loses_little():
    saves = begun(every_s=600.0)
    assert saves.ask(100.0 + FIRST_SAVE_S - 0.01) == frozenset()
    assert saves.ask(100.0 + FIRST_SAVE_S) == BOTH


def test_the_next_save_waits_until_every_role_has_answered():
    saves = begun()
    saves.ask(102.0)
    saves.saved("learner g0", 1_000_000, 102.5)
    assert saves.due_at == math.inf
    saves.saved("learner g1", 1_000_000, 103.0)
    assert saves.due_at == 113.0


def test_a_long_save_makes_the_next_one_later_and_a_short_one_brings_it_back():
    saves = begun()
    saves.ask(102.0)
    saves.saved("learner g0", 2_000_000_000, 104.0)
    saves.saved("learner g1", 1_000_000, 104.0)
    assert saves.due_at == 104.0 + 2.0 / SAVING_SHARE
    saves.ask(saves.due_at)
    for role in BOTH:
        saves.saved(role, 1_000_000, 400.0)
    assert saves.due_at == 410.0
    assert saves.longest_ns == 2_000_000_000


def test_without_an_interval_or_a_role_nothing_is_asked_for():
    assert begun(every_s=None).due_at == math.inf
    assert begun(roles=()).due_at == math.inf


def test_a_run_that_ends_plans_no_save_but_counts_those_under_way():
    saves = begun()
    saves.ask(102.0)
    saves.end()
    for role in BOTH:
        saves.saved(role, 3_000_000, 103.0)
    assert saves.due_at == math.inf
    assert saves.longest_ns == 3_000_000
