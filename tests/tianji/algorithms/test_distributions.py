"""Distributions of actions, against SciPy and torch's autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tianji.algorithms import distributions_torch
from tianji.algorithms.distributions import Categorical


def some(seed, rows, actions):
    rng = np.random.default_rng(seed)
    return (3 * rng.normal(size=(rows, actions))).astype(np.float32), rng.integers(0, actions, rows), rng


shapes = {"seed": st.integers(0, 2**32), "rows": st.integers(1, 40), "actions": st.integers(1, 20)}


@settings(deadline=None)
@given(**shapes)
def test_log_probabilities_and_entropies_are_scipys(seed, rows, actions):
    logits, action, _ = some(seed, rows, actions)
    expected = special.log_softmax(logits.astype(np.float64), axis=1)
    entropy = stats.entropy(np.exp(expected), axis=1)
    ours, theirs = Categorical(logits.T.copy()), distributions_torch.Categorical(torch.tensor(logits))
    for log_probability in (ours.log_probability(action), theirs.log_probability(torch.tensor(action)).numpy()):
        np.testing.assert_allclose(log_probability, expected[np.arange(rows), action], rtol=1e-5, atol=1e-5)
    for found in (ours.entropy(), theirs.entropy().numpy()):
        np.testing.assert_allclose(found, entropy, rtol=1e-4, atol=1e-5)


@settings(deadline=None)
@given(**shapes, entropy_weight=st.sampled_from([0.0, 0.01, 1.0]))
def test_gradients_are_autograds(seed, rows, actions, entropy_weight):
    logits, action, rng = some(seed, rows, actions)
    weight = rng.normal(size=rows).astype(np.float32)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    policy = torch.distributions.Categorical(logits=x)
    loss = -(torch.tensor(weight) * policy.log_prob(torch.tensor(action))).sum() - entropy_weight * policy.entropy().sum()
    (expected,) = torch.autograd.grad(loss, x)
    ours = Categorical(logits.T.copy()).loss_gradient(action, weight, entropy_weight)
    np.testing.assert_allclose(ours.T, expected.numpy(), rtol=1e-4, atol=2e-5)


@settings(deadline=None)
@given(**shapes)
def test_a_draw_is_the_inverse_of_the_distribution_function(seed, rows, actions):
    logits, _, rng = some(seed, rows, actions)
    noise = rng.random((rows, 1))
    action, log_probability = Categorical.drawn(logits.T, noise[:, 0])
    below = np.concatenate([np.zeros((rows, 1)), special.softmax(logits.astype(np.float64), axis=1).cumsum(axis=1)], axis=1)
    at = np.arange(rows)
    assert (below[at, action] <= noise[:, 0] + 1e-5).all()
    assert (noise[:, 0] <= below[at, action + 1] + 1e-5).all()
    np.testing.assert_allclose(log_probability, Categorical(logits.T).log_probability(action), rtol=1e-5, atol=1e-5)


def test_actions_follow_the_softmax():
    logits = np.log(np.array([[0.2, 0.5, 0.3]], np.float32)).repeat(60_000, axis=0)
    action, log_p = Categorical.drawn(logits.T, np.random.default_rng(0).random(60_000))
    np.testing.assert_allclose(np.bincount(action) / 60_000, [0.2, 0.5, 0.3], atol=0.01)
    np.testing.assert_allclose(np.exp(log_p), np.array([0.2, 0.5, 0.3])[action], rtol=1e-5)


@pytest.mark.parametrize("gap", [200.0, 1e4])
def test_draws_stay_in_range_at_the_edges_of_the_noise(gap):
    logits = np.array([[0.0, -gap], [-gap, 0.0]], np.float32)
    action, _ = Categorical.drawn(logits.T, np.array([np.nextafter(1, 0), 0.0]))
    assert action.tolist() == [0, 1]
