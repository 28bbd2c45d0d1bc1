"""The file of a calibration, and times drawn from it against what was recorded."""

import json
from collections import Counter

import numpy as np
import pytest

from programs.cli import ConfigError
from tianji.config import PPOConfig, SimulatorConfig, TrainConfig
from tianji.simulation.calibration import Calibration, Drawn, Durations, Fragment, Round, Work, load
from tianji.simulation.machines import Machine
from tianji.telemetry import bin_of


def recorded(*seconds):
    return Durations(len(seconds), sum(seconds), dict(Counter(bin_of(round(one * 1e9)) for one in seconds)))


FRAGMENTS = recorded(*np.random.default_rng(3).lognormal(-5, 1.0, 500).tolist())
ROUNDS = recorded(0.01, 0.01, 0.04)


def calibration(**more):
    work = Work(
        env="CartPole-v1",
        fragments=(Fragment(32, 8, FRAGMENTS), Fragment(32, 1, recorded(0.001), recorded(0.25))),
        rounds=(Round(256, ROUNDS), Round(2048, recorded(0.05), reuse=5)),
        parameters=1000,
        **more,
    )
    return Calibration(Machine(cores=2, wake_seconds=5e-5), "a machine; a version", {"cartpole-ppo": work})


def config(steps=32, environments=8, **more):
    ppo = PPOConfig(rollout_steps=steps, minibatch_size=32)
    return TrainConfig(env="CartPole-v1", envs_per_actor=environments, ppo=ppo, **more)


def drawn(seed=0, made=None, **more):
    return Drawn(made or calibration(), "cartpole-ppo", config(**more), seed)


def test_a_file_gives_back_what_was_written(tmp_path):
    made = calibration(mean=recorded(1e-5), adoption=recorded(1e-4))
    made.save(tmp_path / "calibration.json")
    assert load(tmp_path / "calibration.json") == made


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data.update(schema=99), "schema 99"),
        (lambda data: data["machine"].update(cores=0), "cores"),
        (lambda data: next(iter(data["work"].values())).update(loops_per_s=0), "bare loop"),
        (lambda data: data["machine"].update(wakes=0), "wakes"),
        (lambda data: data["work"]["cartpole-ppo"].update(rounds=[]), "rounds"),
        (lambda data: data["work"]["cartpole-ppo"]["rounds"][0]["compute"].update(count=4), "bins"),
        (lambda data: data["work"]["cartpole-ppo"]["rounds"][0]["compute"].update(sum_s=-1), "negative"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, change, says):
    file = tmp_path / "calibration.json"
    calibration().save(file)
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match=says) as raised:
        load(file)
    assert "\n" not in str(raised.value)


def test_no_file_says_how_to_get_one(tmp_path):
    with pytest.raises(ConfigError, match="suites calibrate"):
        load(tmp_path / "none.json")


def test_drawn_times_are_the_recorded_distribution():
    times = drawn()
    for _ in range(2):
        found = [times.fragment(0)[0] for _ in range(FRAGMENTS.count)]
        assert sum(found) == pytest.approx(FRAGMENTS.sum_s)
        # The exact mean moves values by less than a bin.
        bins = sorted(bin_of(round(one * 1e9)) for one in found)
        expected = sorted(Counter(FRAGMENTS.bins).elements())
        assert max(abs(a - b) for a, b in zip(bins, expected, strict=True)) <= 1


def test_many_durations_are_thinned_by_quantiles():
    many = Durations(10_000, 9_000 * 0.001 + 1_000 * 0.1, {bin_of(1_000_000): 9_000, bin_of(100_000_000): 1_000})
    deck = many.deck()
    assert np.mean(deck > 0.05) == pytest.approx(0.1, abs=0.001)
    assert deck.mean() == pytest.approx(many.mean_s)


def test_each_actor_has_a_stream_of_its_own_and_a_seed_repeats_it():
    times, again, other = drawn(), drawn(), drawn(seed=1)
    first = [times.fragment(0) for _ in range(50)]
    assert [times.fragment(1) for _ in range(50)] != first
    # What one draws does not move the stream of another.
    for _ in range(7):
        again.fragment(1)
    assert [again.fragment(0) for _ in range(50)] == first
    assert [other.fragment(0) for _ in range(50)] != first


def test_other_sizes_are_scaled_from_the_nearest():
    assert drawn(environments=1, steps=64).fragment(0) == pytest.approx((0.002, 0.5), rel=1e-6)
    assert drawn(environments=2, steps=32).fragment(0) == pytest.approx((0.002, 0.25), rel=1e-6)
    times = drawn()
    # The default reuse is 10 epochs, twice what was measured.
    assert times.round(0, 4096) == pytest.approx(0.2)
    assert sum(times.round(0, 128) for _ in range(3)) == pytest.approx(ROUNDS.sum_s / 2)


def test_stated_delays_keep_the_speed_of_each_actor_and_have_the_measured_mean():
    simulator = SimulatorConfig(step_seconds=0.01, spread=3, spread_over=2)
    times = drawn(environments=1, actors=2, simulator=simulator)
    # One actor is three times as slow as the other, and both together waited for .25 s, where .32 s is stated.
    assert [times.fragment(actor)[1] for actor in range(2)] == pytest.approx([0.125, 0.375], rel=1e-6)
    # No wait was measured with eight environments, two of which are an actor's fastest and slowest.
    assert drawn(simulator=simulator).fragment(0)[1] == pytest.approx(32 * 0.015, rel=1e-6)


def test_a_mean_takes_its_time_for_each_model():
    made = calibration(mean=recorded(1e-5), adoption=recorded(1e-4))
    times = drawn(made=made, groups=4)
    assert (times.mean(1), times.mean(4)) == pytest.approx((1e-4, 4e-5))
    with pytest.raises(ConfigError, match="means"):
        drawn(groups=4)


def test_workloads_are_found_by_name_or_environment():
    made = calibration()
    assert made.of("cartpole-ppo") is made.of("CartPole-v1")
    with pytest.raises(ConfigError, match="calibrated: cartpole-ppo"):
        made.of("pong42-ppo")
