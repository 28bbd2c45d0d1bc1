"""The flat networks against torch's own layers."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import nn

from programs.cli import ConfigError
from tianji.algorithms import algorithm, networks_torch
from tianji.algorithms.flat import orthogonal
from tianji.algorithms.networks import KINDS, ActorCritic, QNetwork, build, make_network
from tianji.algorithms.rollouts import Rollouts
from tianji.config import NetworkConfig, PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.policy import Policy, load_policy, save_policy

IMAGE = (4, 42, 42)
PLAIN, DUELING, GELU = {}, {"dueling": True}, {"activation": "gelu"}
OPTIONS = {"mlp-q": [PLAIN, DUELING, GELU, DUELING | GELU], "nature-q": [PLAIN, DUELING]}
EVERY_KIND = [
    pytest.param(kind, options, id="-".join([kind, *map(str, options.values())]))
    for kind in KINDS
    for options in OPTIONS.get(kind, [PLAIN])
]


def network_of(kind, options=PLAIN, actions=3):
    """A small one, over images for convolutions and over vectors else, with weights of which none is zero."""
    network = make_network(kind, IMAGE if "nature" in kind else 5, (6, 7), actions, **options)
    rng = np.random.default_rng(0)
    return network, (network.initialise(3) + 0.05 * rng.normal(size=network.size)).astype(np.float32)


def inputs_of(network, rows=5):
    rng = np.random.default_rng(1)
    if isinstance(network.features, int):
        return rng.normal(size=(rows, network.features)).astype(np.float32)
    return rng.integers(0, 256, (rows, *network.features), np.uint8)


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


def test_flatten_refuses_a_tensor_of_another_network():
    network = ActorCritic(4, (8,), 2)
    tensors = network.named_tensors(np.zeros(network.size, np.float32))
    with pytest.raises(ValueError, match=r"no tensor value\.2\.bias"):
        network.flatten({**tensors, "value.2.bias": np.zeros(1, np.float32)})


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


def layers_of(tensors, names, activation):
    """torch's own layers with these weights: a dense one's kernel lies the other way round."""
    layers = []
    for name in names:
        kernel, bias = torch.tensor(tensors[f"{name}.kernel"].copy()), torch.tensor(tensors[f"{name}.bias"].copy())
        if kernel.ndim == 4:
            stride = {8: 4, 4: 2, 3: 1}[kernel.shape[-1]]
            layer = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[2], stride)
            layer.weight.data = kernel
        else:
            layer = nn.Linear(*kernel.shape)
            layer.weight.data = kernel.T
        layer.bias.data = bias
        layers += [layer, activation()]
        if name == "conv.2":
            layers.append(nn.Flatten())
    return nn.Sequential(*layers)


def by_torch(network, tensors, x):
    """What the network computes, from its named tensors alone: scores, and values where there are any."""
    convolutions = ["conv.0", "conv.1", "conv.2"] if network.name.startswith("nature") else []
    x = torch.tensor(x) / 255 if x.dtype == np.uint8 else torch.tensor(x)

    def head(top, name):
        return layers_of(tensors, [name], nn.Identity)(top)

    match network.name:
        case "mlp-shared":
            top = layers_of(tensors, ["shared.0", "shared.1"], nn.Tanh)(x)
            return head(top, "policy.2"), head(top, "value.2")[:, 0]
        case "mlp-separate":
            towers = [layers_of(tensors, [f"{t}.0", f"{t}.1"], nn.Tanh)(x) for t in ("policy", "value")]
            return head(towers[0], "policy.2"), head(towers[1], "value.2")[:, 0]
        case "nature-shared":
            top = layers_of(tensors, [*convolutions, "dense.0", "dense.1"], nn.ReLU)(x)
            return head(top, "policy"), head(top, "value")[:, 0]
    dense = "dense" if convolutions else "q"
    gelu = not convolutions and getattr(network, "activation", "relu") == "gelu"
    activation = partial(nn.GELU, approximate="tanh") if gelu else nn.ReLU
    if getattr(network, "dueling", False):
        trunk = layers_of(tensors, [*convolutions, f"{dense}.0"], activation)(x)
        value, advantage = (head(layers_of(tensors, [f"{s}.0"], activation)(trunk), f"{s}.1") for s in ("value", "advantage"))
        return value + advantage - advantage.mean(dim=1, keepdim=True), None
    if network.name in ("mlp-twin", "mlp-deterministic"):
        return head(layers_of(tensors, ["policy.0", "policy.1"], activation)(x), "policy.2"), None
    top = layers_of(tensors, [*convolutions, f"{dense}.0", f"{dense}.1"], activation)(x)
    return head(top, "q" if convolutions else "q.2"), None


@pytest.mark.parametrize(("kind", "options"), EVERY_KIND)
def test_every_kind_computes_what_torchs_layers_do(kind, options):
    network, flat = network_of(kind, options)
    x, blocks = inputs_of(network), network.views(flat)
    with torch.no_grad():
        scores, values = by_torch(network, network.named_tensors(flat), x)
    np.testing.assert_allclose(network.scores(blocks, x), scores.numpy(), rtol=1e-4, atol=1e-5)
    outputs = networks_torch.evaluate(network, {name: torch.tensor(b) for name, b in blocks.items()}, x)
    np.testing.assert_allclose(outputs[0], scores.numpy(), rtol=1e-4, atol=1e-5)
    if values is not None:
        np.testing.assert_allclose(network.values(blocks, x), values.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(outputs[1], values.numpy(), rtol=1e-4, atol=1e-5)
        for got, expected in zip(network.both(blocks, x), (scores, values), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "options"), EVERY_KIND)
def test_every_kind_survives_the_file(kind, options, tmp_path):
    network, flat = network_of(kind, options)
    assert np.array_equal(network.flatten(network.named_tensors(flat)), flat)
    save_policy(tmp_path / "p.safetensors", Policy(network, flat), env="x")
    policy = load_policy(tmp_path / "p.safetensors")
    assert policy.network == network
    assert type(policy.network) is type(network)
    assert np.array_equal(policy.weights, flat)
    x = inputs_of(network)
    assert np.array_equal(policy.greedy(x), network.scores(network.views(flat), x).argmax(axis=1))


@pytest.mark.parametrize("side", [42, 84])
def test_convolutions_have_the_shapes_of_the_paper(side):
    network = make_network("nature-q", (4, side, side), (512,), 6)
    shapes = network.shapes()
    assert [shapes[f"conv.{i}.kernel"] for i in range(3)] == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3)]
    assert shapes["dense.0.kernel"] == ({84: 3136, 42: 64}[side], 512)
    assert shapes["q.kernel"] == (512, 6)
    if side == 84:  # Counted by hand: Mnih et al.'s network with six actions.
        assert network.size == 8224 + 32832 + 36928 + 1606144 + 3078
    x = np.random.default_rng(0).integers(0, 256, (2, 4, side, side), np.uint8)
    assert network.scores(network.views(network.initialise(0)), x).shape == (2, 6)


@pytest.mark.parametrize(("kind", "options"), EVERY_KIND)
def test_initial_weights_repeat_and_begin_small(kind, options):
    network, _ = network_of(kind, options)
    flat = network.initialise(3)
    assert np.array_equal(flat, network.initialise(3))
    assert not np.array_equal(flat, network.initialise(4))
    assert np.isfinite(flat).all()
    for name, block in network.views(flat).items():
        if name.endswith("kernel"):
            assert block.std() > 0
        if kind.endswith("-q") or (kind in ("mlp-twin", "mlp-deterministic") and name != "temperature.log"):
            assert 0 < np.abs(block).max() <= 1
        elif name.endswith("bias"):
            assert not block.any()
    if kind == "nature-shared":
        kernel = network.views(flat)["conv.1.kernel"].reshape(64, -1).astype(np.float64)
        np.testing.assert_allclose(kernel @ kernel.T, 2 * np.eye(64), atol=1e-5)


def test_many_images_go_through_in_pieces(monkeypatch):
    network, flat = network_of("nature-shared")
    x = inputs_of(network, 10)
    whole = network.both(network.views(flat), x)
    monkeypatch.setattr(networks_torch, "ROWS_AT_ONCE", 4)
    for got, expected in zip(network.both(network.views(flat), x), whole, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert network.scores(network.views(flat), x[:0]).shape == (0, 3)


def test_parameters_are_looked_at_in_place():
    network, flat = network_of("nature-q")
    blocks, x = network.views(flat), inputs_of(network)
    before = network.scores(blocks, x)
    blocks["q.bias"] += 1
    np.testing.assert_allclose(network.scores(blocks, x), before + 1, atol=1e-5)
    flat.flags.writeable = False
    np.testing.assert_allclose(network.scores(network.views(flat), x), before + 1, atol=1e-5)


def test_perceptrons_see_images_as_scaled_vectors():
    network = make_network("mlp-shared", IMAGE, (6,), 3)
    flat = network.initialise(0)
    x = np.random.default_rng(0).integers(0, 256, (5, *IMAGE), np.uint8)
    vectors = x.reshape(5, -1) / np.float32(255)
    for got, expected in zip(network.both(network.views(flat), x), network.both(network.views(flat), vectors), strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("features", [4, (4, 4, 30), (4, 42)])
def test_convolutions_of_what_is_no_image_are_refused_in_one_line(features):
    with pytest.raises(ConfigError, match="nature-q sees images"):
        build(NetworkConfig(kind="nature-q"), features, 2)


@pytest.mark.parametrize("kind", ["mlp-separate", "mlp-shared", "nature-shared"])
def test_dueling_is_for_action_values(kind):
    with pytest.raises(ValueError, match="no action values"):
        NetworkConfig(kind=kind, dueling=True)


def test_settings_left_out_are_the_kinds():
    assert NetworkConfig(kind="nature-q") == NetworkConfig(kind="nature-q", hidden=(512,), activation="relu")
    assert NetworkConfig(kind="mlp-shared", hidden=()).hidden == ()


@pytest.mark.parametrize(
    ("kind", "activation", "says"),
    [
        ("mlp-q", "tanh", "has activation 'relu' or 'gelu', not 'tanh'"),
        ("nature-q", "gelu", "has activation 'relu', not 'gelu'"),
        ("mlp-shared", "gelu", "has activation 'tanh', not 'gelu'"),
    ],
)
def test_an_activation_that_a_kind_does_not_have_is_refused_in_one_line(kind, activation, says):
    with pytest.raises(ValueError, match=says) as raised:
        NetworkConfig(kind=kind, activation=activation)
    assert "\n" not in str(raised.value)


def test_a_configurations_activation_reaches_the_network():
    assert build(NetworkConfig(kind="mlp-q", activation="gelu"), 4, 2) == QNetwork(4, (256, 256), 2, activation="gelu")
    assert build(NetworkConfig(kind="mlp-q"), 4, 2).activation == "relu"


def described(path, **changes):
    """Change keys of a policy file's description; None takes one away."""
    with safe_open(path, framework="numpy") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    description = json.loads(metadata["description"]) | changes
    description = {key: value for key, value in description.items() if value is not None}
    save_file(tensors, path, metadata=metadata | {"description": json.dumps(description)})


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_names_no_activation_holds_its_kinds_first(kind, tmp_path):
    network, flat = network_of(kind)
    save_policy(tmp_path / "p.safetensors", Policy(network, flat))
    described(tmp_path / "p.safetensors", activation=None, dueling=None)
    assert load_policy(tmp_path / "p.safetensors").network == network


