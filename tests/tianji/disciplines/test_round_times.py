"""Closed forms of round times: against enumeration, the suite's own forms, and the roles in the simulated world."""

import itertools

import pytest
from msgspec.structs import replace

from suites.disciplines import analysis, forecast
from suites.session import catalogue
from tianji.config import SimulatorConfig, TrainConfig
from tianji.disciplines import round_times as forms
from tianji.disciplines.round_times import Times


def test_the_expected_maximum_is_that_of_all_combinations():
    distributions = [{3: 2, 7: 1}, {0: 1, 5: 3}, {4: 1}]
    drawn = [[value for value, count in one.items() for _ in range(count)] for one in distributions]
    largest = [max(values) for values in itertools.product(*drawn)]
    assert forms.expected_max(distributions) == pytest.approx(sum(largest) / len(largest))
    assert forms.expected_max([{4: 3}]) == 4
    assert forms.expected_max(distributions) == pytest.approx(analysis.expected_max(distributions))


@pytest.mark.parametrize("round_s", [0.05, 0.2, 1.0])
def test_both_sets_of_forms_agree(round_s):
    """The analysis of the suite stands alone, so it has its own."""
    t = Times(fragments_s=(0.1, 0.2, 0.4), slowest_s=0.45, round_s=round_s)
    same = analysis.Times(t.fragments_s, 10.0, t.slowest_s, round_s, 30.0)
    assert (t.rho, t.spread) == pytest.approx((same.rho, same.spread))
    for discipline, seconds in (
        ({"name": "strict"}, forms.barrier_s(t)),
        ({"name": "quota-free"}, forms.any_samples_s(t)),
        ({"name": "exactly-one-round"}, forms.exactly_one_round_s(t)),
        ({"name": "admitted-in-order", "eta": 0}, forms.in_order_s(t, 0)),
        ({"name": "admitted-in-order", "eta": 2}, forms.in_order_s(t, 2)),
        ({"name": "relaxed"}, forms.free_s(t)),
    ):
        assert 30.0 / seconds == pytest.approx(analysis.bound_per_s(discipline, same))


def test_no_round_is_shorter_than_its_computing():
    t = Times(fragments_s=(1.0, 1.0), slowest_s=1.0, round_s=1.0, computing_s=1.75)
    assert forms.barrier_s(t) == 2
    assert forms.any_samples_s(t) == 2
    assert forms.exactly_one_round_s(t) == forms.in_order_s(t, 1) == forms.free_s(t) == 1.75


@pytest.mark.parametrize("round_s", [0.128, 0.256])
def test_the_roles_under_relaxed_take_the_time_and_age_that_the_forms_say(round_s):
    """Simulators four times apart, in the simulated world: times within a tenth. The age is the most that it is."""
    workload = catalogue.load("cartpole-ppo-equal")
    config = TrainConfig(
        env="CartPole-v1",
        actors=4,
        envs_per_actor=1,
        chunk_slots=12,
        discipline="relaxed",
        ppo=workload.ppo,
        simulator=SimulatorConfig(step_seconds=0.004, spread=4.0, spread_over=4),
        update_seconds=round_s,
    )
    stated = forecast.Stated(config)
    fragments = tuple(stated.fragment(actor)[1] for actor in range(4))
    t = Times(fragments_s=fragments, slowest_s=max(fragments), round_s=round_s)
    found = forecast.predicted(config, 60)
    assert config.round_steps / found.steps_per_s == pytest.approx(forms.free_s(t), rel=0.1)
    assert forms.free_age(t) - 1 <= found.age_rounds <= forms.free_age(t) + 0.5
    strict = forecast.predicted(replace(config, discipline="strict"), 60)
    assert config.round_steps / strict.steps_per_s == pytest.approx(forms.barrier_s(t), rel=0.1)
