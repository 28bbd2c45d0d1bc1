"""TD3 against slow, independent references."""

import numpy as np
import pytest
import torch
from torch import nn

from tianji.algorithms import algorithm
from tianji.algorithms.second_core import Helper
from tianji.algorithms.td3_numpy import NumpyUpdater
from tianji.algorithms.td3_torch import TorchUpdater
from tianji.algorithms.transitions import LARGEST, Transitions, uniform
from tianji.algorithms.twin import Deterministic
from tianji.config import TD3Config, TrainConfig
from tianji.environments.actions import Actions

UPDATERS = [NumpyUpdater, TorchUpdater]
TWO = Actions("box", (0, 0), (2,), "<f4", (), (-1.0, -3.0), (1.0, 5.0), squash=True)
FEATURES = 5
EPSILON = 1e-4
"""Large enough that rounding of gradients near zero moves no weight."""
OWNERS = ("policy", "q1", "q2")


def batch_of(seed, rows=32, features=FEATURES, numbers=2):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return Transitions(
        features=normal(rows, features),
        action=np.tanh(normal(rows, numbers)),
        reward=normal(rows),
        discount=np.where(rng.random(rows) < 0.2, 0, 0.97).astype(np.float32),
        following=normal(rows, features),
        noise=normal(rows, numbers),
        # Some of it beyond the clip.
        next_noise=3 * normal(rows, numbers),
    )


class Reference:
    """TD3 as the paper's algorithm 1 has it, with torch's modules and optimizers in float64."""

    def __init__(self, network, config, flat):
        self.network, self.config, self.updates = network, config, 0
        self.modules = {owner: self.perceptron(flat, owner) for owner in OWNERS}
        self.targets = {owner: self.perceptron(flat, owner) for owner in OWNERS}
        self.adams = {
            "policy": torch.optim.Adam(self.modules["policy"].parameters(), config.learning_rate, eps=config.adam_epsilon),
            "critics": torch.optim.Adam(
                [*self.modules["q1"].parameters(), *self.modules["q2"].parameters()],
                config.learning_rate,
                eps=config.adam_epsilon,
            ),
        }

    def perceptron(self, flat, owner):
        blocks, layers = self.network.views(flat), []
        for i in range(len(self.network.hidden) + 1):
            kernel, bias = blocks[f"{owner}.{i}.kernel"], blocks[f"{owner}.{i}.bias"]
            layer = nn.Linear(*kernel.shape, dtype=torch.float64)
            layer.weight.data, layer.bias.data = torch.tensor(kernel.T).double(), torch.tensor(bias).double()
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def flat(self, modules, what=lambda parameter: parameter.detach()):
        pieces = []
        for owner in OWNERS:
            for layer in modules[owner]:
                if isinstance(layer, nn.Linear):
                    pieces += [what(layer.weight).T.reshape(-1), what(layer.bias)]
        return torch.cat(pieces).numpy()

    def step(self, batch):
        b = {name: torch.tensor(column).double() for name, column in vars(batch).items()}
        config = self.config
        self.updates += 1
        with torch.no_grad():
            noise = (config.target_noise * b["next_noise"]).clamp(-config.target_noise_clip, config.target_noise_clip)
            action = (torch.tanh(self.targets["policy"](b["following"])) + noise).clamp(-1, 1)
            inputs = torch.cat([b["following"], action], 1)
            least = torch.minimum(*(self.targets[q](inputs).squeeze(1) for q in ("q1", "q2")))
            wanted = b["reward"] + b["discount"] * least
        inputs = torch.cat([b["features"], b["action"]], 1)
        self.descend("critics", sum(nn.functional.mse_loss(self.modules[q](inputs).squeeze(1), wanted) for q in ("q1", "q2")))
        if self.updates % config.policy_every:
            return
        action = torch.tanh(self.modules["policy"](b["features"]))
        self.descend("policy", -self.modules["q1"](torch.cat([b["features"], action], 1)).mean())
        for owner in OWNERS:
            for mine, theirs in zip(self.targets[owner].parameters(), self.modules[owner].parameters(), strict=True):
                mine.data.mul_(1 - config.tau).add_(config.tau * theirs.data)

    def descend(self, name, loss):
        adam = self.adams[name]
        own = [parameter for group in adam.param_groups for parameter in group["params"]]
        for parameter, gradient in zip(own, torch.autograd.grad(loss, own), strict=True):
            parameter.grad = gradient
        adam.step()


