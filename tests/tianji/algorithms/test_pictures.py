"""Updates of convolutional networks: gradients against torch's own layers, rows of pictures, and bfloat16."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from programs.cli import ConfigError
from tianji import DQNConfig, PPOConfig, TrainConfig
from tianji.algorithms import dqn_torch, networks, ppo_torch
from tianji.algorithms.dqn import Regression
from tianji.algorithms.nature import NatureActorCritic, NatureQ
from tianji.algorithms.networks_torch import drawn
from tianji.algorithms.rollouts import Rollouts
from tianji.algorithms.updaters import check, make_updater
from tianji.environments.making import describe

ROWS, ACTIONS = 24, 6


def pictures(side, rows=ROWS):
    return np.random.default_rng(1).integers(0, 256, (rows, 4, side, side), np.uint8)


def rollouts(features):
    rng, rows = np.random.default_rng(2), len(features)
    old, advantage, target = rng.normal(size=(3, rows)).astype(np.float32)
    return Rollouts(
        features, rng.integers(0, ACTIONS, rows), 0.01 * old - np.log(ACTIONS).astype(np.float32), advantage, target
    )


def updater_of(side, **more):
    network = NatureActorCritic((4, side, side), (512,), ACTIONS)
    return network, ppo_torch.TorchUpdater(network, PPOConfig(entropy_coefficient=0.01), network.initialise(0), **more)


def reference(network, flat, batch):
    """Gradient of PPO's loss in float64 by torch's own layers, as a flat vector."""
    leaf = torch.tensor(flat, dtype=torch.float64, requires_grad=True)
    blocks = network.views(leaf)
    x = torch.tensor(np.ascontiguousarray(batch.features), dtype=torch.float64) / 255
    for i, stride in enumerate((4, 2, 1)):
        x = functional.relu(functional.conv2d(x, blocks[f"conv.{i}.kernel"], blocks[f"conv.{i}.bias"], stride=stride))
    x = functional.relu(functional.linear(x.flatten(1), blocks["dense.0.kernel"].T, blocks["dense.0.bias"]))
    scores, value = (functional.linear(x, blocks[f"{name}.kernel"].T, blocks[f"{name}.bias"]) for name in ("policy", "value"))
    now = functional.log_softmax(scores, dim=1)
    rows = torch.arange(len(batch))
    ratio = torch.exp(now[rows, torch.tensor(batch.action)] - torch.tensor(batch.log_probability, dtype=torch.float64))
    advantage, target = (torch.tensor(column, dtype=torch.float64) for column in (batch.advantage, batch.value_target))
    gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    entropy = -(now.exp() * now).sum(dim=1).mean()
    error = nn.functional.mse_loss(value.squeeze(1), target)
    (gradient,) = torch.autograd.grad(-gain + 0.5 * error - 0.01 * entropy, leaf)
    return gradient.numpy()


@pytest.mark.parametrize("side", [84, 42])
def test_gradients_are_those_of_torchs_own_layers(side):
    network, updater = updater_of(side)
    batch = rollouts(pictures(side))
    expected = reference(network, updater.weights(), batch)
    for features in (batch.features, updater.place(batch.features)):
        found = updater.gradient(Rollouts(features, *list(vars(batch).values())[1:])).numpy()
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("side", [84, 42])
def test_bfloat16_rounds_products_and_nothing_else(side):
    _, exact = updater_of(side)
    _, low = updater_of(side, precision="bf16")
    batch = rollouts(pictures(side))
    right, rounded = exact.gradient(batch), low.gradient(batch)
    assert rounded.dtype == torch.float32
    apart = float(torch.linalg.vector_norm(rounded - right) / torch.linalg.vector_norm(right))
    # A bfloat16 has 8 bits: .4 % for each operand, through four layers down and four up, whose ReLUs turn over a few units.
    assert 1e-5 < apart < 0.15
    assert float(torch.nn.functional.cosine_similarity(right, rounded, dim=0)) > 0.99
    before = low.weights().copy()
    low.step(batch, 1e-3)
    assert low.weights().dtype == np.float32
    assert not np.array_equal(low.weights(), before)
    assert {array.dtype for array in low.state().values()} == {np.dtype(np.float32), np.dtype(np.int64)}
    # Values outside the loss are computed in float32.
    low.load(before)
    assert np.array_equal(low.values(batch.features), exact.values(batch.features))


def test_dqn_in_bfloat16_is_near_float32():
    network, rng = NatureQ((4, 42, 42), (512,), ACTIONS), np.random.default_rng(0)
    batch = Regression(pictures(42), rng.integers(0, ACTIONS, ROWS), rng.normal(size=ROWS).astype(np.float32))
    right, rounded = (
        dqn_torch.TorchUpdater(network, DQNConfig(), network.initialise(0), precision=one).gradient(batch)
        for one in ("fp32", "bf16")
    )
    assert 1e-5 < float(torch.linalg.vector_norm(rounded - right) / torch.linalg.vector_norm(right)) < 0.03


def test_rows_are_drawn_as_by_indexing_and_keep_their_layout():
    x, index = torch.from_numpy(pictures(42)), np.array([3, 0, 3, 23])
    last = x.contiguous(memory_format=torch.channels_last)
    for rows in (x, last, x.flatten(1).float()):
        assert torch.equal(drawn(rows, index), rows[index])
    assert drawn(last, index).is_contiguous(memory_format=torch.channels_last)
    _, updater = updater_of(42)
    placed = updater.place(pictures(42))
    assert placed.is_contiguous(memory_format=torch.channels_last)
    batch = rollouts(placed)
    assert np.array_equal(batch.take(index).features.numpy(), pictures(42)[index])


def test_only_torch_computes_in_bfloat16():
    description = describe("CartPole-v1")
    refused = TrainConfig(env="CartPole-v1", precision="bf16", updater="numpy")
    with pytest.raises(ConfigError, match="updater 'numpy' computes in fp32 only, not bf16; use updater 'auto'"):
        check(refused, networks.of(refused, description))
    chosen = TrainConfig(env="CartPole-v1", precision="bf16")
    network = networks.of(chosen, description)
    assert isinstance(make_updater(chosen, network, network.initialise(0)), ppo_torch.TorchUpdater)
