"""Networks that a user's factory makes: against the plain module, and every way in which one is refused."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from commands import refusal

from programs.cli import ConfigError, run
from tianji.__main__ import main
from tianji.algorithms import algorithm, dqn_torch, impala_torch, modules, networks, networks_torch, ppo_torch, updaters
from tianji.algorithms.distributions_torch import Categorical
from tianji.algorithms.dqn import Regression
from tianji.algorithms.rollouts import Rollouts
from tianji.config import DQNConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.policy import Policy, load_policy, save_policy
from tianji.run.training import train
from tianji.settings import convert

MODULES = """
    import torch
    from torch import nn

    class Trunk(nn.Module):
        def __init__(self, features, actions, width=7):
            super().__init__()
            self.first, self.norm, self.drop = nn.Linear(features, width), nn.LayerNorm(width), nn.Dropout(0.5)
            self.register_buffer("shift", torch.randn(width))
            self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

        def top(self, x):
            return self.drop(torch.tanh(self.norm(self.first(x)) + self.shift))

    class Pair(Trunk):
        def forward(self, x):
            top = self.top(x)
            return self.policy(top), self.value(top)

    class Flat(Trunk):
        def forward(self, x):
            top = self.top(x)
            return self.policy(top), self.value(top).squeeze(1)

    class Q(nn.Module):
        def __init__(self, features, actions):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(features, 7), nn.ReLU(), nn.Linear(7, actions))

        def forward(self, x):
            return self.layers(x)

    class Wider(Q):
        def __init__(self, features, actions):
            super().__init__(features, actions)
            self.layers = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, actions))

    class Deeper(Q):
        def __init__(self, features, actions):
            super().__init__(features, actions)
            self.layers.append(nn.Linear(actions, actions))

    class Tied(nn.Module):
        '''One matrix, twice.'''

        def __init__(self, features, actions):
            super().__init__()
            self.one = nn.Linear(features, features)
            self.two = self.one
            self.head = nn.Linear(features, actions)

        def forward(self, x):
            return self.head(self.two(torch.tanh(self.one(x))))

    class Seeing(nn.Module):
        def __init__(self, features, actions):
            super().__init__()
            self.eye = nn.Sequential(nn.Conv2d(features[0], 3, 8, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
            self.policy, self.value = nn.Linear(12, actions), nn.Linear(12, 1)

        def forward(self, x):
            assert x.dtype == torch.uint8
            top = self.eye(x / 255)
            return self.policy(top), self.value(top)
    """


@pytest.fixture
def made(own):
    """A network of one of these modules, with weights of its own, and the plain module with the same."""
    own(MODULES)

    def make(name, features=5, actions=3):
        network = modules.make_module(f"my_module:{name}", features, actions)
        flat = network.initialise(3)
        plain = getattr(sys.modules["my_module"], name)(features, actions).eval()
        tensors = {key: torch.tensor(value.copy()) for key, value in network.named_tensors(flat).items()}
        buffers = dict(network.module.named_buffers())
        plain.load_state_dict({**tensors, **buffers}, strict=name != "Tied")
        return network, flat, plain

    return make


def inputs_of(features, rows=6):
    rng = np.random.default_rng(1)
    if isinstance(features, int):
        return rng.normal(size=(rows, features)).astype(np.float32)
    return rng.integers(0, 256, (rows, *features), np.uint8)


@pytest.mark.parametrize(("name", "features"), [("Pair", 5), ("Flat", 5), ("Seeing", (2, 42, 42))])
def test_logits_and_values_are_the_plain_modules(made, name, features):
    network, flat, plain = made(name, features)
    x, blocks = inputs_of(features), network.views(flat)
    with torch.no_grad():
        logits, values = (output.numpy() for output in plain(torch.tensor(x)))
    values = values.reshape(6)
    assert isinstance(network, networks.PolicyValueNetwork)
    np.testing.assert_allclose(network.scores(blocks, x), logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(network.values(blocks, x), values, rtol=1e-5, atol=1e-6)
    for got in (network.both(blocks, x), networks_torch.infer(network, blocks, x)):
        np.testing.assert_allclose(got[0], logits, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[1], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Q", "Tied"])
def test_action_values_are_the_plain_modules(made, name):
    network, flat, plain = made(name)
    x, blocks = inputs_of(5), network.views(flat)
    with torch.no_grad():
        values = plain(torch.tensor(x)).numpy()
    assert isinstance(network, networks.ActionValueNetwork)
    np.testing.assert_allclose(network.scores(blocks, x), values, rtol=1e-5, atol=1e-6)
    (got,) = networks_torch.infer(network, blocks, x)
    np.testing.assert_allclose(got, values, rtol=1e-5, atol=1e-6)


def test_the_flat_vector_is_the_modules_parameters_in_their_order(made):
    network, flat, plain = made("Pair")
    whole = torch.cat([parameter.detach().reshape(-1) for parameter in plain.parameters()]).numpy()
    assert np.array_equal(flat, whole)
    assert list(network.named_tensors(flat)) == [name for name, _ in plain.named_parameters()]


def flat_gradient(loss, plain):
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(plain.parameters()))]).numpy()


@pytest.mark.parametrize(("algo", "torch_module"), [("ppo", ppo_torch), ("impala", impala_torch)])
def test_gradients_of_policies_are_the_plain_modules(made, algo, torch_module):
    network, flat, plain = made("Pair")
    config = TrainConfig(env="x", algo=algo, network=NetworkConfig(factory="my_module:Pair"))
    updater = updaters.make_updater(config, network, flat)
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=6).astype(np.float32) for _ in range(3)]
    batch = Rollouts(inputs_of(5), rng.integers(0, 3, 6), *columns)
    logits, value = plain(torch.tensor(batch.features))
    settings = getattr(config, algo)
    action, old, advantage, target = map(torch.tensor, (batch.action, *columns))
    given = (action, old, advantage, target) if algo == "ppo" else (action, advantage, target)
    expected = flat_gradient(torch_module.loss(Categorical(logits), value.squeeze(1), *given, settings), plain)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(updater.gradient(batch).numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["Q", "Tied"])
def test_gradients_of_action_values_are_the_plain_modules(made, name):
    network, flat, plain = made(name)
    config = TrainConfig(env="x", algo="dqn", actors=1, envs_per_actor=1, network=NetworkConfig(factory=f"my_module:{name}"))
    updater = updaters.make_updater(config, network, flat)
    rng = np.random.default_rng(0)
    batch = Regression(inputs_of(5), rng.integers(0, 3, 6), rng.normal(size=6).astype(np.float32))
    loss = dqn_torch.loss(
        plain(torch.tensor(batch.features)), torch.tensor(batch.action), torch.tensor(batch.target), config.dqn
    )
    expected = flat_gradient(loss, plain)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(updater.gradient(batch).numpy(), expected, rtol=1e-4, atol=1e-6)
    before = updater.target_values(batch.features)
    updater.step(batch, 0.01)
    assert np.array_equal(updater.target_values(batch.features), before)
    assert not np.array_equal(updater.values(batch.features), before)


def test_a_minibatch_makes_one_step_of_adam_on_the_plain_module(made):
    network, flat, plain = made("Q")
    config = TrainConfig(env="x", algo="dqn", actors=1, envs_per_actor=1, network=NetworkConfig(factory="my_module:Q"))
    updater = updaters.make_updater(config, network, flat)
    rng = np.random.default_rng(0)
    batch = Regression(inputs_of(5), rng.integers(0, 3, 6), rng.normal(size=6).astype(np.float32))
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, eps=config.dqn.adam_epsilon)
    for _ in range(3):
        updater.step(batch, 0.01)
        optimizer.zero_grad()
        dqn_torch.loss(
            plain(torch.tensor(batch.features)), torch.tensor(batch.action), torch.tensor(batch.target), config.dqn
        ).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), config.dqn.max_grad_norm)
        optimizer.step()
    expected = torch.cat([parameter.detach().reshape(-1) for parameter in plain.parameters()]).numpy()
    np.testing.assert_allclose(updater.weights(), expected, rtol=1e-4, atol=1e-6)


def test_initial_weights_follow_the_seed_and_nothing_global_changes(made):
    network, _, _ = made("Pair")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = network.initialise(3)
    assert np.array_equal(first, network.initialise(3))
    assert not np.array_equal(first, network.initialise(4))
    modules.make_module("my_module:Pair", 5, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights_are_what_the_layers_begin_with(made):
    """torch's Linear: uniform in +-1 / sqrt(inputs); LayerNorm: ones and zeros."""
    network, flat, _ = made("Pair")
    blocks = network.views(flat)
    assert 0.8 / np.sqrt(5) < np.abs(blocks["first.weight"]).max() <= 1 / np.sqrt(5)
    assert blocks["norm.weight"].tolist() == [1] * 7
    assert blocks["norm.bias"].tolist() == [0] * 7


def test_random_buffers_are_the_same_wherever_the_network_is_made(made):
    one, two = made("Pair")[0], made("Pair")[0]
    assert one.module.shift.std() > 0
    assert torch.equal(one.module.shift, two.module.shift)
    one.initialise(9)
    assert torch.equal(one.module.shift, two.module.shift)


def test_parameters_are_looked_at_in_place(made):
    network, flat, _ = made("Q")
    blocks, x = network.views(flat), inputs_of(5)
    before = network.scores(blocks, x)
    blocks["layers.2.bias"] += 1
    np.testing.assert_allclose(network.scores(blocks, x), before + 1, atol=1e-5)


def test_parameters_that_are_only_read_are_read_anew(made):
    network, flat, _ = made("Q")
    x = inputs_of(5)
    reading = flat.view()
    reading.flags.writeable = False
    blocks = network.views(reading)
    before = network.scores(blocks, x)
    network.views(flat)["layers.2.bias"] += 1
    np.testing.assert_allclose(network.scores(blocks, x), before + 1, atol=1e-5)


def test_two_sets_of_parameters_do_not_get_mixed_up(made):
    network, flat, _ = made("Q")
    one, two, x = network.views(flat), network.views(flat + 1), inputs_of(5)
    first, second = network.scores(one, x), network.scores(two, x)
    assert not np.allclose(first, second)
    assert np.array_equal(network.scores(one, x), first)
    assert np.array_equal(networks_torch.infer(network, two, x)[0], second)
    assert np.array_equal(network.scores(one, x), first)


def test_buffers_follow_the_parameters_to_their_device(made):
    """The meta device stands for any that is not the CPU: an operation on tensors of both raises."""
    network, flat, _ = made("Pair")
    blocks = {name: torch.tensor(block, device="meta") for name, block in network.views(flat).items()}
    for output in network.torch_outputs(blocks, torch.zeros(6, 5, device="meta")):
        assert output.device.type == "meta"
    assert network.module.shift.device.type == "cpu"


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_images_are_trained_on(own, algo):
    own(MODULES)
    describe = EnvDescription("x", (42, 42), "|u1", 0, 2, stack=2, pixels="hw")
    config = TrainConfig(
        env="x", algo=algo, network=NetworkConfig(factory="my_module:Seeing"), ppo=PPOConfig(minibatch_size=16, epochs=1)
    )
    chosen, rng = algorithm.make_algorithm(config, describe), np.random.default_rng(0)
    chunk = {
        "observation": rng.integers(0, 256, (10, 4, 42, 42), np.uint8),
        "age": np.zeros(4, np.uint8),
        "action": rng.integers(0, 2, (8, 4)),
        "reward": rng.normal(size=(8, 4)).astype(np.float32),
        "terminated": np.zeros((8, 4), bool),
        "truncated": rng.random((8, 4)) < 0.2,
        "log_probability": np.full((8, 4), np.log(0.5), np.float32),
        "final_observation": rng.integers(0, 256, (32, 42, 42), np.uint8),
    }
    before = chosen.updater.weights().copy()
    chosen.update([chunk], 0)
    moved = {name for name, block in chosen.updater.network.views(chosen.updater.weights() - before).items() if block.any()}
    assert moved == set(chosen.updater.network.shapes())


def small(algo, factory, **more):
    return TrainConfig(
        env="CartPole-v1",
        algo=algo,
        network=NetworkConfig(factory=factory),
        actors=1,
        envs_per_actor=1 if algo == "dqn" else 4,
        world="lockstep",
        seed=1,
        snapshot_every_steps=10**6,
        **more,
    )


LEARNER = """
    from torch import nn

    class Policy(nn.Module):
        def __init__(self, features, actions):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(features, 32), nn.LayerNorm(32), nn.Tanh())
            self.policy, self.value = nn.Linear(32, actions), nn.Linear(32, 1)

        def forward(self, x):
            top = self.body(x)
            return self.policy(top), self.value(top)

    def values(features, actions):
        return nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))
    """
LEARNING = {
    "ppo": {
        "factory": "my_module:Policy",
        "ppo": PPOConfig(rollout_steps=32, minibatch_size=128, epochs=10, learning_rate=3e-3),
        "stop_steps": 40_000,
    },
    "dqn": {
        "factory": "my_module:values",
        "dqn": DQNConfig(learning_starts=1000, epsilon_steps=4000),
        "stop_steps": 25_000,
    },
}


@pytest.mark.long(why="a network learns")
@pytest.mark.parametrize("algo", LEARNING)
def test_a_network_of_ones_own_learns_cartpole(own, algo):
    """A policy that does not learn stays near 20."""
    own(LEARNER)
    result = train(small(algo, **LEARNING[algo], stop_return=60))
    assert result.outcome == "return", f"{result.mean_return} after {result.steps} steps"


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_lockstep_repeats_to_the_bit(own, algo):
    own(LEARNER)
    runs = [train(small(algo, **{**LEARNING[algo], "stop_steps": 1536})).weights for _ in range(2)]
    assert np.array_equal(*runs)
    assert not np.array_equal(runs[0], modules.make_module(LEARNING[algo]["factory"], 4, 2).initialise(1))


def test_a_policy_survives_the_file(made, tmp_path):
    network, flat, plain = made("Pair")
    path = tmp_path / "p.safetensors"
    save_policy(path, Policy(network, flat), env="x")
    policy = load_policy(path, factory="my_module:Pair")
    assert policy.network == network
    assert np.array_equal(policy.weights, flat)
    with torch.no_grad():
        best = plain(torch.tensor(inputs_of(5)))[0].argmax(dim=1)
    assert policy.greedy(inputs_of(5)).tolist() == best.tolist()


def test_the_files_tensors_are_the_modules_parameters(made, tmp_path):
    from safetensors.torch import load_file

    network, flat, plain = made("Pair")
    save_policy(tmp_path / "p.safetensors", Policy(network, flat))
    tensors = load_file(tmp_path / "p.safetensors")
    assert tensors.keys() == dict(plain.named_parameters()).keys()
    assert all(torch.equal(tensors[name], parameter) for name, parameter in plain.named_parameters())


def test_a_file_decides_nothing_about_what_is_imported(made, own, tmp_path):
    network, flat, _ = made("Q")
    own("raise SystemExit('imported')", "trap")
    network.factory = "trap:make"
    path = tmp_path / "p.safetensors"
    save_policy(path, Policy(network, flat))
    with pytest.raises(ConfigError, match=r"made by 'trap:make'.*--network MODULE:FUNCTION"):
        load_policy(path)
    assert np.array_equal(load_policy(path, factory="my_module:Q").weights, flat)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Pair", "makes another network: network factory: it has no tensor layers.0.bias"),
        ("Wider", "makes another network: network factory: tensor layers.0.weight of shape (8, 5) is missing or has another"),
        ("Deeper", "makes another network: network factory: tensor layers.3.weight of shape (3, 3) is missing"),
        ("R", "module my_module has no R"),
    ],
)
def test_another_factory_than_the_files_is_refused(made, tmp_path, name, says):
    network, flat, _ = made("Q")
    save_policy(tmp_path / "p.safetensors", Policy(network, flat))
    with pytest.raises(ConfigError) as raised:
        load_policy(tmp_path / "p.safetensors", factory=f"my_module:{name}")
    assert says in str(raised.value)


