"""Soft actor-critic against slow, independent references."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from programs.cli import ConfigError
from tianji.algorithms import algorithm, networks, updaters
from tianji.algorithms.replay import Experience
from tianji.algorithms.sac_numpy import NumpyUpdater, Squashed
from tianji.algorithms.sac_torch import TorchUpdater, sampled
from tianji.algorithms.second_core import Helper
from tianji.algorithms.transitions import Transitions, uniform
from tianji.algorithms.twin import TwinCritics
from tianji.config import ActionsConfig, NetworkConfig, SACConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription

UPDATERS = [NumpyUpdater, TorchUpdater]
TWO = Actions("box", (0, 0), (2,), "<f4", (), (-1.0, -3.0), (1.0, 5.0), squash=True)
FEATURES = 5
EPSILON = 1e-4
"""Large enough that rounding of gradients near zero moves no weight."""
REACH = EnvDescription("Reach-v0", (FEATURES,), "<f4", 0, TWO)


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
        next_noise=normal(rows, numbers),
    )


def perceptron_of(network, flat, owner):
    """torch's own layers, in float64."""
    blocks, layers = network.views(flat), []
    for i in range(len(network.hidden) + 1):
        kernel, bias = blocks[f"{owner}.{i}.kernel"], blocks[f"{owner}.{i}.bias"]
        layer = nn.Linear(*kernel.shape, dtype=torch.float64)
        layer.weight.data, layer.bias.data = torch.tensor(kernel.T).double(), torch.tensor(bias).double()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def flat_of(network, modules, log_temperature, what=lambda parameter: parameter.detach()):
    """Vector of the network from torch's layers."""
    pieces = []
    for owner in ("policy", "q1", "q2"):
        for layer in modules[owner]:
            if isinstance(layer, nn.Linear):
                pieces += [what(layer.weight).T.reshape(-1), what(layer.bias)]
    return torch.cat([*pieces, what(log_temperature)]).numpy()


class Reference:
    """Soft actor-critic as the papers' pseudo-code has it, with torch's modules, distributions and optimizers in float64."""

    def __init__(self, network, config, flat):
        self.network, self.config = network, config
        self.modules = {owner: perceptron_of(network, flat, owner) for owner in ("policy", "q1", "q2")}
        self.targets = {owner: perceptron_of(network, flat, owner) for owner in ("q1", "q2")}
        self.log_temperature = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        adam = torch.optim.Adam
        other = config.critic_learning_rate or config.learning_rate
        critics = [*self.modules["q1"].parameters(), *self.modules["q2"].parameters()]
        self.adams = {
            "policy": adam(self.modules["policy"].parameters(), config.learning_rate, eps=config.adam_epsilon),
            "critics": adam(critics, other, eps=config.adam_epsilon),
            "temperature": adam([self.log_temperature], other, eps=config.adam_epsilon),
        }

    def act(self, x, noise):
        mean, log_scale = self.modules["policy"](x).chunk(2, dim=1)
        deviation = log_scale.clamp(*self.network.actions.log_scale_bounds).exp()
        policy = TransformedDistribution(Normal(mean, deviation), [TanhTransform(cache_size=1)])
        action = torch.tanh(mean + deviation * noise)
        u = mean + deviation * noise
        jacobian = torch.log(1 - action * action)
        assert torch.allclose(policy.log_prob(action), Normal(mean, deviation).log_prob(u) - jacobian, atol=1e-3)
        return action, (Normal(mean, deviation).log_prob(u) - jacobian).sum(1)

    def step(self, batch):
        b = {name: torch.tensor(column).double() for name, column in vars(batch).items()}
        temperature = self.log_temperature.detach().exp()
        with torch.no_grad():
            action, log_probability = self.act(b["following"], b["next_noise"])
            inputs = torch.cat([b["following"], action], 1)
            least = torch.minimum(*(self.targets[q](inputs).squeeze(1) for q in ("q1", "q2")))
            wanted = b["reward"] + b["discount"] * (least - temperature * log_probability)
        inputs = torch.cat([b["features"], b["action"]], 1)
        loss = sum(0.5 * nn.functional.mse_loss(self.modules[q](inputs).squeeze(1), wanted) for q in ("q1", "q2"))
        self.descend("critics", loss)
        action, log_probability = self.act(b["features"], b["noise"])
        inputs = torch.cat([b["features"], action], 1)
        least = torch.minimum(*(self.modules[q](inputs).squeeze(1) for q in ("q1", "q2")))
        self.descend("policy", (temperature * log_probability - least).mean())
        if self.config.temperature == "auto":
            goal = -2.0 if self.config.target_entropy is None else self.config.target_entropy
            self.descend("temperature", -(self.log_temperature * (log_probability.detach() + goal)).mean())
        for q in ("q1", "q2"):
            for mine, theirs in zip(self.targets[q].parameters(), self.modules[q].parameters(), strict=True):
                mine.data.mul_(1 - self.config.tau).add_(self.config.tau * theirs.data)

    def descend(self, name, loss):
        adam = self.adams[name]
        own = [parameter for group in adam.param_groups for parameter in group["params"]]
        for parameter, gradient in zip(own, torch.autograd.grad(loss, own), strict=True):
            parameter.grad = gradient
        adam.step()


