"""What a forward pass takes, and the cores that follow from it."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from programs import cores
from tianji import AtariConfig, DQNConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.division import actors_by_need, sampling_share, threads_by_need
from tianji.environments.description import Branches
from tianji.trunks import convolutions, forward_flop, layers
from tianji.worlds.threads import learner_threads

PICTURE = (4, 84, 84)
PONG = {"env": "ALE/Pong-v5", "ppo": PPOConfig(epochs=4)}


@pytest.mark.parametrize("side", [84, 42, 20, 10])
def test_operations_and_shapes_are_those_that_torch_counts(side):
    picture, below, steps = (4, side, side), 4, []
    for channels, kernel, stride in convolutions(picture):
        steps.append(torch.nn.Conv2d(below, channels, kernel, stride))
        below = channels
    modules = torch.nn.Sequential(*steps, torch.nn.Flatten(), torch.nn.LazyLinear(512))
    modules(torch.zeros(1, *picture))
    with FlopCounterMode(display=False) as counter:
        modules(torch.zeros(1, *picture))
    assert forward_flop([picture], (512,)) == counter.get_total_flops()
    assert [kernel for _, kernel in layers(picture)] == [tuple(step.weight.shape) for step in steps]


def test_several_pictures_and_a_vector_add_up():
    one = forward_flop([PICTURE], ())
    assert forward_flop([PICTURE, PICTURE], ()) == 2 * one
    inputs = 64 * 7 * 7
    assert forward_flop([PICTURE], (512, 16), vector=3) == one + 2 * ((inputs + 3) * 512 + 512 * 16)


def test_the_share_of_sampling_falls_with_the_work_of_learning():
    assert sampling_share(1e6, 0.0) == 1.0
    shares = [sampling_share(flop, 4) for flop in (1e5, 1e6, 1e7, 1e8)]
    assert shares == sorted(shares, reverse=True)
    # 40 + 10 of sampling, 4 x 30 of learning.
    assert sampling_share(10e6, 4) == pytest.approx(50 / 170)


@pytest.mark.parametrize(
    ("share", "usable", "environments", "actors"),
    [
        (0.2, 2.0, 8, 1),
        (0.6, 2.0, 8, 2),
        (1.0, 5.0, 8, 5),
        (0.3, 8.0, 8, 4),
        (0.2, 0.5, 8, 1),
        (1.0, 4.0, 1, 1),
        (0.5, 16.0, 8, 8),
    ],
)
def test_actors_are_enough_and_divide_the_environments(share, usable, environments, actors):
    assert actors_by_need(share, usable, environments) == actors


@pytest.mark.parametrize(("share", "usable", "threads"), [(0.2, 2.0, 2), (0.6, 2.0, 1), (0.25, 8.0, 6), (0.9, 0.5, 1)])
def test_threads_are_enough_for_learning(share, usable, threads):
    assert threads_by_need(share, usable) == threads


@pytest.mark.parametrize(
    ("settings", "actors", "threads"),
    [
        ({"discipline": "relaxed"}, 1, 2),
        ({"discipline": "relaxed", "atari": AtariConfig(screen=42)}, 2, 1),
        ({"discipline": {"name": "relaxed"}}, 1, 2),
        # Actors wait for the learner, so that both may have all cores.
        ({}, 2, 2),
        ({"atari": AtariConfig(screen=42)}, 2, 2),
        ({"discipline": "auto"}, 2, 2),
        ({"algo": "dqn", "dqn": DQNConfig(train_every_steps=4, updates=1, batch_size=32)}, 1, 1),
        ({"algo": "impala"}, 2, 1),
        # What the user says stands.
        ({"discipline": "relaxed", "actors": 2, "learner_threads": 1}, 2, 1),
        # A GPU learns beside all cores.
        ({"discipline": "relaxed", "device": "cuda"}, 2, 1),
    ],
)
def test_a_game_on_two_cores_has_what_it_needs(monkeypatch, settings, actors, threads):
    monkeypatch.setattr(cores, "usable", lambda: 2.0)
    config = TrainConfig(**PONG | settings)
    side = config.atari.screen
    assert config.actors == actors
    assert config.actors * config.envs_per_actor == (1 if config.algo == "dqn" else 8)
    assert learner_threads(config, (4, side, side), actors, 1) == threads


def test_learners_of_one_host_share_its_cores():
    config = TrainConfig(**PONG, groups=2, actors=1)
    assert learner_threads(config, PICTURE, 2, 2, usable=8.0) == 4
    assert learner_threads(config, PICTURE, 2, 4, usable=2.0) == 1
    relaxed = TrainConfig(**PONG, groups=2, actors=1, discipline="relaxed")
    assert learner_threads(relaxed, PICTURE, 2, 2, usable=8.0) == 4
    assert learner_threads(relaxed, Branches(3, (PICTURE,)), 2, 2, usable=8.0) == 4


def test_a_network_of_the_users_has_what_actors_leave_free():
    network = NetworkConfig(factory="mine:make")
    config = TrainConfig(env="ALE/Pong-v5", discipline="relaxed", actors=3, network=network)
    assert learner_threads(config, PICTURE, 3, 1, usable=8.0) == 5
    assert config.sampling_share is None