def test_a_factory_for_a_file_that_needs_none_is_refused(tmp_path):
    network = networks.QNetwork(4, (8,), 2)
    save_policy(tmp_path / "p.safetensors", Policy(network, network.initialise(0)))
    with pytest.raises(ConfigError, match="holds the built-in network mlp-q; leave my_module:make out"):
        load_policy(tmp_path / "p.safetensors", factory="my_module:make")


FAULTY = """
    import torch
    from torch import nn

    def linear(features, actions):
        return nn.Linear(features, actions)

    def nothing(features, actions):
        return None

    def narrow(features):
        return nn.Linear(features, 2)

    def empty(features, actions):
        return nn.Identity()

    def lazy(features, actions):
        return nn.LazyLinear(actions)

    def double(features, actions):
        return nn.Linear(features, actions).double()

    def frozen(features, actions):
        return nn.Linear(features, actions).requires_grad_(False)

    def norm(features, actions):
        return nn.Sequential(nn.BatchNorm1d(features), nn.Linear(features, actions))

    def statistics(features, actions):
        return nn.Sequential(nn.Linear(features, 9), nn.BatchNorm1d(9, track_running_stats=False), nn.Linear(9, actions))

    def spectral(features, actions):
        return nn.utils.parametrizations.spectral_norm(nn.Linear(features, actions))

    def wrong_size(features, actions):
        return nn.Linear(features + 1, actions)

    def wrong_actions(features, actions):
        return nn.Linear(features, actions + 1)

    class Does(nn.Module):
        def __init__(self, what, features, actions):
            super().__init__()
            self.what, self.first, self.second = what, nn.Linear(features, actions), nn.Linear(features, 1)

        def forward(self, x):
            return self.what(self, x)

    def does(what):
        return lambda features, actions: Does(what, features, actions)

    three = does(lambda m, x: (m.first(x), m.second(x), x))
    text = does(lambda m, x: "left")
    wide_value = does(lambda m, x: (m.first(x), m.first(x)))
    half = does(lambda m, x: m.first(x).half())
    detached = does(lambda m, x: m.first(x).detach())
    squeezed = does(lambda m, x: (m.first(x).squeeze(), m.second(x).squeeze()))
    dropping = does(lambda m, x: m.first(nn.functional.dropout(x)) * 10)
    centred = does(lambda m, x: m.first(x) - m.first(x).mean(dim=0))
    broken = does(lambda m, x: 1 / 0)
    """


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", "module my_module has no nowhere"),
        ("nothing", "returns an object of type NoneType, and no torch.nn.Module"),
        ("narrow", "called with (4, 2), it raises TypeError: narrow() takes 1 positional argument but 2 were given"),
        ("empty", "has no parameters to train"),
        ("lazy", "parameter weight has no shape yet"),
        ("double", "parameter weight is float64; all that is trained here is float32"),
        ("frozen", "parameter weight does not require a gradient"),
        ("norm", "buffer 0.running_mean changes with what the module sees, as BatchNorm's do"),
        ("statistics", "raises ValueError: Expected more than 1 value per channel"),
        ("spectral", "buffer parametrizations.weight.0._u changes"),
        ("wrong_size", "given observations (2, 4), it raises RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("wrong_actions", "of 2 observations its module makes a tensor [2, 3]; wanted is a pair (logits [2, 2], values [2])"),
        ("three", "makes an object of type tuple"),
        ("text", "makes an object of type str"),
        ("wide_value", "makes a pair of a tensor [2, 2] and a tensor [2, 2]"),
        ("half", "returns float16; it must return float32"),
        ("detached", "does not depend on its parameters"),
        ("squeezed", "of 1 observations its module makes a pair of a tensor [2] and a tensor []"),
        ("dropping", "gives one observation other outputs in another batch"),
        ("centred", "gives one observation other outputs in another batch"),
        ("broken", "it raises ZeroDivisionError: division by zero"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_the_start_in_one_line(own, capsys, name, says):
    own(FAULTY)
    text = refusal(capsys, run, "tianji", main, ["train", "--env", "CartPole-v1", "--set", f"network.factory=my_module:{name}"])
    assert text.startswith(f"tianji: network.factory my_module:{name}: ")
    assert says in text


def test_outputs_that_the_algorithm_does_not_train_are_refused(own, capsys):
    own(MODULES)
    start = ["train", "--env", "CartPole-v1", "--set"]
    text = refusal(capsys, run, "tianji", main, [*start, "network.factory=my_module:Q"])
    assert "algo ppo trains a pair (logits [N, 2], values [N])" in text
    text = refusal(capsys, run, "tianji", main, [*start, "network.factory=my_module:Pair", "--algo", "dqn"])
    assert "algo dqn trains action values [N, 2]" in text


def test_numpy_does_not_compute_it(own, capsys):
    own(MODULES)
    given = ["--set", "network.factory=my_module:Pair", "--set", "updater=numpy"]
    assert "computes perceptrons only, not factory" in refusal(
        capsys, run, "tianji", main, ["train", "--env", "CartPole-v1", *given]
    )


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({"kind": "factory"}, "needs network.factory"),
        ({"factory": "nets"}, "write it as module:attribute"),
        ({"factory": "nets.py:make"}, "write its module, nets:make"),
        ({"factory": "nets:make", "kind": "mlp-q"}, "is for kind 'factory', not 'mlp-q'"),
        ({"factory": "nets:make", "hidden": [64]}, "network.hidden has no meaning"),
        ({"factory": "nets:make", "hidden": []}, "network.hidden has no meaning"),
        ({"factory": "nets:make", "activation": "relu"}, "network.activation has no meaning"),
        ({"factory": "nets:make", "dueling": True}, "network.dueling has no meaning"),
    ],
)
def test_settings_that_make_no_sense_together_are_refused(network, says):
    with pytest.raises(ConfigError) as raised:
        convert({"env": "x", "network": network}, TrainConfig, "train")
    assert says in str(raised.value)


