"""PPO against slow, independent references: a Python loop for the loss, autograd for the gradient, torch for Adam."""

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.xingtian.collation import collate
from tianji.algorithms import updaters
from tianji.algorithms.distributions_torch import Categorical
from tianji.algorithms.networks import ActorCritic, SharedActorCritic
from tianji.algorithms.networks_torch import heads
from tianji.algorithms.ppo import PPO, assess, assess_stale, normalise
from tianji.algorithms.ppo_numpy import NumpyUpdater
from tianji.algorithms.ppo_torch import TorchUpdater, loss
from tianji.algorithms.rollouts import Rollouts, observations
from tianji.config import PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
COLUMNS = [field.name for field in fields(Rollouts) if field.name != "weight"]


VALUE_CLIPS = [None, 0.1, 1.0]


def random_batch(rng, rows, features, actions, spread=0.4):
    """With earlier values of which some are near to, and some are far from, any that a network has."""
    old = np.log(1 / actions) + spread * rng.normal(size=rows)
    return Rollouts(
        rng.normal(size=(rows, features)).astype(np.float32),
        rng.integers(0, actions, rows),
        old.astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
    )


def value_error_by_hand(value, target, old, clip):
    """Of one row: as OpenAI Baselines' PPO2 has it, without its factor of one half."""
    error = (value - target) ** 2
    if clip is None:
        return error
    change = value - old
    near = old + (clip if change > clip else -clip if change < -clip else change)
    return max(error, (near - target) ** 2)


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
        state = (float(column[i]) for column in (values, batch.value_target, batch.value))
        error = value_error_by_hand(*state, config.value_clip)
        total += -min(ratio * a, bounded * a) + config.value_coefficient * error - config.entropy_coefficient * entropy
    return total / len(batch)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(2, 5), st.floats(0, 0.1), st.sampled_from(VALUE_CLIPS))
def test_loss_equals_a_slow_loop(seed, rows, actions, entropy, value_clip):
    rng = np.random.default_rng(seed)
    network, config = ActorCritic(3, (5,), actions), PPOConfig(entropy_coefficient=entropy, value_clip=value_clip)
    batch = random_batch(rng, rows, 3, actions)
    flat = torch.tensor(rng.normal(size=network.size).astype(np.float32))
    logits, values = heads(network, network.views(flat), torch.tensor(batch.features))
    arrays = (batch.action, batch.log_probability, batch.advantage, batch.value_target)
    got = loss(Categorical(logits), values, *(torch.tensor(a) for a in arrays), config, torch.tensor(batch.value))
    assert float(got) == pytest.approx(loss_by_hand(logits, values, batch, config), rel=1e-4, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 6),
    st.lists(st.integers(1, 12), max_size=3),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.03]),
    st.sampled_from([ActorCritic, SharedActorCritic]),
    st.sampled_from(VALUE_CLIPS),
)
def test_hand_derived_gradient_equals_autograd(seed, rows, features, hidden, actions, entropy, kind, value_clip):
    rng = np.random.default_rng(seed)
    network, config = kind(features, tuple(hidden), actions), PPOConfig(entropy_coefficient=entropy, value_clip=value_clip)
    flat = rng.normal(size=network.size).astype(np.float32)
    batch = random_batch(rng, rows, features, actions)
    ours = NumpyUpdater(network, config, flat).gradient(batch)
    theirs = TorchUpdater(network, config, flat).gradient(batch).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5 * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize(
    ("value", "slope"),
    [
        (0.15, 2 * (0.15 - 1.0)),  # Within the range, on the way to the target.
        (-0.15, 2 * (-0.15 - 1.0)),  # Within the range, away from the target.
        (0.5, 0.0),  # Beyond the range, on the way: the clipped value is further off, and stays where it is.
        (1.5, 0.0),  # Past the target, but the clipped value is further off yet.
        (2.5, 2 * (2.5 - 1.0)),  # Past the target by more than the clipped value is short of it.
        (-0.5, 2 * (-0.5 - 1.0)),  # Beyond the range, away from the target.
    ],
)
@pytest.mark.parametrize("kind", [NumpyUpdater, TorchUpdater])
def test_a_clipped_value_error_has_the_slope_of_its_larger_branch(kind, value, slope):
    """One row, whose value was 0 and is to be 1; the bias of the value's head moves the value and nothing else."""
    network, config = ActorCritic(2, (), 2), PPOConfig(value_clip=0.2, value_coefficient=1.0)
    flat = np.zeros(network.size, np.float32)
    network.views(flat)["value.bias"][:] = value
    ones, zeros = np.ones(1, np.float32), np.zeros(1, np.float32)
    batch = Rollouts(np.zeros((1, 2), np.float32), np.array([1]), zeros - 0.69, zeros, value_target=ones, value=zeros)
    gradient = np.asarray(kind(network, config, flat).gradient(batch))
    assert network.views(gradient)["value.bias"][0] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("kind", [ActorCritic, SharedActorCritic])
