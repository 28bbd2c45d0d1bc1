"""DQN against slow, independent references."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from baselines.certificate import transitions_of
from tianji.algorithms import base
from tianji.algorithms.algorithm import make_algorithm
from tianji.algorithms.dqn import Regression, epsilon, epsilon_greedy
from tianji.algorithms.dqn_numpy import NumpyUpdater
from tianji.algorithms.dqn_torch import TorchUpdater
from tianji.algorithms.networks import QNetwork
from tianji.algorithms.replay import Experience, Replay
from tianji.config import DQNConfig, NetworkConfig, TrainConfig
from tianji.environments.description import EnvDescription

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
ACTIVATIONS = st.sampled_from(["relu", "gelu"])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 6),
    st.lists(st.integers(1, 12), max_size=3),
    st.integers(2, 5),
    st.booleans(),
    ACTIVATIONS,
)
def test_hand_derived_gradient_equals_autograd(seed, rows, features, hidden, actions, dueling, activation):
    rng = np.random.default_rng(seed)
    network = QNetwork(features, tuple(hidden), actions, dueling and len(hidden) > 0, activation)
    flat = network.initialise(seed)
    batch = Regression(
        rng.normal(size=(rows, features)).astype(np.float32),
        rng.integers(0, actions, rows),
        3 * rng.normal(size=rows).astype(np.float32),
    )
    ours = NumpyUpdater(network, DQNConfig(), flat).gradient(batch)
    theirs = TorchUpdater(network, DQNConfig(), flat).gradient(batch).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5)


def gelu(x):
    """Number by number, from the paper's formula."""
    return np.array([0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x])


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("hidden", [(4,), (5, 4), (5, 3, 4)], ids=len)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_gradient_equals_finite_differences(dueling, hidden, activation):
    rng, config, depth = np.random.default_rng(2), DQNConfig(huber_delta=0.5), len(hidden)
    network = QNetwork(3, hidden, 3, dueling, activation)
    flat = network.initialise(1).astype(np.float64)
    x, target = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    batch = Regression(x, rng.integers(0, 3, 8), target)

    def loss_at(point):
        """Layer by layer, row by row."""
        blocks, total = network.views(point), 0.0
        for row, action, wanted in zip(x.astype(np.float64), batch.action, target, strict=True):
            for i in range(depth):
                row = row @ blocks[f"q.{i}.kernel"] + blocks[f"q.{i}.bias"]
                row = gelu(row) if activation == "gelu" else np.maximum(row, 0)
            if dueling:
                value = (row[:4] @ blocks["value.kernel"] + blocks["value.bias"])[0]
                advantage = row[4:] @ blocks["advantage.kernel"] + blocks["advantage.bias"]
                q = value + advantage[action] - advantage.mean()
            else:
                q = (row @ blocks[f"q.{depth}.kernel"] + blocks[f"q.{depth}.bias"])[action]
            error = abs(q - wanted)
            total += 0.5 * error**2 if error <= 0.5 else 0.5 * (error - 0.25)
        return total / 8

    slopes = [(loss_at(flat + step) - loss_at(flat - step)) / 2e-6 for step in 1e-6 * np.eye(len(flat))]
    for updater in (NumpyUpdater, TorchUpdater):
        gradient = np.asarray(updater(network, config, flat.astype(np.float32)).gradient(batch))
        np.testing.assert_allclose(gradient, slopes, atol=2e-6)


@pytest.mark.parametrize("max_grad_norm", [0.01, 100.0])
def test_steps_equal_torch_adam_and_clipping(max_grad_norm):
    rng = np.random.default_rng(1)
    network, config = QNetwork(4, (16, 16), 2), DQNConfig(max_grad_norm=max_grad_norm, adam_epsilon=1e-5)
    updaters = [kind(network, config, network.initialise(0)) for kind in (NumpyUpdater, TorchUpdater)]
    for _ in range(30):
        batch = Regression(
            rng.normal(size=(32, 4)).astype(np.float32), rng.integers(0, 2, 32), rng.normal(size=32).astype(np.float32)
        )
        for updater in updaters:
            updater.step(batch, 3e-3)
    np.testing.assert_allclose(updaters[0].weights(), updaters[1].weights(), atol=1e-5)


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


def make_dqn(hidden=(8,), **dqn):
    config = TrainConfig(
        env="CartPole-v1",
        algo="dqn",
        actors=1,
        envs_per_actor=1,
        network=NetworkConfig(kind="mlp-q", hidden=hidden),
        dqn=DQNConfig(**{"train_every_steps": 32, "updates": 4, "batch_size": 8, "learning_starts": 64, **dqn}),
    )
    algorithm = make_algorithm(config, CARTPOLE)
    return algorithm, QNetwork(4, hidden, 2)


@pytest.mark.parametrize("double", [False, True])
def test_targets_stop_at_terminations_only(double):
    algorithm, network = make_dqn(gamma=0.9, double=double)
    rows = transitions_of(make_chunk(np.random.default_rng(3)))
    frozen = algorithm.updater.weights().copy()
    algorithm.updater.load(frozen + 0.3 * np.random.default_rng(0).standard_normal(len(frozen)).astype(np.float32))
    ours = network.scores(network.views(algorithm.updater.weights()), rows["next_observation"])
    theirs = network.scores(network.views(frozen), rows["next_observation"])
    assert (ours.argmax(axis=1) != theirs.argmax(axis=1)).any()
    batch = algorithm.regression(rows)
    for i in range(32):
        best = theirs[i, ours[i].argmax()] if double else theirs[i].max()
        assert batch.target[i] == pytest.approx(rows["reward"][i] + (0.0 if rows["terminated"][i] else 0.9 * best), abs=1e-5)


