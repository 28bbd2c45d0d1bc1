"""The flat network against torch's own layers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tianji.algorithms.networks import ActorCritic, orthogonal


def tower(tensors, name, depth):
    layers = []
    for i in range(depth + 1):
        kernel, bias = tensors[f"{name}.{i}.kernel"], tensors[f"{name}.{i}.bias"]
        layer = nn.Linear(*kernel.shape)
        layer.weight.data, layer.bias.data = torch.tensor(kernel.T), torch.tensor(bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


@settings(max_examples=20)
@given(st.integers(1, 9), st.lists(st.integers(1, 17), max_size=3), st.integers(2, 5), st.integers(1, 8))
def test_forward_equals_torch(features, hidden, actions, rows):
    network = ActorCritic(features, tuple(hidden), actions)
    rng = np.random.default_rng(rows)
    flat = rng.normal(size=network.size).astype(np.float32)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    tensors = network.named_tensors(flat)
    with torch.no_grad():
        logits = tower(tensors, "policy", len(hidden))(torch.tensor(x)).numpy()
        values = tower(tensors, "value", len(hidden))(torch.tensor(x)).numpy()[:, 0]
    np.testing.assert_allclose(network.scores(network.views(flat), x), logits, atol=2e-5)
    np.testing.assert_allclose(network.values(network.views(flat), x), values, atol=2e-5)


def test_named_tensors_round_trip():
    network = ActorCritic(4, (8, 8), 2)
    flat = np.arange(network.size, dtype=np.float32)
    assert np.array_equal(network.flatten(network.named_tensors(flat)), flat)


def test_flatten_refuses_a_tensor_of_another_shape():
    network = ActorCritic(4, (8,), 2)
    tensors = network.named_tensors(np.zeros(network.size, np.float32))
    tensors["value.1.kernel"] = np.zeros((9, 1), np.float32)
    with pytest.raises(ValueError, match=r"value\.1\.kernel"):
        network.flatten(tensors)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_orthogonal_matrices_are_orthogonal(shape):
    matrix = orthogonal(np.random.default_rng(0), shape, 2.0).astype(np.float64)
    short = matrix if shape[0] <= shape[1] else matrix.T
    np.testing.assert_allclose(short @ short.T, 4 * np.eye(min(shape)), atol=1e-5)


def test_initial_weights_follow_the_seed_alone():
    network = ActorCritic(4, (64, 64), 2)
    assert np.array_equal(network.initialise(3), network.initialise(3))
    assert not np.array_equal(network.initialise(3), network.initialise(4))
    blocks = network.views(network.initialise(0))
    assert not blocks["hidden.0.bias"].any()
    assert np.linalg.norm(blocks["policy.kernel"], 2) == pytest.approx(0.01, rel=1e-4)


def test_rows_do_not_depend_on_how_environments_are_dealt_out():
    """What makes strict TianJi equal the synchronous system to the bit, for these batch sizes and network."""
    network = ActorCritic(4, (64, 64), 2)
    blocks = network.views(network.initialise(0))
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    assert np.array_equal(network.scores(blocks, x)[:4], network.scores(blocks, x[:4]))
