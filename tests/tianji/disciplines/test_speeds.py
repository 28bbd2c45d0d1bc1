"""Measured speeds of producers and learner."""

import math

import pytest

from tianji.disciplines.speeds import Smoothed, Speeds


def test_smoothing_follows_the_rfc():
    # RFC 6298, (2.2) and (2.3): the deviation first, from the mean of before.
    s, mean, deviation = Smoothed(), None, None
    for r in [100.0, 300.0, 120.0, 80.0, 80.0]:
        if mean is None:
            mean, deviation = r, r / 2
        else:
            deviation = 0.75 * deviation + 0.25 * abs(mean - r)
            mean = 0.875 * mean + 0.125 * r
        s.see(r)
        assert (s.mean, s.deviation) == (pytest.approx(mean), pytest.approx(deviation))
        assert s.most == pytest.approx(mean + 4 * deviation)
        assert s.least == pytest.approx(max(0, mean - 4 * deviation))


def steady(producers, times, train, rounds=200):
    speeds = Speeds(producers, producers)
    for _ in range(rounds):
        for producer, took in enumerate(times):
            speeds.produced(producer, took)
        speeds.trained(train)
    return speeds


def test_a_cycle_is_the_slower_side_s():
    assert steady(4, [100] * 4, 10).cycle_ns == pytest.approx(100)
    assert steady(4, [100] * 4, 250).cycle_ns == pytest.approx(250)
    # One after the other they make 1/100 + 1/400 chunks a nanosecond.
    assert steady(2, [100, 400], 10).cycle_ns == pytest.approx(2 / (1 / 100 + 1 / 400))


@pytest.mark.parametrize("spread", [1, 4, 8, 40])
def test_lag_by_simulation(spread):
    """A loop that lets producers run freely, a learner that takes no time: nobody's chunk is older than the bound."""
    times = [1000 * (1 + (spread - 1) * i / 7) for i in range(8)]
    speeds = steady(8, times, 1)
    bound = speeds.lag_rounds()
    ends = sorted((k * took, i) for i, took in enumerate(times) for k in range(1, math.ceil(200 * spread * 1000 / took)))
    began, worst = [0] * 8, 0
    for arrived, (_, i) in enumerate(ends[:20_000]):
        # Chunks that arrive make a round of eight, whoever made them.
        worst = max(worst, arrived // 8 - began[i])
        began[i] = (arrived + 1) // 8
    assert worst <= bound <= worst + 2


def test_nothing_is_said_before_every_producer_was_heard_of():
    speeds = Speeds(2, 2)
    for _ in range(20):
        speeds.produced(0, 100)
        speeds.trained(10)
        assert speeds.lag_rounds() is None
    speeds.produced(1, 100)
    speeds.trained(10)
    assert speeds.lag_rounds() is not None


def test_a_chunk_that_took_longer_than_any_before_is_not_held_to_a_bound_that_knew_nothing_of_it():
    speeds = steady(2, [100, 100], 10)
    before = speeds.lag_rounds()
    speeds.produced(1, 900)
    # Nine rounds of 100 ns may end meanwhile.
    assert before == 2 < 9 < speeds.lag_rounds()


def test_a_round_that_was_slow_once_shortens_no_bound():
    speeds = steady(8, [1000.0 * (1 + i) for i in range(8)], 10)
    before = speeds.lag_rounds()
    speeds.trained(10_000_000)
    assert speeds.lag_rounds() == before
