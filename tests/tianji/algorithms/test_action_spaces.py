"""Policies over numbers, bits and several choices: against torch's distributions and autograd, in double precision."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.algorithms import distributions_torch
from tianji.algorithms.base import FromRollouts
from tianji.algorithms.distributions import from_scores, policy_of
from tianji.algorithms.impala_numpy import NumpyUpdater as ImpalaNumpy
from tianji.algorithms.impala_torch import TorchUpdater as ImpalaTorch
from tianji.algorithms.networks import ActorCritic, SharedActorCritic
from tianji.algorithms.ppo_numpy import NumpyUpdater
from tianji.algorithms.ppo_torch import TorchUpdater
from tianji.algorithms.rollouts import Rollouts
from tianji.config import IMPALAConfig, PPOConfig
from tianji.environments.actions import Actions

BOX = Actions("box", (0, 0, 0), (3,), "<f4", (), (-1.0,) * 3, (1.0,) * 3)
SPACES = [
    Actions.of(4),
    Actions("multi-discrete", (3, 2, 5), (3,), "<i8", (0, 0, 0)),
    Actions("multi-binary", (2, 2, 2), (3,), "|i1", (0, 0, 0)),
    BOX,
]
NAMES = [space.kind for space in SPACES]


def some_actions(rng, space, rows):
    if space.kind == "box":
        return rng.normal(size=(rows, space.parts)).astype(np.float32)
    columns = np.stack([rng.integers(0, size, rows) for size in space.sizes], axis=1)
    return columns[:, 0] if space.kind == "discrete" else columns


def torchs(space, scores):
    """The log-probability and entropy of torch's own distributions, from scores in double precision."""
    match space.kind:
        case "discrete":
            parts = [torch.distributions.Categorical(logits=scores)]
        case "multi-discrete":
            parts = [torch.distributions.Categorical(logits=part) for part in scores.split(space.sizes, dim=1)]
        case "multi-binary":
            parts = [torch.distributions.Bernoulli(logits=column) for column in scores.unbind(1)]
        case "box":
            mean, log_scale = scores.split(space.parts, dim=1)
            deviation = torch.exp(torch.clamp(log_scale, *space.log_scale_bounds))
            parts = [torch.distributions.Normal(m, s) for m, s in zip(mean.unbind(1), deviation.unbind(1), strict=True)]
    alone = space.kind == "discrete"

    def log_probability(action):
        columns = [action] if alone else [c.to(scores.dtype) if space.kind != "multi-discrete" else c for c in action.unbind(1)]
        return sum(part.log_prob(column) for part, column in zip(parts, columns, strict=True))

    return log_probability, sum(part.entropy() for part in parts)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from(SPACES), st.sampled_from([0.0, 0.02]))
def test_log_probabilities_entropies_and_gradients_are_torchs(seed, rows, space, entropy_weight):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, space.scores)).astype(np.float32)
    constants = rng.normal(size=space.deviations).astype(np.float32) * 2
    scores[:, space.outputs :] = constants
    action, weight = some_actions(rng, space, rows), rng.normal(size=rows).astype(np.float32)
    outputs = torch.tensor(scores[:, : space.outputs], dtype=torch.float64, requires_grad=True)
    exact = torch.tensor(constants, dtype=torch.float64, requires_grad=True)
    log_probability, entropy = torchs(space, torch.cat([outputs, exact.expand(rows, -1)], dim=1))
    wanted = log_probability(torch.tensor(action))
    ours, theirs = from_scores(space, scores), distributions_torch.from_scores(space, torch.tensor(scores))
    for found in (ours.log_probability(action), theirs.log_probability(torch.tensor(action)).numpy()):
        np.testing.assert_allclose(found, wanted.detach(), rtol=1e-4, atol=1e-4)
    for found in (ours.entropy(), theirs.entropy().numpy()):
        np.testing.assert_allclose(found, entropy.detach(), rtol=1e-4, atol=1e-4)
    loss = -(torch.tensor(weight) * wanted).sum() - entropy_weight * entropy.sum()
    d_outputs, d_constants = torch.autograd.grad(loss, (outputs, exact), allow_unused=True)
    policy = policy_of(space, scores[:, : space.outputs].T.copy(), constants[:, None] if space.deviations else None)
    got = np.zeros(space.deviations, np.float32) if space.deviations else None
    gradient = policy.loss_gradient(action, weight, entropy_weight, got)
    scale = max(1.0, float(d_outputs.abs().max()))
    np.testing.assert_allclose(gradient.T, d_outputs, rtol=1e-3, atol=1e-4 * scale)
    if space.deviations:
        np.testing.assert_allclose(got, d_constants, rtol=1e-3, atol=1e-4 * max(1.0, float(d_constants.abs().max())))


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_draws_follow_the_policy_and_come_with_their_log_probability(space):
    rows, rng = 40_000, np.random.default_rng(0)
    scores = np.repeat(rng.normal(size=(1, space.scores)).astype(np.float32), rows, axis=0)
    policy = from_scores(space, scores)
    action, log_probability = policy.sample(space.noise(rng, rows))
    assert action.shape == (rows, *space.stored_shape)
    again = from_scores(space, scores).log_probability(np.ascontiguousarray(action))
    np.testing.assert_allclose(log_probability, again, rtol=1e-4, atol=1e-4)
    # The mean of -log pi is the entropy.
    assert -log_probability.mean() == pytest.approx(
        float(policy.entropy()[0]), abs=5 * float(log_probability.std()) / math.sqrt(rows)
    )
    if space.kind == "box":
        np.testing.assert_allclose(action.mean(0), scores[0, :3], atol=0.1)
        np.testing.assert_allclose(action.std(0), np.exp(scores[0, 3:]), rtol=0.03)


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_the_mode_is_the_likeliest_action(space):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(5, space.scores)).astype(np.float32)
    best = np.ascontiguousarray(from_scores(space, scores).mode())
    for _ in range(50):
        other = some_actions(rng, space, 5)
        assert (
            from_scores(space, scores).log_probability(best) >= from_scores(space, scores).log_probability(other) - 1e-5
        ).all()