@pytest.mark.parametrize("kind", UPDATERS)
@pytest.mark.parametrize("hidden", [(), (7,), (16, 12)], ids=len)
@pytest.mark.parametrize("bounds", [(-20.0, 2.0), (-0.05, 0.05)], ids=["wide", "clamped"])
def test_an_update_is_that_of_the_papers_pseudo_code(kind, hidden, bounds):
    actions = TWO.__class__(**{**vars(TWO), "log_scale_bounds": bounds})
    network, config = (
        TwinCritics(FEATURES, hidden, actions),
        SACConfig(learning_rate=1e-3, critic_learning_rate=3e-3, tau=0.1, adam_epsilon=EPSILON),
    )
    flat = network.initialise(3)
    updater, reference = kind(network, config, flat), Reference(network, config, flat)
    updater.target[:] = updater.flat
    for seed in range(6):
        batch = batch_of(seed)
        updater.step(batch, config.learning_rate)
        reference.step(batch)
        expected = flat_of(network, reference.modules, reference.log_temperature)
        np.testing.assert_allclose(updater.weights(), expected, rtol=1e-4, atol=3e-5)
    critics = slice(network.pieces()["q1"].start, network.pieces()["q2"].stop)
    expected = flat_of(network, reference.modules | reference.targets, reference.log_temperature)
    np.testing.assert_allclose(np.asarray(updater.target)[critics], expected[critics], rtol=1e-4, atol=3e-5)


def test_hand_derived_gradients_equal_autograd():
    network, config = TwinCritics(FEATURES, (16, 12), TWO), SACConfig(learning_rate=1e-12)
    flat = network.initialise(3)
    updater, reference = NumpyUpdater(network, config, flat), Reference(network, config, flat)
    batch = batch_of(1)
    updater.step(batch, 1e-12)
    reference.step(batch)
    expected = flat_of(network, reference.modules, reference.log_temperature, lambda parameter: parameter.grad)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(updater.grad, expected, rtol=1e-3, atol=3e-6)


def test_bytes_are_scaled_for_the_policy_and_the_critics_alike():
    network, config = TwinCritics((1, 2, 3), (8,), TWO), SACConfig()
    batch, rng = batch_of(0), np.random.default_rng(1)
    batch.features, batch.following = (rng.integers(0, 256, (32, 1, 2, 3), np.uint8) for _ in range(2))
    one, other = (kind(network, config, network.initialise(0)) for kind in UPDATERS)
    for updater in (one, other):
        updater.step(batch, 1e-3)
    np.testing.assert_allclose(one.weights(), other.weights(), atol=1e-5)
    assert one.measured(batch) == pytest.approx(other.measured(batch), rel=1e-4, abs=1e-5)


def test_a_fixed_temperature_stays():
    network = TwinCritics(FEATURES, (8,), TWO)
    config = SACConfig(temperature=0.2)
    for kind in UPDATERS:
        updater = kind(network, config, network.initialise(0))
        updater.step(batch_of(0), 1e-3)
        assert updater.measured(batch_of(0))["temperature"] == pytest.approx(0.2, rel=1e-6)