@pytest.mark.parametrize("value_clip", [None, 0.5])
def test_gradient_equals_finite_differences(kind, value_clip):
    rng, config = np.random.default_rng(5), PPOConfig(entropy_coefficient=0.1, value_clip=value_clip)
    network, batch = kind(3, (5, 4), 3), random_batch(rng, 8, 3, 3)
    flat = rng.normal(size=network.size)

    def loss_at(point):
        logits, values = heads(network, network.views(torch.tensor(point)), torch.tensor(batch.features, dtype=torch.float64))
        return loss_by_hand(logits, values, batch, config)

    slopes = [(loss_at(flat + step) - loss_at(flat - step)) / 2e-6 for step in 1e-6 * np.eye(len(flat))]
    gradient = NumpyUpdater(network, config, flat.astype(np.float32)).gradient(batch)
    np.testing.assert_allclose(gradient, slopes, atol=1e-5)


@pytest.mark.parametrize("kind", [NumpyUpdater, TorchUpdater])
def test_loading_sets_the_weights_in_place_and_leaves_adams_moments(kind):
    network, rng = ActorCritic(4, (8,), 2), np.random.default_rng(0)
    moved, whole = (kind(network, PPOConfig(), network.initialise(0)) for _ in range(2))
    batches = [random_batch(rng, 16, 4, 2) for _ in range(4)]
    for batch in batches[:3]:
        for updater in (moved, whole):
            updater.step(batch, 1e-2)
    known, place = whole.weights().copy(), moved.weights()
    moved.load(network.initialise(7))
    assert np.array_equal(place, network.initialise(7))
    moved.load(known)
    for updater in (moved, whole):
        updater.step(batches[3], 1e-2)
    assert np.array_equal(moved.weights(), whole.weights())


@pytest.mark.parametrize("max_grad_norm", [0.01, 100.0])
def test_steps_equal_torch_adam_and_clipping(max_grad_norm):
    rng = np.random.default_rng(1)
    network, config = ActorCritic(4, (16, 16), 3), PPOConfig(max_grad_norm=max_grad_norm)
    flat = network.initialise(0)
    ours, theirs = NumpyUpdater(network, config, flat), TorchUpdater(network, config, flat)
    for k in range(30):
        batch = random_batch(rng, 32, 4, 3)
        for updater in (ours, theirs):
            updater.step(batch, 1e-2 / (k + 1))
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
    return PPO(updaters.make_updater(config, network, network.initialise(0)), CARTPOLE, config.ppo, 1000, seed=0)


def test_a_round_does_not_depend_on_how_environments_are_dealt_out():
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    whole, split = make_ppo(minibatch_size=32, epochs=2), make_ppo(minibatch_size=32, epochs=2)
    assert whole.update([chunk], 0) == split.update(deal_out(chunk, [[0, 1, 2, 3], [4, 5, 6, 7]]), 0) == 8
    assert np.array_equal(whole.updater.weights(), split.updater.weights())