@pytest.mark.parametrize(("kind", "activation"), [("mlp-q", "tanh"), ("mlp-q", "silu"), ("mlp-separate", "gelu")])
def test_a_file_with_an_unknown_activation_is_refused_in_one_line(kind, activation, tmp_path):
    network, flat = network_of(kind)
    save_policy(tmp_path / "p.safetensors", Policy(network, flat))
    described(tmp_path / "p.safetensors", activation=activation)
    with pytest.raises(ConfigError, match=f"damaged policy: .*{activation}") as raised:
        load_policy(tmp_path / "p.safetensors")
    assert "\n" not in str(raised.value)


def test_a_dueling_networks_values_average_to_the_states():
    network = QNetwork(3, (4,), 5, dueling=True)
    flat = np.random.default_rng(0).normal(size=network.size).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    tensors = network.named_tensors(flat)
    top = np.maximum(x @ tensors["value.0.kernel"] + tensors["value.0.bias"], 0)
    state = top @ tensors["value.1.kernel"] + tensors["value.1.bias"]
    np.testing.assert_allclose(network.scores(network.views(flat), x).mean(axis=1), state[:, 0], rtol=1e-4, atol=1e-5)


def test_perceptrons_do_not_bring_torch_in():
    """Actors that do not need it start without it."""
    code = """if True:
    import sys
    from tianji.worlds import sampler
    from tianji.algorithms import algorithm
    from tianji.config import TrainConfig
    from tianji.environments.description import EnvDescription
    algorithm.make_algorithm(TrainConfig(env="x"), EnvDescription("x", (4,), "<f4", 0, 2))
    print("torch" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_images_are_trained_on(algo):
    """A round on 42 x 42 images that tell, by their brightness, which action is rewarded."""
    describe = EnvDescription("x", (42, 42), "|u1", 0, 2, stack=2, pixels="hw")
    config = TrainConfig(
        env="x",
        algo=algo,
        network=NetworkConfig(kind="nature-shared", hidden=(16,)),
        ppo=PPOConfig(minibatch_size=16, epochs=2, learning_rate=1e-3),
    )
    chosen, rng = algorithm.make_algorithm(config, describe), np.random.default_rng(0)
    steps, environments = 8, 4
    chunk = {
        "observation": rng.integers(0, 256, (steps + 2, environments, 42, 42), np.uint8),
        "age": np.zeros(environments, np.uint8),
        "action": rng.integers(0, 2, (steps, environments)),
        "reward": rng.normal(size=(steps, environments)).astype(np.float32),
        "terminated": np.zeros((steps, environments), bool),
        "truncated": rng.random((steps, environments)) < 0.2,
        "log_probability": np.full((steps, environments), np.log(0.5), np.float32),
        "final_observation": rng.integers(0, 256, (steps * environments, 42, 42), np.uint8),
    }
    before = chosen.updater.weights().copy()
    batch = chosen.prepare([chunk])
    assert isinstance(batch, Rollouts)
    assert batch.features.dtype == np.uint8
    assert batch.features.shape == (32, 2, 42, 42)
    assert chosen.update([chunk], 0) == {"ppo": 4, "impala": 1}[algo]
    assert chosen.update([chunk], 32, stale=True) == {"ppo": 4, "impala": 1}[algo]
    moved = {name for name, block in chosen.updater.network.views(chosen.updater.weights() - before).items() if block.any()}
    assert moved == set(chosen.updater.network.shapes())
