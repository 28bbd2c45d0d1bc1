"""Whole runs of SAC and TD3, whose actors get a part of the weights."""

import msgspec
import numpy as np
import pytest

from tianji.config import NetworkConfig, SACConfig, TD3Config, TrainConfig
from tianji.messages import Done, Report, Snapshot
from tianji.run.play import Player
from tianji.run.training import check, train
from tianji.topology import acting_parameters, parameters
from tianji.worlds import lockstep

SETTINGS = {"train_every_steps": 16, "updates": 4, "batch_size": 16, "learning_starts": 64, "replay_capacity": 2000}


def sac(**more):
    defaults = {
        "env": "Pendulum-v1",
        "algo": "sac",
        "network": NetworkConfig(kind="mlp-twin", hidden=(16, 16)),
        "sac": SACConfig(**SETTINGS),
        "stop_steps": 768,
        "snapshot_every_steps": 256,
    }
    return TrainConfig(**{**defaults, **more})


def td3(**more):
    network = NetworkConfig(kind="mlp-deterministic", hidden=(16, 16))
    return sac(**{"algo": "td3", "network": network, "td3": TD3Config(**SETTINGS), **more})


def run(config):
    """Snapshots and reports of a run in lockstep."""
    snapshots, reports, done = [], {}, []

    def on_message(message):
        match message:
            case Snapshot():
                snapshots.append((message.version, message.steps, message.weights))
            case Report():
                reports[message.role] = message
            case Done():
                done.append(message)
                return "steps" if len(done) == config.groups else None
        return None

    lockstep.run(config, check(config), on_message)
    return snapshots, reports


@pytest.mark.parametrize("discipline", ["relaxed", "reactor", "free"])
@pytest.mark.parametrize("make", [sac, td3])
def test_runs_in_lockstep_repeat_to_the_last_bit(make, discipline):
    config = make(discipline=discipline)
    (first, reports), (second, _) = run(config), run(config)
    assert first == second
    assert len(first) >= 3
    assert first[0][2] != first[-1][2]
    learner = reports["learner g0"].counters
    # Rounds of 4 updates for 16 steps, but none for the first 64.
    assert abs(learner["optimizer_steps"] - (768 - 64) // 16 * 4) <= 8


def test_a_root_and_groups_exchange_all_weights_and_actors_get_the_policy():
    config = sac()
    alone, (with_root, reports) = run(config)[0], run(msgspec.structs.replace(config, root=True))
    assert alone == with_root
    assert reports["learner g0"].counters["means_adopted"] > 5
    snapshots, _ = run(sac(groups=2))
    network = sum(np.frombuffer(snapshots[-1][2], "<f4").shape)
    description = check(config)
    assert network == parameters(config, description)
    assert acting_parameters(config, description) == 3 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2 < network / 2


@pytest.mark.parametrize("channel", ["shm", "ipc"])
def test_processes_train_with_it(channel):
    result = train(sac(channel=channel, actors=2, envs_per_actor=1), lambda message: None)
    assert result.outcome == "steps"
    assert result.version > 10


TARGET = """
    import gymnasium as gym
    import numpy as np


    class Target(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gym.spaces.Box(np.array([-1, -3], np.float32), np.array([1, 5], np.float32))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._state = self.np_random.uniform(-0.8, 0.8, 2).astype(np.float32)
            return self._state, {}

        def step(self, action):
            scaled = (action - np.array([0, 1])) / np.array([1, 4])
            return self._state, -float(np.square(scaled - self._state).sum()), True, False, {}
"""


@pytest.mark.long(why="some thousand updates")
@pytest.mark.parametrize("updater", ["numpy", "torch"])
@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_it_learns_to_do_what_it_sees(own, algo, updater):
    """The best action is the observation, stretched to bounds that are not symmetric; a uniform one costs 1.1 a step."""
    env = f"{own(TARGET)}:Target"
    settings = {**SETTINGS, "updates": 16, "batch_size": 64, "learning_rate": 3e-3}
    config = (sac if algo == "sac" else td3)(
        env=env,
        updater=updater,
        world="lockstep",
        network=NetworkConfig(kind="mlp-twin" if algo == "sac" else "mlp-deterministic", hidden=(32, 32)),
        sac=SACConfig(**settings),
        td3=TD3Config(**settings),
        stop_steps=3000,
        snapshot_every_steps=3000,
    )
    policies = []
    train(config, lambda message: policies.append(message) if isinstance(message, Snapshot) else None)
    from tianji.algorithms import networks
    from tianji.policy import Policy

    policy = Policy(networks.of(config, check(config)), np.frombuffer(policies[-1].weights, "<f4").copy())
    player = Player(env, 50)
    returns = player.play(policy, range(50))
    player.close()
    assert returns.mean() > -0.02