@pytest.mark.parametrize("kind", UPDATERS)
@pytest.mark.parametrize("hidden", [(), (7,), (16, 12)], ids=len)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_updates_are_those_of_the_papers_algorithm(kind, hidden, every):
    network, config = Deterministic(FEATURES, hidden, TWO), TD3Config(tau=0.1, policy_every=every, adam_epsilon=EPSILON)
    flat = network.initialise(3)
    updater, reference = kind(network, config, flat), Reference(network, config, flat)
    for seed in range(7):
        batch = batch_of(seed)
        updater.step(batch, config.learning_rate)
        reference.step(batch)
        np.testing.assert_allclose(updater.weights(), reference.flat(reference.modules), rtol=1e-4, atol=3e-5)
        np.testing.assert_allclose(np.asarray(updater.target), reference.flat(reference.targets), rtol=1e-4, atol=3e-5)


def test_hand_derived_gradients_equal_autograd():
    network, config = Deterministic(FEATURES, (16, 12), TWO), TD3Config(policy_every=1, learning_rate=1e-12)
    flat = network.initialise(3)
    updater, reference = NumpyUpdater(network, config, flat), Reference(network, config, flat)
    batch = batch_of(1)
    updater.step(batch, 1e-12)
    reference.step(batch)
    expected = reference.flat(reference.modules, lambda parameter: parameter.grad)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(updater.grad, expected, rtol=1e-3, atol=3e-6)


def test_a_helper_changes_no_bit():
    network, config = Deterministic(FEATURES, (256, 256), TWO), TD3Config()
    alone, helped = (NumpyUpdater(network, config, network.initialise(0), helper) for helper in (None, Helper()))
    for seed in range(4):
        for updater in (alone, helped):
            updater.step(batch_of(seed, rows=256), 1e-3)
    assert np.array_equal(alone.flat, helped.flat)
    assert np.array_equal(alone.target, helped.target)


@pytest.mark.parametrize("first", UPDATERS)
@pytest.mark.parametrize("second", UPDATERS)
def test_either_updater_goes_on_from_the_others_state(first, second):
    """Also between two updates of the policy."""
    network, config = Deterministic(FEATURES, (16,), TWO), TD3Config(tau=0.1, policy_every=3, adam_epsilon=EPSILON)
    one, other = (kind(network, config, network.initialise(seed)) for kind, seed in ((first, 0), (second, 1)))
    for seed in range(4):
        one.step(batch_of(seed), 1e-3)
    other.restore({name: array.copy() for name, array in one.state().items()})
    for updater in (one, other):
        for seed in range(4, 8):
            updater.step(batch_of(seed), 1e-3)
    np.testing.assert_allclose(other.weights(), one.weights(), atol=2e-6)
    np.testing.assert_allclose(np.asarray(other.target), np.asarray(one.target), atol=2e-6)


def test_both_updaters_report_alike():
    network, config = Deterministic(FEATURES, (16,), TWO), TD3Config()
    found = []
    for kind in UPDATERS:
        updater = kind(network, config, network.initialise(0))
        updater.step(batch_of(0), 1e-2)
        before = updater.weights().copy()
        found.append(updater.measured(batch_of(1)))
        assert np.array_equal(updater.weights(), before)
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-5)
    assert found[0].keys() == {"policy_loss", "critic_loss", "mean_value"}


def test_actors_add_noise_within_the_bounds():
    td3 = TD3Config(learning_starts=100, exploration_noise=0.5, train_every_steps=4, updates=1, replay_capacity=100)
    config = TrainConfig(env="Pendulum-v1", algo="td3", actors=1, envs_per_actor=1, td3=td3)
    network = Deterministic(FEATURES, (8,), TWO)
    explore, blocks = algorithm.explorer(config, network), network.views(network.initialise(0))
    x = np.random.default_rng(1).standard_normal((400, FEATURES)).astype(np.float32)
    noise = np.random.default_rng(0).standard_normal((400, 2))
    assert np.array_equal(explore(blocks, x, noise, 99, {}, 0), uniform(noise))
    drawn = np.tanh(explore(blocks, x, noise, 100, {}, 0).astype(np.float64))
    expected = np.clip(np.tanh(network.scores(blocks, x)) + 0.5 * noise, -LARGEST, LARGEST)
    np.testing.assert_allclose(drawn, expected, atol=2e-6)
    assert (np.abs(expected) == LARGEST).any()
    assert config.actions.bounds == "squash"
