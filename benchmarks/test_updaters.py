"""Time of one optimizer step: hand-derived gradients in NumPy and autograd in torch side by side.

`nox -s micro` prints both with their ratio; docs/performance.md discusses it.
"""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from tianji.algorithms import dqn, dqn_numpy, dqn_torch, ppo, ppo_numpy, ppo_torch
from tianji.algorithms.networks import ActorCritic, QNetwork
from tianji.config import DQNConfig, PPOConfig


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


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(ppo_updater, ppo_numpy.NumpyUpdater, id="ppo-numpy", marks=pytest.mark.benchmark(group="PPO step of 256")),
        pytest.param(ppo_updater, ppo_torch.TorchUpdater, id="ppo-torch", marks=pytest.mark.benchmark(group="PPO step of 256")),
        pytest.param(dqn_updater, dqn_numpy.NumpyUpdater, id="dqn-numpy", marks=pytest.mark.benchmark(group="DQN step of 64")),
        pytest.param(dqn_updater, dqn_torch.TorchUpdater, id="dqn-torch", marks=pytest.mark.benchmark(group="DQN step of 64")),
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
