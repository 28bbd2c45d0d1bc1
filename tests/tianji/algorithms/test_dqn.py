"""DQN against slow, independent references, and its replay against a list."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tianji.algorithms.dqn import DQN, Regression, epsilon, make_kernel
from tianji.algorithms.dqn_numpy import NumpyKernel
from tianji.algorithms.dqn_torch import TorchKernel
from tianji.algorithms.networks import QNetwork
from tianji.algorithms.replay import Replay, transitions_of
from tianji.config import DQNConfig, NetworkConfig, TrainConfig
from tianji.envs import EnvDescription

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 6), st.lists(st.integers(1, 12), max_size=3), st.integers(2, 5)
)
def test_hand_derived_gradient_equals_autograd(seed, rows, features, hidden, actions):
    rng = np.random.default_rng(seed)
    network = QNetwork(features, tuple(hidden), actions)
    flat = network.initialise(seed)
    batch = Regression(
        rng.normal(size=(rows, features)).astype(np.float32),
        rng.integers(0, actions, rows),
        3 * rng.normal(size=rows).astype(np.float32),
    )
    ours = NumpyKernel(network, DQNConfig(), flat).gradient(batch)
    theirs = TorchKernel(network, DQNConfig(), flat).gradient(batch).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("max_grad_norm", [0.01, 100.0])
def test_steps_equal_torch_adam_and_clipping(max_grad_norm):
    rng = np.random.default_rng(1)
    network, config = QNetwork(4, (16, 16), 2), DQNConfig(max_grad_norm=max_grad_norm, adam_epsilon=1e-5)
    kernels = [kind(network, config, network.initialise(0)) for kind in (NumpyKernel, TorchKernel)]
    for _ in range(30):
        batch = Regression(
            rng.normal(size=(32, 4)).astype(np.float32), rng.integers(0, 2, 32), rng.normal(size=32).astype(np.float32)
        )
        for kernel in kernels:
            kernel.step(batch, 3e-3)
    np.testing.assert_allclose(kernels[0].weights(), kernels[1].weights(), atol=1e-5)


def test_the_network_equals_torchs_layers():
    network = QNetwork(3, (7, 5), 2)
    flat = network.initialise(4)
    layers = []
    for i in range(3):
        kernel, bias = network.views(flat)[f"q.{i}.kernel"], network.views(flat)[f"q.{i}.bias"]
        linear = nn.Linear(*kernel.shape)
        linear.weight.data, linear.bias.data = torch.tensor(kernel.T), torch.tensor(bias)
        layers += [linear, nn.ReLU()]
        assert np.abs(kernel).max() <= 1 / np.sqrt(kernel.shape[0])
    x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    with torch.no_grad():
        expected = nn.Sequential(*layers[:-1])(torch.tensor(x)).numpy()
    np.testing.assert_allclose(network.scores(network.views(flat), x), expected, atol=1e-6)
    assert np.array_equal(network.flatten(network.named_tensors(flat)), flat)


@given(st.lists(st.integers(0, 7), max_size=20), st.integers(7, 20))
def test_replay_keeps_the_most_recent(sizes, capacity):
    replay, kept, number = Replay(capacity, (2,), "|u1"), [], 0
    for size in sizes:
        rows = np.arange(number, number + size)
        number += size
        pairs = np.stack([rows, rows], axis=1)
        replay.insert(
            {
                "observation": pairs,
                "next_observation": pairs + 1,
                "action": rows,
                "reward": rows.astype(np.float32),
                "terminated": rows % 2 == 0,
            }
        )
        kept = (kept + rows.tolist())[-capacity:]
    assert replay.size == len(kept)
    found = replay.take(np.arange(replay.size))
    assert sorted(found["action"].tolist()) == kept
    assert np.array_equal(found["observation"][:, 0], found["action"].astype(np.uint8))
    assert np.array_equal(found["terminated"], found["action"] % 2 == 0)


def test_more_than_fits_is_refused():
    with pytest.raises(ValueError, match="do not fit"):
        Replay(2, (), "<f4").insert({"action": np.zeros(3)})


def make_chunk(rng, steps=32):
    ends = rng.random((2, steps, 1)) < 0.15
    return {
        "observation": rng.normal(size=(steps + 1, 1, 4)).astype(np.float32),
        "action": rng.integers(0, 2, (steps, 1)),
        "reward": rng.normal(size=(steps, 1)).astype(np.float32),
        "terminated": ends[0] & ~ends[1],
        "truncated": ends[1],
        "final_observation": rng.normal(size=(steps, 4)).astype(np.float32),
    }


def test_next_observations_of_truncated_steps_are_the_final_ones():
    chunk = make_chunk(np.random.default_rng(0))
    rows = transitions_of(chunk)
    finals = iter(chunk["final_observation"])
    assert chunk["truncated"].sum() > 1
    for t in range(32):
        expected = next(finals) if chunk["truncated"][t, 0] else chunk["observation"][t + 1, 0]
        assert np.array_equal(rows["next_observation"][t], expected)


def make_dqn(**dqn):
    config = TrainConfig(
        env="CartPole-v1",
        algo="dqn",
        actors=1,
        envs_per_actor=1,
        network=NetworkConfig(kind="mlp-q", hidden=(8,), activation="relu"),
        dqn=DQNConfig(**{"train_every_steps": 32, "updates": 4, "batch_size": 8, "learning_starts": 64, **dqn}),
    )
    network = QNetwork(4, (8,), 2)
    return DQN(make_kernel(config, network, network.initialise(0)), CARTPOLE, config.dqn, seed=0), network


def test_targets_stop_at_terminations_only():
    algorithm, network = make_dqn(gamma=0.9)
    rows = transitions_of(make_chunk(np.random.default_rng(3)))
    batch = algorithm.regression(rows)
    best = network.scores(network.views(algorithm.kernel.weights()), rows["next_observation"]).max(axis=1)
    for i in range(32):
        future = 0.0 if rows["terminated"][i] else 0.9 * best[i]
        assert batch.target[i] == pytest.approx(rows["reward"][i] + future, abs=1e-5)


def test_training_starts_when_the_replay_is_filled_and_keeps_its_ratio():
    algorithm, _ = make_dqn()
    rng = np.random.default_rng(0)
    done = [algorithm.update([make_chunk(rng)], steps) for steps in range(0, 160, 32)]
    assert done == [0, 4, 4, 4, 4]


def test_the_target_network_stays_put_during_a_round():
    algorithm, network = make_dqn(learning_starts=0)
    rng = np.random.default_rng(0)
    before = algorithm.kernel.weights().copy()
    algorithm.update([make_chunk(rng)], 0)
    x = rng.normal(size=(5, 4)).astype(np.float32)
    assert np.array_equal(algorithm.kernel.target_values(x), network.scores(network.views(before), x))
    assert not np.array_equal(algorithm.kernel.weights(), before)


def test_epsilon_falls_linearly_and_stays():
    config = DQNConfig(epsilon_start=1.0, epsilon_end=0.04, epsilon_steps=8000)
    assert [epsilon(config, s) for s in (0, 4000, 8000, 20_000)] == pytest.approx([1.0, 0.52, 0.04, 0.04])