def test_a_factory_alone_says_the_kind_and_is_told_to_every_process_alike():
    config = TrainConfig(env="x", network=NetworkConfig(factory="nets:make"))
    assert config.network.kind == "factory"
    assert config.network == NetworkConfig(kind="factory", factory="nets:make")
    sent = msgspec.json.encode(config)
    assert msgspec.json.decode(msgspec.json.encode(config.network)) == {
        "kind": "factory",
        "factory": "nets:make",
        "dueling": False,
    }
    assert msgspec.json.decode(sent, type=TrainConfig) == config
    assert msgspec.structs.replace(config, seed=1).network == config.network


def test_kinds_that_are_known_say_nothing_of_a_factory():
    assert TrainConfig(env="x").network == NetworkConfig(kind="auto")
    assert "factory" not in msgspec.to_builtins(TrainConfig(env="x").network)


def test_a_wrong_kind_is_answered_with_those_that_there_are():
    with pytest.raises(
        ConfigError,
        match="known: auto, mlp-separate, mlp-shared, mlp-q, mlp-twin, mlp-deterministic, nature-shared, nature-q, factory",
    ):
        convert({"env": "x", "network": {"kind": "resnet"}}, TrainConfig, "train")


def test_a_buffer_does_without_the_network(own):
    """It moves chunks: neither torch nor the user's module is for it."""
    own("raise RuntimeError('imported')", "trap")
    code = """if True:
    import sys
    from tianji.channel.registry import Channels
    from tianji.config import NetworkConfig, TrainConfig
    from tianji.environments.description import EnvDescription
    from tianji.topology import build
    from tianji.worlds.assembly import Assembler
    config = TrainConfig(env="x", network=NetworkConfig(factory="trap:make"))
    topology = build(config, "memory://x")
    describe = EnvDescription("x", (4,), "<f4", 0, 2)
    with Channels() as channels:
        assembler = Assembler(config, describe, topology, channels, lambda message: None)
        (buffer,) = (spec for spec in topology.roles if spec.kind == "buffer")
        assembler.build(buffer).close()
    print("torch" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
