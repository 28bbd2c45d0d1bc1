"""A training configuration small enough for tests, and real."""

import sys
import textwrap

import pytest

from tianji.config import PPOConfig, TrainConfig


@pytest.fixture
def small():
    def make(**more):
        ppo = PPOConfig(rollout_steps=16, minibatch_size=32, epochs=2, learning_rate=1e-3, learning_rate_schedule="linear")
        defaults = {
            "env": "CartPole-v1",
            "ppo": ppo,
            "actors": 2,
            "envs_per_actor": 4,
            "stop_steps": 2048,
            "snapshot_every_steps": 512,
        }
        return TrainConfig(**{**defaults, **more})

    return make


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a user's own module into a temporary folder on the import path. Its imports are undone after the test."""
    before = set(sys.modules)
    # A copy: the current folder is put on it too.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def write(source, name="my_module"):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
