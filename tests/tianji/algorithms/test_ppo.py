"""PPO against slow, independent references: a Python loop for the loss, autograd for the gradient, torch for Adam."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.algorithms.networks import ActorCritic
from tianji.algorithms.ppo import PPO, Rollouts, assess, collate, final_observations, make_kernel, normalise
from tianji.algorithms.ppo_numpy import NumpyKernel
from tianji.algorithms.ppo_torch import TorchKernel, forward, loss
from tianji.config import PPOConfig, TrainConfig
from tianji.envs import EnvDescription

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)


def random_batch(rng, rows, features, actions, spread=0.4):
    old = np.log(1 / actions) + spread * rng.normal(size=rows)
    return Rollouts(
        rng.normal(size=(rows, features)).astype(np.float32),
        rng.integers(0, actions, rows),
        old.astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
    )


def loss_by_hand(logits, values, batch, config):
    """Row by row, in Python floats, from the paper's equations."""
    total = 0.0
    for i in range(len(batch)):
        row = [float(v) for v in logits[i]]
        norm = math.log(sum(math.exp(v) for v in row))
        log_p = [v - norm for v in row]
        ratio = math.exp(log_p[batch.action[i]] - float(batch.log_probability[i]))
        a = float(batch.advantage[i])
        bounded = min(max(ratio, 1 - config.clip), 1 + config.clip)
        entropy = -sum(math.exp(v) * v for v in log_p)
        error = (float(values[i]) - float(batch.value_target[i])) ** 2
        total += -min(ratio * a, bounded * a) + config.value_coefficient * error - config.entropy_coefficient * entropy
    return total / len(batch)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(2, 5), st.floats(0, 0.1))
def test_loss_equals_a_slow_loop(seed, rows, actions, entropy):
    rng = np.random.default_rng(seed)
    network, config = ActorCritic(3, (5,), actions), PPOConfig(entropy_coefficient=entropy)
    batch = random_batch(rng, rows, 3, actions)
    flat = torch.tensor(rng.normal(size=network.size).astype(np.float32))
    logits, values = forward(network, network.views(flat), torch.tensor(batch.features))
    arrays = (batch.action, batch.log_probability, batch.advantage, batch.value_target)
    got = loss(logits, values, *(torch.tensor(a) for a in arrays), config)
    assert float(got) == pytest.approx(loss_by_hand(logits, values, batch, config), rel=1e-4, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 6),
    st.lists(st.integers(1, 12), max_size=3),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.03]),
)
def test_hand_derived_gradient_equals_autograd(seed, rows, features, hidden, actions, entropy):
    rng = np.random.default_rng(seed)
    network, config = ActorCritic(features, tuple(hidden), actions), PPOConfig(entropy_coefficient=entropy)
    flat = rng.normal(size=network.size).astype(np.float32)
    batch = random_batch(rng, rows, features, actions)
    ours = NumpyKernel(network, config, flat).gradient(batch)
    theirs = TorchKernel(network, config, flat).gradient(batch).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5 * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize("max_grad_norm", [0.01, 100.0])
def test_steps_equal_torch_adam_and_clipping(max_grad_norm):
    rng = np.random.default_rng(1)
    network, config = ActorCritic(4, (16, 16), 3), PPOConfig(max_grad_norm=max_grad_norm)
    flat = network.initialise(0)
    ours, theirs = NumpyKernel(network, config, flat), TorchKernel(network, config, flat)
    for k in range(30):
        batch = random_batch(rng, 32, 4, 3)
        for kernel in (ours, theirs):
            kernel.step(batch, 1e-2 / (k + 1))
    np.testing.assert_allclose(ours.weights(), theirs.weights(), atol=1e-5)
    assert np.abs(ours.weights() - flat).max() > 1e-2


def make_chunk(rng, steps, environments, truncated=0.1):
    ended = rng.random((2, steps, environments)) < truncated
    return {
        "observation": rng.normal(size=(steps + 1, environments, 4)).astype(np.float32),
        "action": rng.integers(0, 2, (steps, environments)),
        "reward": rng.normal(size=(steps, environments)).astype(np.float32),
        "terminated": ended[0] & ~ended[1],
        "truncated": ended[1],
        "log_probability": np.full((steps, environments), -0.69, np.float32),
        "final_observation": rng.normal(size=(steps * environments, 4)).astype(np.float32),
    }


