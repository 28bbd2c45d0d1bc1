"""Clipping of gradients: `together` by one norm, `each` as two optimizers do that know nothing of each other."""

import numpy as np
import pytest
import torch
from commands import refusal
from msgspec.structs import replace
from torch import nn

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.algorithms import ppo_numpy, ppo_torch, updaters
from tianji.algorithms.adam import Adam
from tianji.algorithms.distributions_torch import Categorical
from tianji.algorithms.networks import ActorCritic, NatureActorCritic, QNetwork, SharedActorCritic
from tianji.algorithms.networks_torch import heads
from tianji.algorithms.rollouts import Rollouts
from tianji.config import NetworkConfig, PPOConfig, TrainConfig

FEATURES, ACTIONS, ROWS = 4, 3, 32
UPDATERS = {"numpy": ppo_numpy.NumpyUpdater, "torch": ppo_torch.TorchUpdater}
EACH = PPOConfig(clip_gradients="each", max_grad_norm=0.3, entropy_coefficient=0.1)
DEPTHS = [(), (8,), (16, 8)]


def batch_of(seed, rows=ROWS, targets=1.0):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=rows).astype(np.float32) for _ in range(2)]
    log_probability = (np.log(1 / ACTIONS) + 0.2 * rng.normal(size=rows)).astype(np.float32)
    features, action = rng.normal(size=(rows, FEATURES)).astype(np.float32), rng.integers(0, ACTIONS, rows)
    return Rollouts(features, action, log_probability, columns[0], np.float32(targets) * columns[1])


def rows_of(batch, rows):
    return Rollouts(*(column if column is None else column[rows] for column in vars(batch).values()))


def made(kind, network, config, seed=0):
    return UPDATERS[kind](network, config, network.initialise(seed))


class Apart:
    """A policy and a value network in float64, each with an optimizer of its own, as SBX has them."""

    def __init__(self, network, flat, config):
        self.config, self.network, self.depth = config, network, len(network.hidden)
        tensors = network.named_tensors(flat)
        self.towers = [self._tower(tensors, name) for name in ("policy", "value")]
        self.optimizers = [torch.optim.Adam(tower.parameters(), eps=config.adam_epsilon) for tower in self.towers]
        self.norms = []

    def _tower(self, tensors, name):
        layers = []
        for i in range(self.depth + 1):
            kernel, bias = (torch.tensor(tensors[f"{name}.{i}.{part}"], dtype=torch.float64) for part in ("kernel", "bias"))
            layer = nn.Linear(*kernel.shape, dtype=torch.float64)
            layer.weight.data, layer.bias.data = kernel.T.contiguous(), bias
            layers += [layer, nn.Tanh()]
        return nn.Sequential(*layers[:-1])

    def step(self, batch, rate):
        x = torch.tensor(batch.features, dtype=torch.float64)
        columns = (batch.log_probability, batch.advantage, batch.value_target)
        old, advantage, target = (torch.tensor(column, dtype=torch.float64) for column in columns)
        logits, value = (tower(x) for tower in self.towers)
        loss = ppo_torch.loss(
            Categorical(logits), value.squeeze(1), torch.tensor(batch.action), old, advantage, target, self.config
        )
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        norms = []
        for tower, optimizer in zip(self.towers, self.optimizers, strict=True):
            norms.append(float(nn.utils.clip_grad_norm_(tower.parameters(), self.config.max_grad_norm)))
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
        self.norms.append(norms)

    def weights(self):
        named = {
            f"{name}.{i // 2}.{part}": array
            for name, tower in zip(("policy", "value"), self.towers, strict=True)
            for i, layer in enumerate(tower)
            if isinstance(layer, nn.Linear)
            for part, array in (("kernel", layer.weight.T), ("bias", layer.bias))
        }
        return self.network.flatten({name: array.detach().numpy() for name, array in named.items()})


@pytest.mark.long(why="a network learns")
@pytest.mark.parametrize("kind", UPDATERS)
@pytest.mark.parametrize("hidden", DEPTHS)
@pytest.mark.parametrize(
    ("norm", "weight", "clipped"), [(0.01, 1, "both"), (1, 50, "value"), (0.05, 1e-3, "policy"), (99, 1, "")]
)
def test_each_is_two_optimizers_that_clip_for_themselves(kind, hidden, norm, weight, clipped):
    network, config = ActorCritic(FEATURES, hidden, ACTIONS), replace(EACH, max_grad_norm=norm, value_coefficient=weight)
    updater = made(kind, network, config)
    reference = Apart(network, network.initialise(0), config)
    for seed in range(20):
        for one in (updater, reference):
            one.step(batch_of(seed), 1e-2 / (1 + seed))
    np.testing.assert_allclose(updater.weights(), reference.weights(), atol=2e-5)
    assert np.abs(updater.weights() - network.initialise(0)).max() > 1e-2
    longer = np.array(reference.norms) > norm
    assert (
        longer.all(axis=0).tolist()
        == longer.any(axis=0).tolist()
        == [
            clipped in ("both", "policy"),
            clipped in ("both", "value"),
        ]
    )