def test_a_helper_changes_no_bit():
    network, config = TwinCritics(FEATURES, (256, 256), TWO), SACConfig()
    alone, helped = (NumpyUpdater(network, config, network.initialise(0), helper) for helper in (None, Helper()))
    for seed in range(4):
        for updater in (alone, helped):
            updater.step(batch_of(seed, rows=256), 1e-3)
    assert np.array_equal(alone.flat, helped.flat)
    assert np.array_equal(alone.target, helped.target)


@pytest.mark.parametrize("first", UPDATERS)
@pytest.mark.parametrize("second", UPDATERS)
def test_either_updater_goes_on_from_the_others_state(first, second):
    network, config = TwinCritics(FEATURES, (16,), TWO), SACConfig(tau=0.1, adam_epsilon=EPSILON)
    one, other = (kind(network, config, network.initialise(seed)) for kind, seed in ((first, 0), (second, 1)))
    for seed in range(3):
        one.step(batch_of(seed), 1e-3)
    other.restore({name: array.copy() for name, array in one.state().items()})
    for updater in (one, other):
        for seed in range(3, 6):
            updater.step(batch_of(seed), 1e-3)
    np.testing.assert_allclose(other.weights(), one.weights(), atol=2e-6)
    np.testing.assert_allclose(np.asarray(other.target), np.asarray(one.target), atol=2e-6)


def test_both_updaters_report_alike():
    network, config = TwinCritics(FEATURES, (16,), TWO), SACConfig()
    found = []
    for kind in UPDATERS:
        updater = kind(network, config, network.initialise(0))
        updater.step(batch_of(0), 1e-2)
        before = updater.weights().copy()
        found.append(updater.measured(batch_of(1)))
        assert np.array_equal(updater.weights(), before)
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-5)
    assert found[0].keys() == {"policy_loss", "critic_loss", "mean_value", "entropy", "temperature"}


def test_log_probabilities_stay_right_where_tanh_is_flat():
    """Against the density of tanh of a normal number, with the logarithm of 1 - tanh^2 as -2 log cosh, in float64."""
    mean = np.array([[0.0, 9.0, -9.0, 2.0]], np.float32)
    log_scale, noise = np.array([[0.0, -1.0, 0.5, -3.0]], np.float32), np.array([[0.3, -1.0, 2.0, 0.5]], np.float32)
    u = (mean + np.exp(log_scale) * noise).astype(np.float64)
    density = -0.5 * noise.astype(np.float64) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)
    expected = (density + 2 * np.log(np.cosh(u)))[0]
    ours = Squashed(np.concatenate([mean, log_scale]), noise, (-20, 2)).log_probability
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    theirs = sampled(torch.tensor(np.concatenate([mean, log_scale]).T), torch.tensor(noise.T), (-20, 2))[1]
    np.testing.assert_allclose(theirs.numpy(), expected, rtol=1e-5, atol=1e-5)


def config_of(env="Pendulum-v1", **sac):
    defaults = {"train_every_steps": 4, "updates": 3, "batch_size": 8, "learning_starts": 8, "replay_capacity": 1000}
    return TrainConfig(env=env, algo="sac", actors=1, envs_per_actor=1, sac=SACConfig(**{**defaults, **sac}))


def chunk_of(seed, steps=4):
    rng = np.random.default_rng(seed)
    terminated = np.zeros((steps, 1), bool)
    terminated[seed % steps] = True
    return {
        "observation": rng.standard_normal((steps + 1, 1, FEATURES)).astype(np.float32),
        "action": rng.standard_normal((steps, 1, 2)).astype(np.float32),
        "reward": rng.standard_normal((steps, 1)).astype(np.float32),
        "terminated": terminated,
        "truncated": np.zeros((steps, 1), bool),
        "final_observation": np.zeros((steps, FEATURES), np.float32),
    }


def test_minibatches_hold_what_was_taken_and_stop_at_terminations():
    made = algorithm.make_algorithm(config_of(), REACH)
    made.insert([Experience(chunk_of(k), 0, k) for k in range(6)])
    taken = {chunk_of(k)["observation"][t, 0].tobytes(): (k, t) for k in range(6) for t in range(4)}
    for batch in made.minibatches(5):
        assert len(batch.reward) == 8
        for row in range(8):
            k, t = taken[batch.features[row].tobytes()]
            chunk = chunk_of(k)
            np.testing.assert_allclose(batch.action[row], np.tanh(chunk["action"][t, 0]), rtol=1e-6)
            assert batch.reward[row] == chunk["reward"][t, 0]
            assert batch.discount[row] == (0 if chunk["terminated"][t, 0] else np.float32(0.99))
            if not chunk["terminated"][t, 0] and t < 3:
                assert np.array_equal(batch.following[row], chunk["observation"][t + 1, 0])