def deal_out(chunk, groups):
    """Split a chunk's environments among producers, each with its own final observations."""
    step, environment = np.nonzero(chunk["truncated"])
    parts = []
    for group in groups:
        part = {name: chunk[name][:, group] for name in chunk if name != "final_observation"}
        rows = [k for k, e in enumerate(environment) if e in group]
        part["final_observation"] = chunk["final_observation"][rows]
        parts.append(part)
    assert len(step) > 1
    return parts


def make_ppo(**ppo):
    config = TrainConfig(env="CartPole-v1", ppo=PPOConfig(**ppo))
    network = ActorCritic(4, (64, 64), 2)
    return PPO(make_kernel(config, network, network.initialise(0)), CARTPOLE, config.ppo, 1000, seed=0)


def test_a_round_does_not_depend_on_how_environments_are_dealt_out():
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    whole, split = make_ppo(minibatch_size=32, epochs=2), make_ppo(minibatch_size=32, epochs=2)
    assert whole.update([chunk], 0) == split.update(deal_out(chunk, [[0, 1, 2, 3], [4, 5, 6, 7]]), 0) == 8
    assert np.array_equal(whole.kernel.weights(), split.kernel.weights())


@pytest.mark.parametrize("steps", [7, 16])
def test_who_assesses_a_chunk_makes_no_difference(steps):
    ppo, chunk = make_ppo(), make_chunk(np.random.default_rng(6), steps, 8)
    whole = ppo.prepare([chunk])
    parts = deal_out(chunk, [[0], [1, 2, 3], [4, 5, 6, 7]])
    for part in parts:
        batch = assess([part], ppo.kernel.values, CARTPOLE, ppo.config)
        shape = part["action"].shape
        part |= {"advantage": batch.advantage.reshape(shape), "value_target": batch.value_target.reshape(shape)}
    collated = collate(parts, CARTPOLE)
    for name in ("features", "action", "log_probability", "advantage", "value_target"):
        assert np.array_equal(getattr(collated, name), getattr(whole, name)), name


def test_final_observations_come_in_order_of_step_and_environment():
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    count = int(chunk["truncated"].sum())
    parts = deal_out(chunk, [[0, 1, 2], [3], [4, 5, 6, 7]])
    assert np.array_equal(final_observations(parts), chunk["final_observation"][:count])


def test_prepare_bootstraps_from_the_final_observation():
    ppo = make_ppo(gamma=0.9, gae_lambda=0.0)
    chunk = make_chunk(np.random.default_rng(2), 4, 3, truncated=0.3)
    batch = ppo.prepare([chunk])
    value = ppo.kernel.values(chunk["observation"].reshape(-1, 4)).reshape(5, 3)
    final = iter(ppo.kernel.values(chunk["final_observation"]))
    for t in range(4):
        for b in range(3):
            following = next(final) if chunk["truncated"][t, b] else value[t + 1, b]
            target = chunk["reward"][t, b] + (0 if chunk["terminated"][t, b] else 0.9 * following)
            assert batch.value_target[t * 3 + b] == pytest.approx(target, abs=1e-5)


def test_every_row_is_used_once_an_epoch():
    ppo = make_ppo(minibatch_size=10, epochs=3, normalise_advantages=False)
    rows = 32
    batch = Rollouts(np.zeros((rows, 4), np.float32), np.arange(rows), *np.zeros((3, rows), np.float32))
    parts = [part.action for part in ppo.minibatches(batch)]
    assert [len(p) for p in parts] == [10, 10, 10, 2] * 3
    for epoch in range(3):
        assert sorted(np.concatenate(parts[4 * epoch : 4 * epoch + 4])) == list(range(rows))


def test_normalised_advantages_have_mean_zero_and_deviation_one():
    batch = normalise(random_batch(np.random.default_rng(0), 64, 2, 2))
    assert batch.advantage.mean() == pytest.approx(0, abs=1e-6)
    assert batch.advantage.std() == pytest.approx(1, abs=1e-5)


def test_learning_rate_falls_to_zero_at_the_horizon():
    ppo = make_ppo(learning_rate=1e-3, learning_rate_schedule="linear")
    assert [ppo.learning_rate(s) for s in (0, 250, 1000, 2000)] == pytest.approx([1e-3, 7.5e-4, 0, 0])
    assert make_ppo(learning_rate=1e-3).learning_rate(900) == 1e-3
