"""A training configuration small enough for tests, and real."""

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
