"""Time of one step of environments that are stepped together: Gymnasium's loop and ours side by side."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tianji.environments.making import make_env
from tianji.environments.vector import Environments

STEPS = 100


def gymnasiums(count):
    vector = SyncVectorEnv([lambda: make_env("CartPole-v1")] * count, autoreset_mode=AutoresetMode.SAME_STEP, copy=False)
    observations, rewards = np.zeros((count, 4), np.float32), np.zeros(count, np.float32)

    def step(actions):
        observations[:], rewards[:] = vector.step(actions)[:2]

    vector.reset(seed=list(range(count)))
    return step, observations, vector.close


def ours(count):
    environments = Environments("CartPole-v1", range(count))
    observations, rewards = np.zeros((count, 4), np.float32), np.zeros(count, np.float32)
    environments.reset(list(range(count)))
    return lambda actions: environments.step(actions, observations, rewards), observations, environments.close


@pytest.mark.parametrize("make_step", [gymnasiums, ours])
@pytest.mark.parametrize(
    "count", [pytest.param(n, marks=pytest.mark.benchmark(group=f"{STEPS} steps of CartPole x {n}")) for n in (1, 8)]
)
def test_step(benchmark, make_step, count):
    step, observations, close = make_step(count)
    chosen = np.random.default_rng(0).integers(0, 2, (STEPS, count))

    def steps():
        for actions in chosen:
            step(actions)

    benchmark(steps)
    assert (observations != 0).all()
    close()
