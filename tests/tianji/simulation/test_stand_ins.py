"""Time that a pretended fragment takes."""

import pytest

from tianji.algorithms.base import complete
from tianji.config import PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.roles.actor import Rollout
from tianji.simulation.stand_ins import PretendedSampler
from tianji.topology import chunk_layout

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
STEPS, LONG_S, SHORT_S = 8, 8.0, 0.8


class Alternate:
    """A long fragment, then a short one, and so on."""

    def __init__(self):
        self.drawn = 0

    def fragment(self, actor):
        self.drawn += 1
        return 0.0, LONG_S if self.drawn % 2 else SHORT_S


class Waits:
    """Passage that notes each wait."""

    def __init__(self, rationed=False):
        self.seconds = []
        self.rationed = rationed

    def compute(self, seconds, *, deaf=False):
        yield from ()

    def sleep(self, seconds, *, deaf=False):
        self.seconds.append(seconds)
        return round(seconds * 1e9)


def sampler(discipline, rationed=False):
    config = TrainConfig(
        env=CARTPOLE.env,
        actors=1,
        envs_per_actor=1,
        ppo=PPOConfig(rollout_steps=STEPS, minibatch_size=STEPS),
        discipline=discipline,
    )
    times, waits = Alternate(), Waits(rationed)
    return PretendedSampler(waits, times, config, chunk_layout(config, CARTPOLE), 0, None), times, waits


def test_a_simulator_goes_on_with_its_delay_after_a_cut():
    worker, times, waits = sampler("quota-free")
    slices = worker.work(Rollout(None))
    for _ in range(3):
        next(slices)
    worker.cut()
    assert complete(slices).count == 3
    done = complete(worker.work(Rollout(None)))
    # Five steps are left of the long delay; a short one follows for as many as fill the fragment.
    assert (done.count, times.drawn) == (STEPS, 2)
    assert waits.seconds == pytest.approx([LONG_S / STEPS] * 3 + [LONG_S / STEPS] * 5 + [SHORT_S / STEPS] * 3)


def test_a_fragment_that_is_not_cut_has_one_delay():
    worker, times, waits = sampler("relaxed")
    for _ in range(2):
        assert complete(worker.work(Rollout(None))).count == STEPS
    assert waits.seconds == pytest.approx([LONG_S, SHORT_S])
    complete(worker.work(Rollout(None, brief=True)))
    complete(worker.work(Rollout(None)))
    assert times.drawn == 4
    assert waits.seconds[2:] == pytest.approx([LONG_S / STEPS, SHORT_S])


@pytest.mark.parametrize("rationed", [False, True])
def test_a_fragment_is_one_piece_unless_its_computation_is_rationed(rationed):
    worker, _, waits = sampler("relaxed", rationed)
    complete(worker.work(Rollout(None)))
    assert sum(waits.seconds) == pytest.approx(LONG_S)
    assert len(waits.seconds) == (STEPS if rationed else 1)
