"""ONNX Runtime acts as the policy that was exported."""

import numpy as np
import pytest

from tianji import TrainConfig, train
from tianji.__main__ import main
from tianji.environments.making import describe
from tianji.policy import load_policy
from tianji.settings import convert

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.filterwarnings("ignore")

SB3 = "stable_baselines3.common.envs"
CASES = {
    "cartpole": {"env": "CartPole-v1"},
    "values": {"env": "CartPole-v1", "algo": "dqn", "dqn": {"learning_starts": 16, "train_every_steps": 16}},
    "dueling": {
        "env": "CartPole-v1", "algo": "dqn", "dqn": {"learning_starts": 16, "train_every_steps": 16},
        "network": {"dueling": True, "activation": "gelu"},
    },
    "normalised": {"env": "Pendulum-v1", "normalise": {"observations": True}},
    "squashed": {"env": "Pendulum-v1", "actions": {"bounds": "squash"}},
    "state": {"env": "Pendulum-v1", "actions": {"exploration": "state"}},
    "soft": {"env": "Pendulum-v1", "algo": "sac", "sac": {"learning_starts": 16, "train_every_steps": 16}},
    "deterministic": {"env": "Pendulum-v1", "algo": "td3", "td3": {"learning_starts": 16, "train_every_steps": 16}},
    "choices": {"env": f"{SB3}:IdentityEnvMultiDiscrete"},
    "bits": {"env": f"{SB3}:IdentityEnvMultiBinary"},
    "pictures": {"env": f"{SB3}:FakeImageEnv", "environment": {"args": {"screen_height": 40, "screen_width": 40}}},
    "pictures and a vector": {"env": f"{SB3}:SimpleMultiObsEnv"},
}  # fmt: skip


QUICK = ("normalised",)
SLOW = pytest.mark.long(why="torch exports a graph for each of many networks")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=SLOW) for name in CASES])
def test_it_acts_alike(name, tmp_path, capsys):
    usual = {"world": "lockstep", "actors": 1, "envs_per_actor": 2, "stop_steps": 64}
    ppo = {} if "algo" in CASES[name] else {"ppo": {"rollout_steps": 16, "learning_rate": 0.05}}
    config = convert(usual | ppo | CASES[name], TrainConfig, "test")
    result = train(config, out=tmp_path / "run")
    file = tmp_path / "policy.onnx"
    assert main(["export", str(tmp_path / "run"), "--onnx", str(file), "--trust"]) == 0
    assert "to the greedy action" in capsys.readouterr().out
    policy, rng = load_policy(tmp_path / "run" / "policy.safetensors"), np.random.default_rng(0)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    seen = describe(config.env, settings=config.environment)
    for rows in (1, 2, 7):
        if isinstance(seen.features, int):
            features = rng.normal(size=(rows, seen.features)).astype(np.float32)
        elif seen.branches is not None:
            vector = rng.normal(size=(rows, seen.branches.vector)).astype(np.float32).view(np.uint8)
            rest = rng.integers(0, 256, (rows, seen.branches.size_bytes - vector.shape[1]), np.uint8)
            features = np.concatenate([vector, rest], axis=1)
        else:
            features = rng.integers(0, 256, (rows, *seen.features), np.uint8)
        given = {"features": features}
        if seen.branches is not None:
            vector, images = seen.branches.split(features)
            given = {"vector": np.ascontiguousarray(vector).view(np.float32)} | {f"picture{i}": x for i, x in enumerate(images)}
        assert {node.name for node in session.get_inputs()} == set(given)
        (found,) = session.run(None, given)
        wanted = np.stack([np.asarray(one) for one in policy.network.actions.given(policy.greedy(features))])
        np.testing.assert_allclose(found.reshape(rows, -1), wanted.reshape(rows, -1), rtol=1e-4, atol=1e-5)
    assert result.steps == 64


def test_files_are_not_overwritten(tmp_path, capsys):
    file = tmp_path / "there.onnx"
    file.touch()
    from programs.cli import ConfigError

    with pytest.raises(ConfigError, match="exists; name a new file"):
        main(["export", str(tmp_path), "--onnx", str(file)])
