"""Time of one optimizer step: hand-derived gradients in NumPy and autograd in torch side by side.

`nox -s micro` prints both with their ratio; docs/notebook/2026-11-speed.md discusses it.
"""

from functools import partial

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from tianji.algorithms import dqn, dqn_numpy, dqn_torch, ppo, ppo_numpy, ppo_torch, sac_numpy, sac_torch
from tianji.algorithms.networks import ActorCritic, NatureActorCritic, QNetwork
from tianji.algorithms.replay import Experience
from tianji.algorithms.second_core import Helper
from tianji.algorithms.transitions import Transitions
from tianji.algorithms.twin import TwinCritics
from tianji.config import DQNConfig, PPOConfig, SACConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription

PICTURES = pytest.mark.benchmark(group="PPO step of 256 pictures")
SOFT = pytest.mark.benchmark(group="SAC update of 256")


def ppo_updater(kind):
    """The network, minibatch and settings of cartpole-ppo-zoo."""
    rng, rows = np.random.default_rng(0), 256
    network = ActorCritic(4, (64, 64), 2)
    old, advantage, target = rng.normal(size=(3, rows)).astype(np.float32)
    batch = ppo.Rollouts(
        rng.normal(size=(rows, 4)).astype(np.float32), rng.integers(0, 2, rows), 0.3 * old - 0.7, advantage, target
    )
    return kind(network, PPOConfig(), network.initialise(0)), batch


def dqn_updater(kind):
    """The network, minibatch and settings of cartpole-dqn-zoo."""
    rng, rows = np.random.default_rng(0), 64
    network = QNetwork(4, (256, 256), 2)
    target = rng.normal(size=rows).astype(np.float32)
    batch = dqn.Regression(rng.normal(size=(rows, 4)).astype(np.float32), rng.integers(0, 2, rows), target)
    return kind(network, DQNConfig(), network.initialise(0)), batch


def sac_updater(kind):
    """The network, minibatch and settings of halfcheetah-sac-brief."""
    rng, rows, numbers = np.random.default_rng(0), 256, 6
    actions = Actions("box", (0,) * numbers, (numbers,), "<f4", (), (-1.0,) * numbers, (1.0,) * numbers, squash=True)
    network = TwinCritics(17, (256, 256), actions)
    states, following = rng.normal(size=(2, rows, 17)).astype(np.float32)
    action, noise, next_noise = rng.normal(size=(3, rows, numbers)).astype(np.float32)
    reward = rng.normal(size=rows).astype(np.float32)
    discount = np.full(rows, 0.99, np.float32)
    batch = Transitions(states, np.tanh(action), reward, discount, following, noise, next_noise)
    return kind(network, SACConfig(), network.initialise(0)), batch


def pictures_updater(kind, **more):
    """The network, minibatch and settings of pong42-ppo-rate; frames lie as they are placed once a round."""
    rng, rows = np.random.default_rng(0), 256
    network = NatureActorCritic((4, 42, 42), (512,), 6)
    old, advantage, target = rng.normal(size=(3, rows)).astype(np.float32)
    updater = kind(network, PPOConfig(clip=0.1), network.initialise(0), **more)
    features = updater.place(rng.integers(0, 256, (rows, 4, 42, 42), np.uint8))
    return updater, ppo.Rollouts(features, rng.integers(0, 6, rows), 0.01 * old - 1.79, advantage, target)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(ppo_updater, ppo_numpy.NumpyUpdater, id="ppo-numpy", marks=pytest.mark.benchmark(group="PPO step of 256")),
        pytest.param(ppo_updater, ppo_torch.TorchUpdater, id="ppo-torch", marks=pytest.mark.benchmark(group="PPO step of 256")),
        pytest.param(dqn_updater, dqn_numpy.NumpyUpdater, id="dqn-numpy", marks=pytest.mark.benchmark(group="DQN step of 64")),
        pytest.param(dqn_updater, dqn_torch.TorchUpdater, id="dqn-torch", marks=pytest.mark.benchmark(group="DQN step of 64")),
        pytest.param(sac_updater, sac_numpy.NumpyUpdater, id="sac-numpy", marks=SOFT),
        pytest.param(sac_updater, partial(sac_numpy.NumpyUpdater, helper=Helper()), id="sac-numpy-helped", marks=SOFT),
        pytest.param(sac_updater, sac_torch.TorchUpdater, id="sac-torch", marks=SOFT),
        pytest.param(pictures_updater, ppo_torch.TorchUpdater, id="pictures-fp32", marks=PICTURES),
        pytest.param(pictures_updater, partial(ppo_torch.TorchUpdater, precision="bf16"), id="pictures-bf16", marks=PICTURES),
    ],
)
def test_optimizer_step(benchmark, make, kind):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            updater, batch = make(kind)
            before = updater.weights().copy()
            benchmark(updater.step, batch, 1e-4)
    finally:
        torch.set_num_threads(threads)
    assert np.isfinite(updater.weights()).all()
    assert not np.array_equal(updater.weights(), before)


def dqn_round(helper):
    """The network and settings of cartpole-dqn-quick, with a replay of 16,000 steps."""
    rng, steps, environments = np.random.default_rng(0), 2000, 8
    network, config = QNetwork(4, (256, 256), 2), DQNConfig(train_every_steps=256, updates=32, learning_starts=1000)
    updater = dqn_numpy.NumpyUpdater(network, config, network.initialise(0), helper)
    made = dqn.DQN(updater, EnvDescription("CartPole-v1", (4,), "<f4", 0, Actions.of(2)), config, environments, seed=0)
    shape = steps, environments
    views = {
        "observation": rng.normal(size=(steps + 1, environments, 4)).astype(np.float32),
        "action": rng.integers(0, 2, shape),
        "reward": np.ones(shape, np.float32),
        "terminated": rng.random(shape) < 0.01,
        "truncated": np.zeros(shape, bool),
        "final_observation": np.zeros((0, 4), np.float32),
    }
    made.insert([Experience(views, 0, 0)])
    return made


@pytest.mark.benchmark(group="DQN round of 32 steps of 64")
@pytest.mark.parametrize("helped", [False, True], ids=["alone", "with a helper"])
def test_round(benchmark, helped):
    with threadpool_limits(1):
        algorithm = dqn_round(Helper() if helped else None)
        assert benchmark(algorithm.train, 16_000) == 32
