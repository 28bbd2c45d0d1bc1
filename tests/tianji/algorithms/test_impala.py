"""IMPALA against slow, independent references: a Python loop for the loss, finite differences for the gradient."""

import math

import numpy as np
import pytest
import torch

from programs.cli import ConfigError
from tianji.algorithms import algorithm, networks, updaters
from tianji.algorithms.distributions_torch import Categorical
from tianji.algorithms.impala import IMPALA
from tianji.algorithms.impala_numpy import NumpyUpdater
from tianji.algorithms.impala_torch import TorchUpdater, loss
from tianji.algorithms.networks import ActorCritic, SharedActorCritic
from tianji.algorithms.networks_torch import heads
from tianji.algorithms.rollouts import Rollouts
from tianji.config import IMPALAConfig, NetworkConfig, TrainConfig
from tianji.environments.description import EnvDescription

SEED = 5
"""Of a chunk with terminations and truncations."""
CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)


def make_batch(rng, rows, features, actions):
    return Rollouts(
        rng.normal(size=(rows, features)).astype(np.float32),
        rng.integers(0, actions, rows),
        np.zeros(rows, np.float32),
        rng.normal(size=rows).astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
    )


def test_loss_equals_a_slow_loop():
    rng, config = np.random.default_rng(0), IMPALAConfig(value_coefficient=0.7, entropy_coefficient=0.03)
    logits, values, batch = rng.normal(size=(9, 3)), rng.normal(size=9), make_batch(rng, 9, 2, 3)
    total = 0.0
    for i in range(9):
        norm = math.log(sum(math.exp(v) for v in logits[i]))
        log_p = [v - norm for v in logits[i]]
        total -= float(batch.advantage[i]) * log_p[batch.action[i]]
        total += 0.7 * (values[i] - float(batch.value_target[i])) ** 2
        total += 0.03 * sum(math.exp(v) * v for v in log_p)
    columns = (torch.tensor(c) for c in (batch.action, batch.advantage, batch.value_target))
    got = loss(Categorical(torch.tensor(logits)), torch.tensor(values), *columns, config)
    assert float(got) == pytest.approx(total / 9, rel=1e-6)


@pytest.mark.parametrize("kind", [ActorCritic, SharedActorCritic])
@pytest.mark.parametrize("hidden", [(), (6,), (7, 5)])
def test_hand_derived_gradient_equals_autograd(kind, hidden):
    rng, config = np.random.default_rng(len(hidden)), IMPALAConfig()
    network = kind(3, hidden, 4)
    flat, batch = rng.normal(size=network.size).astype(np.float32), make_batch(rng, 17, 3, 4)
    ours = NumpyUpdater(network, config, flat).gradient(batch)
    theirs = TorchUpdater(network, config, flat).gradient(batch).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("kind", [ActorCritic, SharedActorCritic])
def test_gradient_equals_finite_differences(kind):
    rng, config = np.random.default_rng(5), IMPALAConfig(entropy_coefficient=0.1)
    network, batch = kind(3, (5, 4), 3), make_batch(rng, 8, 3, 3)
    flat = rng.normal(size=network.size)

    def loss_at(point):
        blocks = network.views(torch.tensor(point))
        logits, values = heads(network, blocks, torch.tensor(batch.features, dtype=torch.float64))
        columns = (torch.tensor(c) for c in (batch.action, batch.advantage, batch.value_target))
        return float(loss(Categorical(logits), values, *columns, config))

    slopes = [(loss_at(flat + step) - loss_at(flat - step)) / 2e-6 for step in 1e-6 * np.eye(len(flat))]
    gradient = TorchUpdater(network, config, flat.astype(np.float32)).gradient(batch).numpy()
    np.testing.assert_allclose(gradient, slopes, atol=1e-5)