@pytest.mark.parametrize("steps", [7, 16])
def test_who_assesses_a_chunk_makes_no_difference(steps):
    ppo, chunk = make_ppo(), make_chunk(np.random.default_rng(6), steps, 8)
    whole = ppo.prepare([chunk])
    parts = deal_out(chunk, [[0], [1, 2, 3], [4, 5, 6, 7]])
    for part in parts:
        batch = assess([part], ppo.updater.values, CARTPOLE, ppo.config)
        shape = part["action"].shape
        part |= {"advantage": batch.advantage.reshape(shape), "value": batch.value.reshape(shape)}
    collated = collate(parts, CARTPOLE)
    for name in COLUMNS:
        # But for last bits: some kernels of BLAS give a row others in a larger matrix.
        assert np.allclose(getattr(collated, name), getattr(whole, name), rtol=1e-6, atol=1e-6), name


def test_final_observations_come_in_order_of_step_and_environment():
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    count = int(chunk["truncated"].sum())
    parts = deal_out(chunk, [[0, 1, 2], [3], [4, 5, 6, 7]])
    assert np.array_equal(observations(parts, CARTPOLE)[1], chunk["final_observation"][:count])


def test_prepare_bootstraps_from_the_final_observation():
    ppo = make_ppo(gamma=0.9, gae_lambda=0.0)
    chunk = make_chunk(np.random.default_rng(2), 4, 3, truncated=0.3)
    batch = ppo.prepare([chunk])
    value = ppo.updater.values(chunk["observation"].reshape(-1, 4)).reshape(5, 3)
    final = iter(ppo.updater.values(chunk["final_observation"]))
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


def test_a_round_of_another_size_has_minibatches_of_equal_size():
    """Otherwise a few rows beyond a whole minibatch would be one of their own."""
    ppo = make_ppo(minibatch_size=10, epochs=2, normalise_advantages=False)
    ppo._round_rows = 20
    for rows, sizes in ((20, [10, 10]), (23, [12, 11]), (17, [9, 8]), (8, [8]), (3, [3])):
        batch = Rollouts(np.zeros((rows, 4), np.float32), np.arange(rows), *np.zeros((3, rows), np.float32))
        parts = [part.action for part in ppo.minibatches(batch)]
        assert [len(part) for part in parts] == sizes * 2
        assert sorted(np.concatenate(parts[: len(sizes)])) == list(range(rows))


def test_the_earlier_values_go_with_their_rows_and_only_where_they_are_used():
    rows = 32
    batch = Rollouts(np.zeros((rows, 4), np.float32), np.arange(rows), *np.zeros((3, rows), np.float32), np.arange(rows))
    for size in (10, rows):
        used = make_ppo(minibatch_size=size, epochs=2, value_clip=0.2)
        assert all(np.array_equal(part.value, part.action) for part in used.minibatches(batch))
        assert all(part.value is None for part in make_ppo(minibatch_size=size, epochs=2).minibatches(batch))


@pytest.mark.parametrize("stale", [False, True])
def test_values_are_those_of_the_weights_as_they_stood_before_the_round(stale):
    ppo = make_ppo(value_clip=0.2)
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    batch = assess_stale([chunk], ppo.updater.both, CARTPOLE, ppo.config) if stale else ppo.prepare([chunk])
    expected = ppo.updater.values(chunk["observation"][:-1].reshape(-1, 4))
    np.testing.assert_allclose(batch.value, expected, rtol=1e-6, atol=1e-6)