def test_rounds_start_when_the_replay_is_filled_and_a_restored_state_repeats_them():
    made = algorithm.make_algorithm(config_of(), REACH)
    counts = []
    for k in range(4):
        made.insert([Experience(chunk_of(k), 0, k)])
        counts.append(made.train(4 * (k + 1)))
    assert counts == [0, 3, 3, 3]
    kept = made.state()
    other = algorithm.make_algorithm(config_of(), REACH)
    other.restore(type(kept)({name: array.copy() for name, array in kept.arrays.items()}, kept.values))
    for one in (made, other):
        one.insert([Experience(chunk_of(9), 0, 9)])
        one.train(20)
    assert np.array_equal(made.updater.weights(), other.updater.weights())


def test_actions_are_uniform_until_learning_starts_and_then_the_policys():
    config = config_of(learning_starts=100)
    network = TwinCritics(FEATURES, (8,), TWO)
    explore, blocks = algorithm.explorer(config, network), network.views(network.initialise(0))
    x, noise = np.zeros((4, FEATURES), np.float32), np.random.default_rng(0).standard_normal((4, 2))
    assert np.array_equal(explore(blocks, x, noise, 99, {}, 0), uniform(noise))
    scores = network.scores(blocks, x)
    np.testing.assert_allclose(
        explore(blocks, x, noise, 100, {}, 0), scores[:, :2] + np.exp(scores[:, 2:]) * noise, rtol=1e-5, atol=1e-6
    )


def test_uniform_actions_fill_the_bounds_evenly():
    action = np.sort(TWO.batched(uniform(np.random.default_rng(0).standard_normal((20_000, 2)))), axis=0)
    for column, low, high in zip(action.T, TWO.low, TWO.high, strict=True):
        # The largest distance between two distribution functions (Kolmogorov-Smirnov): 1.63 / sqrt(n) at 1 %.
        assert np.abs((column - low) / (high - low) - np.linspace(0, 1, len(column))).max() < 1.63 / math.sqrt(len(column))


def test_actors_need_the_policy_alone():
    network = TwinCritics(FEATURES, (8, 6), TWO)
    flat = network.initialise(0)
    acting = network.acting_views(flat[: network.acting].copy())
    assert {name.partition(".")[0] for name in acting} == {"policy"}
    assert network.acting == 5 * 8 + 8 + 8 * 6 + 6 + 6 * 4 + 4
    x = np.random.default_rng(1).standard_normal((3, FEATURES)).astype(np.float32)
    assert np.array_equal(network.scores(acting, x), network.scores(network.views(flat), x))
    assert np.array_equal(network.flatten(network.named_tensors(flat)), flat)


@pytest.mark.parametrize(
    ("describe", "line"),
    [
        (EnvDescription("CartPole-v1", (4,), "<f4", 0, 2), "algo sac chooses numbers (Box), and the actions of environment"),
        (EnvDescription("Walk-v0", (9, 9, 3), "|u1", 0, TWO, pixels="hwc"), "algo sac trains perceptrons, and observations"),
    ],
    ids=["discrete", "pictures"],
)
def test_what_it_cannot_train_is_refused_in_a_line(describe, line):
    config = config_of()
    with pytest.raises(ConfigError, match=line.replace("(", r"\(").replace(")", r"\)")):
        updaters.check(config, networks.of(config, describe))


def test_settings_that_have_no_meaning_for_it_are_refused():
    with pytest.raises(ValueError, match="exploration 'state' is for algo ppo and impala, not sac"):
        TrainConfig(env="Pendulum-v1", algo="sac", actions=ActionsConfig(exploration="state"))
    with pytest.raises(ValueError, match="trains a network of kind 'mlp-twin', not 'mlp-q'"):
        TrainConfig(env="Pendulum-v1", algo="sac", network=NetworkConfig(kind="mlp-q"))
    assert config_of().actions.bounds == "squash"