def make_chunk(rng, network, flat, steps=8, environments=4, spread=0.0):
    ends = rng.random((2, steps, environments)) < 0.15
    chunk = {
        "observation": rng.normal(size=(steps + 1, environments, 4)).astype(np.float32),
        "action": rng.integers(0, 2, (steps, environments)),
        "reward": rng.normal(size=(steps, environments)).astype(np.float32),
        "terminated": ends[0] & ~ends[1],
        "truncated": ends[1],
        "final_observation": rng.normal(size=(steps * environments, 4)).astype(np.float32),
    }
    logits = network.scores(network.views(flat), chunk["observation"][:-1].reshape(-1, 4))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    own = np.take_along_axis(log_p, chunk["action"].reshape(-1, 1), 1).reshape(steps, environments)
    return chunk | {"log_probability": (own + spread * rng.normal(size=own.shape)).astype(np.float32)}


def make_impala(**impala):
    config = TrainConfig(env="CartPole-v1", algo="impala", impala=IMPALAConfig(**impala))
    network = networks.of(config, CARTPOLE)
    return IMPALA(updaters.make_updater(config, network, network.initialise(0)), CARTPOLE, config.impala, 1000), network


def test_prepare_bootstraps_and_weighs_as_the_paper_says():
    """With lambda 0 a target is one step's: V + rho (r + gamma V' - V), the last observation's V where it was cut."""
    impala, network = make_impala(vtrace_lambda=0.0, gamma=0.9)
    flat, rng = impala.updater.weights(), np.random.default_rng(SEED)
    chunk = make_chunk(rng, network, flat, spread=0.5)
    assert chunk["truncated"].sum() > 1
    batch = impala.prepare([chunk])
    values = network.values(network.views(flat), chunk["observation"].reshape(-1, 4)).reshape(9, 4)
    finals = iter(network.values(network.views(flat), chunk["final_observation"]))
    exact = make_chunk(np.random.default_rng(SEED), network, flat)["log_probability"]
    for t in range(8):
        for b in range(4):
            rho = min(1.0, math.exp(exact[t, b] - chunk["log_probability"][t, b]))
            following = next(finals) if chunk["truncated"][t, b] else values[t + 1, b]
            delta = chunk["reward"][t, b] + (0 if chunk["terminated"][t, b] else 0.9 * following) - values[t, b]
            assert batch.value_target[4 * t + b] == pytest.approx(values[t, b] + rho * delta, abs=1e-5)


def test_a_round_is_one_step_on_all_transitions_whatever_their_age():
    impala, network = make_impala(learning_rate=1e-2, learning_rate_schedule="linear")
    rng = np.random.default_rng(0)
    chunks = [make_chunk(rng, network, impala.updater.weights(), environments=b) for b in (1, 3)]
    assert len(impala.prepare(chunks)) == 32
    before = impala.updater.weights().copy()
    assert impala.update(chunks, 500) == impala.update(chunks, 500, stale=True) == 1
    # Adam's steps are as long as the learning rate, which is half of what it was.
    assert np.abs(impala.updater.weights() - before).max() == pytest.approx(2 * 5e-3, rel=0.05)
    still = impala.updater.weights().copy()
    assert impala.update(chunks, 1000) == 1
    assert np.array_equal(impala.updater.weights(), still)


def test_it_learns_which_action_pays_from_another_policys_experience():
    impala, network = make_impala(learning_rate=1e-2)
    rng, old = np.random.default_rng(0), impala.updater.weights().copy()
    for _ in range(60):
        chunk = make_chunk(rng, network, old)
        chunk["reward"] = (chunk["action"] == 1).astype(np.float32)
        impala.update([chunk], 0)
    logits = network.scores(network.views(impala.updater.weights()), rng.normal(size=(100, 4)).astype(np.float32))
    assert np.mean(logits[:, 1] > logits[:, 0]) > 0.9


def test_a_numpy_updater_for_convolutions_is_refused_in_one_line():
    config = TrainConfig(env="x", algo="impala", network=NetworkConfig(kind="nature-shared"), updater="numpy")
    with pytest.raises(ConfigError, match="perceptrons only, not nature-shared"):
        algorithm.make_algorithm(config, EnvDescription("x", (42, 42), "|u1", 0, 3, stack=2, pixels="hw"))