def test_clipping_bounds_how_far_values_follow_their_targets():
    """With a clip that is tiny beside the targets, epochs of steps hardly move a value; without one they do."""
    chunk, moved = make_chunk(np.random.default_rng(5), 16, 8) | {"reward": np.full((16, 8), 50, np.float32)}, {}
    features = chunk["observation"][:-1].reshape(-1, 4)
    for value_clip in (None, 1e-3):
        ppo = make_ppo(minibatch_size=32, epochs=10, learning_rate=1e-2, value_clip=value_clip, max_grad_norm=1e9)
        before = ppo.updater.values(features)
        ppo.update([chunk], 0)
        moved[value_clip] = np.abs(ppo.updater.values(features) - before).mean()
    assert moved[1e-3] < 0.2 * moved[None]


def test_normalised_advantages_have_mean_zero_and_deviation_one():
    batch = normalise(random_batch(np.random.default_rng(0), 64, 2, 2))
    assert batch.advantage.mean() == pytest.approx(0, abs=1e-6)
    assert batch.advantage.std() == pytest.approx(1, abs=1e-5)


def test_learning_rate_falls_to_zero_at_the_horizon():
    ppo = make_ppo(learning_rate=1e-3, learning_rate_schedule="linear")
    assert [ppo.learning_rate(s) for s in (0, 250, 1000, 2000)] == pytest.approx([1e-3, 7.5e-4, 0, 0])
    assert make_ppo(learning_rate=1e-3).learning_rate(900) == 1e-3


def played(ppo, chunk, by=None):
    """The chunk with the log-probabilities of a policy of these weights (the updater's)."""
    network = ppo.updater.network
    blocks = network.views(ppo.updater.weights() if by is None else by)
    logits = network.scores(blocks, chunk["observation"][:-1].reshape(-1, 4))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    own = np.take_along_axis(log_p, chunk["action"].reshape(-1, 1), 1)
    return chunk | {"log_probability": own.reshape(chunk["action"].shape).astype(np.float32)}


def test_without_lag_the_correction_is_the_strict_batch():
    ppo = make_ppo()
    chunk = played(ppo, make_chunk(np.random.default_rng(5), 16, 8))
    strict, relaxed = ppo.prepare([chunk]), assess_stale([chunk], ppo.updater.both, CARTPOLE, ppo.config)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(relaxed, name), getattr(strict, name), rtol=1e-5, atol=1e-5)


def test_with_lag_each_later_delta_is_weighted_by_the_truncated_ratios_up_to_it():
    """A_t is the sum over k of (gamma lambda)^(k-t) c_k delta_k. Here c_k is the product of min(1, rho_i) for t < i <= k.

    A value target has each action's own weight too, as V-trace has it.
    """
    ppo = make_ppo(gamma=0.9, gae_lambda=0.8)
    network, now = ppo.updater.network, ppo.updater.weights()
    old = (now + 0.3 * np.random.default_rng(1).normal(size=len(now))).astype(np.float32)
    plain = make_chunk(np.random.default_rng(5), 6, 3)
    chunk, current = played(ppo, plain, by=old), played(ppo, plain)["log_probability"]
    rho = np.minimum(1, np.exp(current - chunk["log_probability"]))
    assert (rho < 0.9).any()
    values = network.values(network.views(now), chunk["observation"].reshape(-1, 4)).reshape(7, 3)
    finals = iter(network.values(network.views(now), chunk["final_observation"]))
    delta = np.zeros((6, 3))
    for t in range(6):
        for b in range(3):
            following = next(finals) if chunk["truncated"][t, b] else values[t + 1, b]
            delta[t, b] = chunk["reward"][t, b] + (0 if chunk["terminated"][t, b] else 0.9 * following) - values[t, b]
    batch = assess_stale([chunk], ppo.updater.both, CARTPOLE, ppo.config)
    for b in range(3):
        for t in range(6):
            expected, weight = 0.0, 1.0
            for k in range(t, 6):
                weight *= rho[k, b] if k > t else 1.0
                expected += weight * delta[k, b]
                if chunk["terminated"][k, b] or chunk["truncated"][k, b]:
                    break
                weight *= 0.9 * 0.8
            assert batch.advantage[3 * t + b] == pytest.approx(expected, abs=1e-5)
            assert batch.value_target[3 * t + b] == pytest.approx(rho[t, b] * expected + values[t, b], abs=1e-5)
    assert np.array_equal(batch.log_probability, chunk["log_probability"].reshape(-1))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("size", [10, 1000])
