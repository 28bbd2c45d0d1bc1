"""Closed forms of round times: against enumeration, the suite's own forms, and the roles in the simulated world."""

import itertools

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from suites.disciplines import analysis, forecast
from suites.session import catalogue
from tianji.config import SimulatorConfig, TrainConfig
from tianji.disciplines import round_times as forms
from tianji.disciplines.round_times import Steps, Times


def in_order_s(t, eta):
    """Time of a round of one fragment of every actor if actors may be `eta` rounds ahead."""
    return forms.barrier_s(t) if eta == 0 else max(*t.fragments_s, t.round_s, t.computing_s)


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
        ({"name": "admitted-in-order", "eta": 0}, in_order_s(t, 0)),
        ({"name": "admitted-in-order", "eta": 2}, in_order_s(t, 2)),
        ({"name": "relaxed"}, forms.free_s(t)),
    ):
        assert 30.0 / seconds == pytest.approx(analysis.bound_per_s(discipline, same))


@pytest.mark.parametrize("actors", [1, 2, 8, 32])
def test_steps_that_are_alike_have_rests_that_are_uniform(actors):
    """The largest of n uniform values is n / (n + 1) on average."""
    alike = [Steps(mean_s=0.01, slow={0.01: 1.0})] * actors
    assert forms.longest_rest(alike) == pytest.approx(0.01 * (actors / (actors + 1) - 1 / 2), abs=1e-4)


def test_without_slow_steps_nothing_is_waited_for():
    assert forms.longest_rest([Steps(mean_s=0.0005, slow={})] * 2) == 0


def test_a_round_of_any_samples_with_a_tail_takes_as_long_as_the_rule_played_step_by_step():
    """Eight actors with steps as in `cartpole-ppo-tail`: a round closes with the fourth fragment, and each ends its step."""
    rng, actors, steps, mean_s, round_s = np.random.default_rng(4), 8, 32, 0.003, 0.010

    def drawn(*shape):
        return mean_s * rng.lognormal(-(1.5**2) / 2, 1.5, shape)

    rounds, made, took_s = 600, 0, 0.0
    for _ in range(rounds):
        ends = drawn(actors, 6 * steps).cumsum(axis=1)
        closes = np.sort(ends[:, steps - 1 :: steps].ravel())[actors // 2 - 1]
        under_way = [int(np.searchsorted(one, closes)) for one in ends]
        took_s += max(one[step] for one, step in zip(ends, under_way, strict=True)) + round_s
        made += sum(step + 1 for step in under_way)
    edges = 0.001 * 2 ** (np.arange(15 * 16 + 1) / 16)
    shares = np.diff(stats.lognorm(1.5, scale=mean_s * np.exp(-(1.5**2) / 2)).cdf(edges))
    one = Steps(mean_s=mean_s, slow=dict(zip((edges[:-1] * 2 ** (1 / 32)).tolist(), shares.tolist(), strict=True)))
    rest_s = forms.longest_rest([one] * actors)
    t = Times(fragments_s=(steps * mean_s,) * actors, slowest_s=steps * mean_s, round_s=round_s, rest_s=rest_s)
    assert actors * steps / forms.any_samples_s(t) == pytest.approx(made / took_s, rel=0.1)
    # What it would be if a round ended when it closes is far away.
    assert actors * steps / forms.any_samples_s(replace(t, rest_s=0.0)) > 1.3 * made / took_s


def test_no_round_is_shorter_than_its_computing():
    t = Times(fragments_s=(1.0, 1.0), slowest_s=1.0, round_s=1.0, computing_s=1.75)
    assert forms.barrier_s(t) == 2
    assert forms.any_samples_s(t) == 2
    assert forms.exactly_one_round_s(t) == in_order_s(t, 1) == forms.free_s(t) == 1.75


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