def fill(algorithm, rng, count, first=0):
    for k in range(first, first + count):
        algorithm.insert([Experience(make_chunk(rng), 0, k)])


def test_training_starts_when_the_replay_is_filled_and_makes_whole_rounds():
    algorithm, _ = make_dqn()
    rng, done = np.random.default_rng(0), []
    for k in range(5):
        fill(algorithm, rng, 1, k)
        done.append(algorithm.train(32 * (k + 1)))
    assert done == [0, 4, 4, 4, 4]
    assert algorithm.train(160) == 4, "whoever calls decides how many rounds there are"
    assert algorithm.inserted == 160


def test_the_target_network_stays_put_during_a_round_and_follows_environment_steps():
    algorithm, network = make_dqn(learning_starts=0, target_every_steps=64)
    rng = np.random.default_rng(0)
    fill(algorithm, rng, 1)
    x = rng.normal(size=(5, 4)).astype(np.float32)
    weights = [algorithm.updater.weights().copy()]
    stood_for = []
    for steps in (32, 64, 96, 127, 128, 300):
        algorithm.train(steps)
        target = algorithm.updater.target_values(x)
        stood_for.append([np.array_equal(target, network.scores(network.views(w), x)) for w in weights].index(True))
        weights.append(algorithm.updater.weights().copy())
    assert stood_for == [0, 1, 1, 1, 4, 5]


def test_a_double_networks_choice_follows_every_step(monkeypatch):
    """With several minibatches in a round: each is assessed under the weights as they then stand."""
    algorithm, _ = make_dqn(double=True, learning_starts=0, learning_rate=0.1)
    fill(algorithm, np.random.default_rng(0), 3)
    asked = []
    values = algorithm.updater.values
    monkeypatch.setattr(algorithm.updater, "values", lambda x: asked.append(algorithm.updater.weights().copy()) or values(x))
    algorithm.train(96)
    # Once more at the end, for what the learner reports.
    assert len(asked) == 4 + 1
    assert len({weights.tobytes() for weights in asked}) == 4 + 1


def test_rounds_are_drawn_in_pieces_that_are_bounded_in_bytes(monkeypatch):
    draws = []
    draw = Replay.draw
    monkeypatch.setattr(Replay, "draw", lambda self, rng, count, *more: draws.append(count) or draw(self, rng, count, *more))
    whole, _ = make_dqn(updates=7, learning_starts=0)
    pieces, _ = make_dqn(updates=7, learning_starts=0)
    for algorithm in (whole, pieces):
        fill(algorithm, np.random.default_rng(0), 3)
    assert whole.train(96) == 7
    monkeypatch.setattr(base, "DRAWN_BYTES", 3 * 8 * (2 * 4 * 4) + 5)
    assert pieces.train(96) == 7
    assert draws == [56, 24, 24, 8]


def test_a_preference_for_recent_transitions_shows_in_minibatches():
    rng, seen = np.random.default_rng(4), {}
    chunks = [make_chunk(rng, 32) for _ in range(10)]
    newest = {row.tobytes() for row in chunks[-1]["observation"][:-1].reshape(-1, 4)}
    for recent in (0.0, 1.0):
        algorithm, _ = make_dqn(learning_starts=0, recent=recent, recent_steps=32)
        algorithm.insert([Experience(chunk, 0, n) for n, chunk in enumerate(chunks)])
        rows = [row.tobytes() for batch in algorithm.minibatches(4) for row in batch.features]
        seen[recent] = sum(row in newest for row in rows) / len(rows)
    assert seen[1.0] == 1
    assert seen[0.0] < 0.4


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_loading_sets_the_weights_and_leaves_the_target_and_adams_moments(kind):
    network = QNetwork(4, (16,), 2)
    rng, config = np.random.default_rng(0), DQNConfig()

    def batch():
        return Regression(rng.normal(size=(8, 4)).astype(np.float32), rng.integers(0, 2, 8), np.ones(8, np.float32))

    moved, whole = ({"numpy": NumpyUpdater, "torch": TorchUpdater}[kind](network, config, network.initialise(0)) for _ in "ab")
    for minibatch in (batch(), batch()):
        for updater in (moved, whole):
            updater.step(minibatch, 1e-2)
    x, known = rng.normal(size=(3, 4)).astype(np.float32), whole.weights().copy()
    target, place = moved.target_values(x), moved.weights()
    moved.load(network.initialise(7))
    assert np.array_equal(moved.weights(), network.initialise(7))
    assert np.array_equal(place, network.initialise(7)), "in place: whoever looks at the weights sees it"
    assert np.array_equal(moved.target_values(x), target)
    moved.load(known)
    last = batch()
    for updater in (moved, whole):
        updater.step(last, 1e-2)
    assert np.array_equal(moved.weights(), whole.weights())


def test_epsilon_falls_linearly_and_stays():
    config = DQNConfig(epsilon_start=1.0, epsilon_end=0.04, epsilon_steps=8000)
    assert [epsilon(config, s) for s in (0, 4000, 8000, 20_000)] == pytest.approx([1.0, 0.52, 0.04, 0.04])


def test_epsilon_greedy_explores_that_often_and_everywhere():
    values = np.tile(np.array([[0.0, 2.0, 1.0]], np.float32), (60_000, 1))
    action = epsilon_greedy(values, np.random.default_rng(0).random((60_000, 2)), 0.3)
    np.testing.assert_allclose(np.bincount(action) / 60_000, [0.1, 0.8, 0.1], atol=0.01)
    assert set(epsilon_greedy(values, np.random.default_rng(0).random((60_000, 2)), 0.0)) == {1}