@pytest.mark.parametrize("norm", [0.05, 0.5])
def test_both_updaters_clip_alike(norm):
    network, config = ActorCritic(FEATURES, (16, 16), ACTIONS), replace(EACH, max_grad_norm=norm)
    ours, theirs = (made(kind, network, config) for kind in UPDATERS)
    for seed in range(30):
        for updater in (ours, theirs):
            updater.step(batch_of(seed, targets=3.0), 1e-2 / (1 + seed))
    np.testing.assert_allclose(ours.weights(), theirs.weights(), atol=1e-5)
    assert ours.adam.norms == pytest.approx(float(theirs._norms), rel=1e-4)
    together = made("numpy", network, replace(config, clip_gradients="together"))
    for seed in range(30):
        together.step(batch_of(seed, targets=3.0), 1e-2 / (1 + seed))
    assert np.abs(together.weights() - ours.weights()).max() > 1e-3, "it matters here"


@pytest.mark.parametrize("kind", UPDATERS)
@pytest.mark.parametrize("sizes", [[32], [5, 20, 7]])
def test_what_is_accumulated_is_clipped_once(kind, sizes):
    network, batch = ActorCritic(FEATURES, (8,), ACTIONS), batch_of(0)
    whole, pieced = (made(kind, network, replace(EACH, max_grad_norm=0.05)) for _ in range(2))
    ends = np.cumsum(sizes)
    for seed in range(3):
        batch = batch_of(seed)
        whole.step(batch, 1e-2)
        for size, end in zip(sizes, ends, strict=True):
            pieced.accumulate(rows_of(batch, slice(end - size, end)), size / ROWS)
        pieced.apply(1e-2)
    np.testing.assert_allclose(pieced.weights(), whole.weights(), atol=1e-5)


@pytest.mark.parametrize("kind", UPDATERS)
@pytest.mark.parametrize(("column", "odd"), [("advantage", np.inf), ("value_target", np.inf), ("value_target", np.nan)])
def test_a_gradient_that_is_not_finite_is_seen_in_either_part(kind, column, odd):
    updater, batch = made(kind, ActorCritic(FEATURES, (8,), ACTIONS), EACH), batch_of(0)
    updater.step(batch, 1e-3)
    assert updater.sound()
    getattr(batch, column)[3] = odd
    with np.errstate(all="ignore"):
        updater.step(batch, 1e-3)
    assert not updater.sound()


@pytest.mark.parametrize("norm", [0.05, 1e6])
def test_together_is_to_the_bit_one_norm_over_all(norm):
    """The default: the vector is clipped as a whole before Adam, by the formula of torch's clip_grad_norm_."""
    network, config = ActorCritic(FEATURES, (8, 8), ACTIONS), PPOConfig(max_grad_norm=norm)
    assert config.clip_gradients == "together"
    flat = network.initialise(0)
    ours, theirs = (made(kind, network, config) for kind in UPDATERS)
    other, adam = flat.copy(), Adam(len(flat), config.adam_epsilon, float("inf"))
    vector = torch.tensor(flat, requires_grad=True)
    optimizer = torch.optim.Adam([vector], eps=config.adam_epsilon, fused=True)
    for seed in range(10):
        batch, rate = batch_of(seed), 1e-2 / (1 + seed)
        gradient = ours.gradient(batch).copy()
        length = float(np.sqrt(np.dot(gradient, gradient)))
        if length + 1e-6 > norm:
            gradient *= np.float32(norm / (length + 1e-6))
        adam.step(other, gradient, rate)
        vector.grad = theirs.gradient(batch).clone()
        nn.utils.clip_grad_norm_([vector], norm)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        for updater in (ours, theirs):
            updater.step(batch, rate)
        assert np.array_equal(ours.weights(), other)
        assert np.array_equal(theirs.weights(), vector.detach().numpy())


@pytest.mark.parametrize("kind", UPDATERS)
def test_without_clipping_both_settings_are_the_same_to_the_bit(kind):
    network = ActorCritic(FEATURES, (8, 8), ACTIONS)
    one, other = (made(kind, network, PPOConfig(max_grad_norm=1e6, clip_gradients=how)) for how in ("together", "each"))
    for seed in range(5):
        for updater in (one, other):
            updater.step(batch_of(seed), 1e-2)
    assert np.array_equal(one.weights(), other.weights())


@pytest.mark.parametrize(
    "network", [*(ActorCritic(FEATURES, hidden, ACTIONS) for hidden in DEPTHS), SharedActorCritic(4, (), 3)]
)
def test_parts_are_what_each_output_depends_on(network):
    flat = torch.tensor(network.initialise(0), requires_grad=True)
    outputs = heads(network, network.views(flat), torch.randn(50, FEATURES))
    for output, part in zip(outputs, network.parts(), strict=True):
        (gradient,) = torch.autograd.grad((output * torch.randn_like(output)).sum(), flat, retain_graph=True)
        own = np.zeros(network.size, bool)
        for piece in part:
            assert not own[piece].any()
            own[piece] = True
        assert np.array_equal(gradient.numpy() != 0, own)


