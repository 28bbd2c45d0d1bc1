"""Forecasts of small runs, against closed forms."""

from dataclasses import dataclass

import pytest

from tianji.config import PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.simulation.forecast import forecast
from tianji.simulation.machines import Machine
from tianji.simulation.world import IDEAL

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
STEPS, WIDTH = 8, 4
SAMPLES = STEPS * WIDTH
PARAMETERS = 9155
"""Of two networks of two layers of 64."""


@dataclass(frozen=True)
class Constant:
    fragment_s: float = 0.01
    wait_s: float = 0.0
    round_s: float = 0.02
    model_s: float = 0.0

    def fragment(self, actor):
        return self.fragment_s, self.wait_s

    def round(self, group, samples):
        return self.round_s

    def mean(self, groups):
        return groups * self.model_s


def run(times, nodes, *, one_learner=False, discipline="strict", machine=IDEAL, fusion_rounds=1, rounds=8):
    groups = 1 if one_learner else nodes
    config = TrainConfig(
        env=CARTPOLE.env,
        groups=groups,
        actors=nodes // groups,
        envs_per_actor=WIDTH,
        fusion_rounds=fusion_rounds,
        ppo=PPOConfig(rollout_steps=STEPS, minibatch_size=SAMPLES),
        discipline=discipline,
    )
    return forecast(config, CARTPOLE, times, machine, nodes, rounds)


def test_a_barrier_adds_what_an_overlap_hides():
    strict, overlapped = (run(Constant(), 2, one_learner=True, discipline=rule) for rule in ("strict", "exactly-one-round"))
    assert strict.steps_per_s == pytest.approx(2 * SAMPLES / 0.03, rel=1e-3)
    assert overlapped.steps_per_s == pytest.approx(2 * SAMPLES / 0.02, rel=1e-3)
    assert (strict.age_rounds, overlapped.age_rounds) == (0, 1)
    assert (strict.binds, overlapped.binds) == ("learner", "learner")


def test_slow_simulators_bind():
    found = run(Constant(wait_s=0.05), 2)
    assert found.steps_per_s == pytest.approx(2 * SAMPLES / 0.08, rel=1e-3)
    assert found.binds == "simulators"


def test_a_slow_mean_binds_at_the_root():
    found = run(Constant(model_s=0.02), 4)
    # Fragment, updates, the mean of four, and its adoption.
    assert found.steps_per_s == pytest.approx(4 * SAMPLES / (0.03 + 4 * 0.02 + 0.02), rel=1e-3)
    assert found.binds == "Root's core"


@pytest.mark.parametrize("each", [4, 16])
def test_a_window_has_whole_exchanges(each):
    found = run(Constant(model_s=0.01), 2, fusion_rounds=each, rounds=3)
    # In so many rounds there is one exchange, wherever the window begins.
    assert found.steps_per_s == pytest.approx(2 * each * SAMPLES / (each * 0.03 + 3 * 0.01), rel=1e-3)


def test_weights_for_all_nodes_fill_the_link_of_one_learner():
    found = run(Constant(), 4, one_learner=True, machine=Machine(link_bytes_per_s=1e6))
    # Three nodes have links of their own; the learner's sends them one vector after another.
    vectors_s, rounds_per_s = 3 * 4 * PARAMETERS / 1e6, found.steps_per_s / (4 * SAMPLES)
    assert found.shares.hub_out == pytest.approx(vectors_s * rounds_per_s, rel=0.05)
    assert found.binds == "learner's link, out"
