"""Users' own environments and networks, trained from a folder of theirs in separate processes."""

import json

import pytest
from elsewhere import run_in

CORRIDOR = """
import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    '''Six fields; the way out is on the right.'''

    observation_space = gym.spaces.Discrete(6)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = int(self.np_random.integers(3)), 0
        return self.at, {}

    def step(self, action):
        self.at = max(0, self.at + 2 * int(action) - 1)
        self.steps += 1
        return self.at, float(self.at == 5) - 0.1, self.at == 5, self.steps == 30, {}
"""
NETWORK = """
from torch import nn


class Small(nn.Module):
    def __init__(self, features, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 32), nn.LayerNorm(32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, actions), nn.Linear(32, 1)

    def forward(self, x):
        top = self.body(x)
        return self.policy(top), self.value(top)
"""
SHORT = ["--actors", "2", "--envs-per-actor", "2", "--stop-steps", "2048", "--set", "ppo.rollout_steps=32"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_envs.py").write_text(CORRIDOR)
    (tmp_path / "my_networks.py").write_text(NETWORK)
    return tmp_path


@pytest.mark.long(why="whole runs of real processes")
@pytest.mark.parametrize("world", ["real", "lockstep"])
def test_an_environment_of_ones_own_is_trained_and_evaluated(folder, world):
    train = ["train", "--env", "my_envs:Corridor", "--world", world, "--out", "run", *SHORT]
    assert "2,048 steps" in run_in(folder, "-m", "tianji", *train)
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["config"]["env"] == "my_envs:Corridor"
    assert result["episodes"] > 60
    said = run_in(folder, "-m", "tianji", "evaluate", "run/policy.safetensors", "--env", "my_envs:Corridor", "--episodes", "4")
    # Two thousand steps do: it walks straight out, whose reward is 1 - .1 for each of 3 to 5 steps.
    assert "over 4 episodes" in said
    mean = float(said.split()[2])
    assert 0.5 <= mean <= 0.7


def test_a_file_of_settings_may_name_it(folder):
    (folder / "run.toml").write_text(
        'env = "my_envs:Corridor"\nworld = "lockstep"\nstop_steps = 512\n[ppo]\nrollout_steps = 8\n'
    )
    assert "ppo on my_envs:Corridor" in run_in(folder, "-m", "tianji", "train", "--config", "run.toml", "--actors", "1")


def test_the_command_finds_it_where_the_user_stands(folder):
    """As installed: the first entry of the path is the folder of the command."""
    (folder / "bin").mkdir()
    (folder / "bin" / "tianji_command").write_text("import sys\nfrom tianji.__main__ import console\nsys.exit(console())\n")
    assert "2,048 steps" in run_in(folder, "bin/tianji_command", "train", "--env", "my_envs:Corridor", *SHORT)


def test_processes_find_what_lies_beside_a_script_that_is_run_from_elsewhere(folder, tmp_path_factory):
    (folder / "script.py").write_text(
        "from tianji.config import PPOConfig, TrainConfig\nfrom tianji.run.training import train\n"
        "config = TrainConfig(env='my_envs:Corridor', stop_steps=512, ppo=PPOConfig(rollout_steps=16))\n"
        "print(train(config).steps)\n"
    )
    assert run_in(tmp_path_factory.mktemp("elsewhere"), str(folder / "script.py")).strip() == "512"


@pytest.mark.long(why="whole runs of real processes")
def test_a_network_of_ones_own_is_trained_in_processes_of_its_own_and_evaluated(folder):
    network = ["--set", "network.factory=my_networks:Small"]
    run_in(folder, "-m", "tianji", "train", "--env", "my_envs:Corridor", *network, "--out", "run", *SHORT)
    assert json.loads((folder / "run" / "result.json").read_text())["config"]["network"]["factory"] == "my_networks:Small"
    policy = ["run/policy.safetensors", "--env", "my_envs:Corridor", "--episodes", "4"]
    said = run_in(folder, "-m", "tianji", "evaluate", *policy, "--network", "my_networks:Small")
    assert 0.5 <= float(said.split()[2]) <= 0.7