@pytest.mark.parametrize(
    "network", [SharedActorCritic(4, (8,), 3), NatureActorCritic((4, 84, 84), (8,), 3), QNetwork(4, (8,), 3)]
)
def test_what_is_shared_has_no_parts(network):
    assert network.parts() is None


@pytest.mark.parametrize(
    ("kind", "env", "features"),
    [("mlp-shared", "CartPole-v1", 4), ("nature-shared", "ALE/Pong-v5", (4, 84, 84))],
)
def test_each_is_refused_where_parameters_are_shared(kind, env, features):
    config = TrainConfig(env=env, ppo=EACH, network=NetworkConfig(kind=kind))
    network = updaters.KINDS[kind](features, (8,), ACTIONS)
    with pytest.raises(ConfigError, match=f"ppo.clip_gradients 'each' .* share no parameters.* network {kind} do"):
        updaters.make_updater(config, network, network.initialise(0))
    updaters.check(replace(config, ppo=PPOConfig()), network)


def test_it_is_refused_before_a_run_in_one_line(capsys):
    start = ["train", "--env", "CartPole-v1", "--set", "ppo.clip_gradients=each", "--set", "network.kind=mlp-shared"]
    assert "ppo.clip_gradients 'each' is for a network whose policy and value share no" in refusal(
        capsys, run, "tianji", main, start
    )


def test_the_settings_of_an_algorithm_that_is_not_trained_are_not_asked():
    config = TrainConfig(env="CartPole-v1", algo="impala", ppo=EACH, network=NetworkConfig(kind="mlp-shared"))
    updaters.check(config, SharedActorCritic(4, (8,), 2))


MODULES = """
    import torch
    from torch import nn

    class Towers(nn.Module):
        def __init__(self, features, actions):
            super().__init__()
            self.unused = nn.Linear(2, 2)
            self.value = nn.Sequential(nn.Linear(features, 7), nn.Tanh(), nn.Linear(7, 1))
            self.policy = nn.Sequential(nn.Linear(features, 7), nn.Tanh(), nn.Linear(7, actions))
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.policy(x), self.scale * self.value(x)

    class Detached(Towers):
        '''Its value learns from the policy's layer, and leaves it as it is.'''

        def __init__(self, features, actions):
            super().__init__(features, actions)
            self.value = nn.Linear(7, 1)

        def forward(self, x):
            top = self.policy[:2](x)
            return self.policy[2](top), self.scale * self.value(top.detach())

    class Meeting(Towers):
        def forward(self, x):
            return self.scale * self.policy(x), self.scale * self.value(x)
    """


@pytest.mark.parametrize("name", ["Towers", "Detached"])
def test_a_network_of_ones_own_is_asked_what_its_outputs_depend_on(own, name):
    from tianji.algorithms import modules

    own(MODULES)
    network = modules.make_module(f"my_module:{name}", FEATURES, ACTIONS)
    flat = np.arange(network.size)
    owner = {key: set() for key in network.named_tensors(flat)}
    for part, pieces in zip(("policy", "value"), network.parts(), strict=True):
        mask = np.zeros(network.size, bool)
        for piece in pieces:
            mask[piece] = True
        for key, block in network.named_tensors(mask).items():
            owner[key] |= {part} if block.all() else {f"some of {part}"} if block.any() else set()
    trained = {key: next(iter(parts)) for key, parts in owner.items() if len(parts) == 1}
    assert trained.keys() == owner.keys()
    assert all(part == ("value" if key.startswith(("value", "scale")) else "policy") for key, part in trained.items())
    config = TrainConfig(env="x", ppo=replace(EACH, max_grad_norm=0.01), network=NetworkConfig(factory=f"my_module:{name}"))
    updater = updaters.make_updater(config, network, network.initialise(0))
    before = updater.weights().copy()
    # Under so large an epsilon a step is as long as the gradient.
    updater.optimizer.param_groups[0]["eps"] = 1e3
    updater.step(batch_of(0), 1e3)
    for pieces in network.parts():
        moved = np.concatenate([(updater.weights() - before)[piece] for piece in pieces])
        assert np.linalg.norm(moved) == pytest.approx(0.01, rel=1e-2)


def test_a_network_of_ones_own_that_shares_parameters_is_refused(own):
    from tianji.algorithms import modules

    own(MODULES)
    network = modules.make_module("my_module:Meeting", FEATURES, ACTIONS)
    config = TrainConfig(env="x", ppo=EACH, network=NetworkConfig(factory="my_module:Meeting"))
    with pytest.raises(ConfigError, match="those of network factory do"):
        updaters.check(config, network)
