"""Actors of unequal speed and a learner in the simulated world, without noise of a machine."""

import itertools

import numpy as np
import pytest

from suites.components.parts import PARTS
from suites.components.unequal import Unequal
from tianji.config import IMPALAConfig, PPOConfig, TrainConfig

ACTORS, STEPS, SECONDS = 8, 32, 40.0
SHAPES = {
    "equal": [0.1] * 8,
    "four times apart": [0.096 * (0.4 + 1.2 * i / 7) for i in range(8)],
    "one straggler": [0.05] * 7 + [0.4],
}


def config(**more):
    given = {"discipline": "relaxed"} | more
    return TrainConfig(
        env="CartPole-v1", actors=ACTORS, envs_per_actor=1, ppo=PPOConfig(rollout_steps=STEPS, epochs=20), **given
    )


def unequal(times):
    """Chunks that take each actor a time of its own, always the same."""
    return lambda number: itertools.repeat(times[number])


def ran(made, times, round_s):
    run = Unequal(made, times, round_s)
    run.run(SECONDS)
    return run


def rate(run):
    return run.produced / SECONDS


@pytest.mark.long(why="parts are measured for a while")
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["relaxed ppo", "impala"])
def test_actors_that_are_the_slower_side_never_wait(shape, share, kind):
    """Rounds take a tenth, half and nine tenths of the time in which all actors make a round's chunks."""
    times = SHAPES[shape]
    made = {
        "relaxed ppo": config(),
        "impala": config(algo="impala", impala=IMPALAConfig(rollout_steps=STEPS)),
    }[kind]
    all_of_them = sum(STEPS / took for took in times)
    done = ran(made, unequal(times), share * ACTORS * STEPS / all_of_them)
    assert rate(done) >= 0.97 * all_of_them
    assert sum(done.waited) <= 0.02 * SECONDS * ACTORS
    counters = done.learner.counters()
    assert counters["chunks_evicted"] == 0
    assert counters["age_max_rounds"] <= counters["lag_bound_rounds"] <= 16


def test_where_the_learner_is_slower_samples_stay_as_fresh_as_before():
    """A round trains on what was made during the last one: credit is withheld, and chunks are a round old.

    The window is a chunk wider for the first rounds, for the learner waited once, at the start.
    """
    done = ran(config(), unequal([0.02] * 8), 0.1)
    counters = done.learner.counters()
    assert counters["age_p50_rounds"] == 1
    assert sum(n for age, n in done.learner.histograms()["age_rounds"].items() if age > 1) < 0.03 * counters["chunks_arrived"]
    assert counters["lag_bound_rounds"] <= 2
    assert counters["steps"] >= 0.97 * SECONDS / 0.1 * ACTORS * STEPS
    assert counters["window_chunks"] <= ACTORS + 1


def test_strict_actors_wait_for_the_slowest():
    times = SHAPES["four times apart"]
    done = ran(config(discipline="strict"), unequal(times), 0.01)
    assert rate(done) == pytest.approx(ACTORS * STEPS / (max(times) + 0.01), rel=0.02)
    relaxed = ran(config(), unequal(times), 0.01)
    assert rate(relaxed) >= 1.9 * rate(done)


@pytest.mark.parametrize("seed", range(3))
def test_tails_do_not_stop_the_others_either(seed):
    def lognormal(number):
        rng = np.random.default_rng([seed, number])
        while True:
            yield 0.1 * rng.lognormal(-0.5, 1.0)

    done = ran(config(), lognormal, 0.03)
    assert sum(done.waited) <= 0.02 * SECONDS * ACTORS
    counters = done.learner.counters()
    # Only what took longer than sixteen rounds.
    assert counters["chunks_evicted"] <= 0.01 * counters["chunks_arrived"]


def test_a_bound_that_is_set_is_kept_and_nobody_waits_for_it():
    done = ran(config(discipline={"name": "relaxed", "lag_rounds": 1}), unequal(SHAPES["four times apart"]), 0.01)
    counters = done.learner.counters()
    assert counters["age_max_rounds"] <= counters["lag_bound_rounds"] == 1
    assert counters["chunks_evicted"] > 0
    assert sum(done.waited) <= 0.02 * SECONDS * ACTORS


def test_an_actor_whose_speed_changes_is_followed():
    """Its chunks take ten times as long from the middle on: nothing is evicted, and the others go on."""

    def changing(number):
        yield from [0.1] * 200
        while True:
            yield 1.0 if number == 7 else 0.1

    done = ran(config(), changing, 0.01)
    assert done.learner.counters()["chunks_evicted"] == 0
    assert sum(done.waited[:7]) <= 0.02 * SECONDS * 7


@pytest.mark.long(why="parts are measured for a while")
def test_the_part_of_the_gate_repeats_and_finds_a_rule_that_waits(monkeypatch):
    def value(seed):
        return PARTS["production-unequal"].prepare(seed).measure(0.0)

    assert value(1) == value(1) != value(2)
    from tianji.disciplines.balance import Balance

    good = value(1)
    # The rule of before: a window of one round.
    monkeypatch.setattr(Balance, "window", property(lambda b: b.round_chunks))
    monkeypatch.setattr(Balance, "may_widen", lambda b, idle_actor: False)
    assert value(1) < 0.7 * good