def test_the_decoupled_surrogate_equals_a_slow_loop(size, normalised):
    """Mean of pi/mu min(p/pi A, clip(p/pi) A): mu made the chunk, pi is the policy before the round, p is trained."""
    settings = {"clip": 0.1, "value_coefficient": 0.0, "minibatch_size": size, "normalise_advantages": normalised}
    ppo, plain = make_ppo(**settings, epochs=1, correction="decoupled"), make_chunk(np.random.default_rng(5), 6, 4)
    before, rng = ppo.updater.weights().copy(), np.random.default_rng(1)
    mu, p = (before + 0.3 * rng.normal(size=(2, len(before)))).astype(np.float32)
    chunk = played(ppo, plain, by=mu)
    made, before_round, trained = (played(ppo, plain, by=by)["log_probability"].reshape(-1) for by in (mu, before, p))
    batch = assess_stale([chunk], ppo.updater.both, CARTPOLE, ppo.config)
    usual = assess_stale([chunk], ppo.updater.both, CARTPOLE, PPOConfig())
    place = {tuple(row): i for i, row in enumerate(usual.features)}
    rows = 0
    for part in ppo.minibatches(batch):
        at = [place[tuple(row)] for row in part.features]
        advantages = [float(usual.advantage[i]) for i in at]
        if normalised:
            mean = sum(advantages) / len(at)
            deviation = math.sqrt(sum((a - mean) ** 2 for a in advantages) / len(at))
            advantages = [(a - mean) / (deviation + 1e-8) for a in advantages]
        total, clipped = 0.0, 0
        for i, a in zip(at, advantages, strict=True):
            ratio = math.exp(trained[i] - before_round[i])
            near = min(max(ratio, 0.9), 1.1)
            total += math.exp(before_round[i] - made[i]) * min(ratio * a, near * a)
            clipped += near * a < ratio * a
        logits, values = (torch.from_numpy(c) for c in ppo.updater.network.both(ppo.updater.network.views(p), part.features))
        columns = (part.action, part.log_probability, part.advantage, part.value_target)
        found = loss(Categorical(logits), values, *map(torch.from_numpy, columns), ppo.config)
        assert float(found) == pytest.approx(-total / len(at), abs=1e-5)
        assert clipped, "some rows are beyond the clip range"
        rows += len(at)
    assert rows == len(usual)


def test_both_corrections_are_one_without_lag_and_two_with_it():
    chunk, ended = make_chunk(np.random.default_rng(5), 16, 8), {}
    for lag in (False, True):
        for correction in ("behaviour", "decoupled"):
            ppo = make_ppo(minibatch_size=32, epochs=2, correction=correction)
            by = ppo.updater.weights() + np.float32(lag) * 0.3 * np.random.default_rng(1).normal(size=9155).astype(np.float32)
            ppo.update([played(ppo, chunk, by=by)], 0, stale=True)
            ended[lag, correction] = ppo.updater.weights().copy()
    np.testing.assert_allclose(ended[False, "decoupled"], ended[False, "behaviour"], atol=1e-5)
    assert np.abs(ended[True, "decoupled"] - ended[True, "behaviour"]).max() > 1e-4


def test_stale_chunks_make_as_many_steps_and_other_weights():
    chunk = make_chunk(np.random.default_rng(5), 16, 8)
    chunk["log_probability"] -= np.random.default_rng(6).random((16, 8)).astype(np.float32)
    strict, relaxed = make_ppo(minibatch_size=32, epochs=2), make_ppo(minibatch_size=32, epochs=2)
    assert strict.update([chunk], 0) == relaxed.update([chunk], 0, stale=True) == 8
    assert not np.array_equal(strict.updater.weights(), relaxed.updater.weights())