def batch_of(rng, space, network, flat, rows, features=4):
    x = rng.normal(size=(rows, features)).astype(np.float32)
    action = some_actions(rng, space, rows)
    now = from_scores(space, network.scores(network.views(flat), x)).log_probability(action)
    columns = (rng.normal(size=rows).astype(np.float32) for _ in range(3))
    return Rollouts(x, action, (now + 0.3 * rng.normal(size=rows)).astype(np.float32), *columns)


@pytest.mark.parametrize("kind", [ActorCritic, SharedActorCritic])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6)])
@pytest.mark.parametrize("space", [*SPACES, replace(BOX, state=True)], ids=[*NAMES, "state"])
def test_hand_derived_gradients_are_autograds_in_double_precision(space, hidden, kind):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        network = kind(4, hidden, space)
        flat = (0.5 * rng.normal(size=network.size)).astype(np.float32)
        batch = batch_of(rng, space, network, flat, 24)
        pairs = (
            (NumpyUpdater, TorchUpdater, PPOConfig(entropy_coefficient=0.01, value_clip=0.2)),
            (ImpalaNumpy, ImpalaTorch, IMPALAConfig()),
        )
        for by_hand, by_torch, config in pairs:
            exact = by_torch(network, config, flat)
            exact.flat = torch.tensor(flat, dtype=torch.float64)
            double = Rollouts(
                *(c.astype(np.float64) if c is not None and c.dtype == np.float32 else c for c in vars(batch).values())
            )
            wanted = exact.gradient(double).numpy()
            got = by_hand(network, config, flat).gradient(batch)
            np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-5 * max(1.0, float(np.abs(wanted).max())))


def test_a_log_scale_beyond_its_bounds_has_no_gradient():
    space = Actions("box", (0, 0), (2,), "<f4", (), (None,) * 2, (None,) * 2, log_scale_bounds=(-1.0, 1.0))
    got = np.full(2, np.nan, np.float32)
    policy = policy_of(space, np.zeros((2, 3), np.float32), np.array([[-2.0], [0.5]], np.float32))
    policy.loss_gradient(np.ones((3, 2), np.float32), np.ones(3, np.float32), 0.0, got)
    assert got[0] == 0
    assert got[1] != 0
    np.testing.assert_allclose(policy.entropy(), [-1 + 0.5 + 2 * (0.5 + 0.5 * math.log(2 * math.pi))] * 3, rtol=1e-5)


def test_policies_over_numbers_begin_at_the_log_scale_of_the_settings():
    network = ActorCritic(4, (8,), Actions("box", (0, 0), (2,), "<f4", (), (-1.0,) * 2, (1.0,) * 2, log_scale=-1.5))
    flat = network.initialise(0)
    assert network.views(flat)["policy.log_scale"].tolist() == [-1.5, -1.5]
    scores = network.scores(network.views(flat), np.zeros((3, 4), np.float32))
    assert scores.shape == (3, 4)
    assert (scores[:, 2:] == -1.5).all()


def test_state_dependent_noise_has_the_deviation_that_the_policy_states():
    """And it is that of Stable-Baselines3's distribution."""
    from stable_baselines3.common.distributions import StateDependentNoiseDistribution

    space = replace(BOX, state=True, log_scale=-1.0)
    network, rng = ActorCritic(4, (8,), space), np.random.default_rng(0)
    flat = network.initialise(0)
    blocks, x = network.views(flat), rng.normal(size=(2, 4)).astype(np.float32)
    scores = network.scores(blocks, x)
    theirs = StateDependentNoiseDistribution(3)
    theirs.latent_sde_dim = 8
    latent = torch.tensor(network.latent(blocks, x))
    log_scale = torch.tensor(blocks["policy.log_scale"])
    theirs.sample_weights(log_scale)
    theirs.proba_distribution(torch.tensor(scores[:, :3]), log_scale, latent)
    action = rng.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        from_scores(space, scores).log_probability(action), theirs.log_prob(torch.tensor(action)), rtol=1e-4
    )
    np.testing.assert_allclose(from_scores(space, scores).entropy(), theirs.entropy(), rtol=1e-5)
    explore = FromRollouts.explorer(None, network)
    drawn = []
    for _ in range(4000):
        views = {"log_probability": np.zeros((1, 2), np.float32)}
        drawn.append(explore(blocks, x, rng.standard_normal((2, 24)), 0, views, 0))
        np.testing.assert_allclose(
            views["log_probability"][0], from_scores(space, scores).log_probability(drawn[-1]), rtol=1e-5
        )
    np.testing.assert_allclose(np.std(drawn, axis=0), np.exp(scores[:, 3:]), rtol=0.06)


@pytest.mark.parametrize(("kept", "changes"), [(1, 12), (4, 3), (None, 1)])
def test_noise_by_state_is_kept_for_some_steps(kept, changes):
    noise = replace(BOX, state=True, noise_steps=kept).noise(np.random.default_rng(0), 12, latent=5)
    assert noise.shape == (12, 15)
    assert len(np.unique(noise, axis=0)) == changes
