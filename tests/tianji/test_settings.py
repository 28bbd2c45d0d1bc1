"""Settings: their limits, their defaults, and what is wrong with them."""

import msgspec
import pytest

from programs import cores
from programs.cli import ConfigError
from tianji.__main__ import parser
from tianji.commands.settings import settings as settings_of
from tianji.config import AtariConfig, NetworkConfig, TrainConfig
from tianji.disciplines.registry import DISCIPLINES
from tianji.settings import Constraint, constraint, convert
from tianji.worlds.threads import learner_threads


@pytest.mark.parametrize(
    ("settings", "name", "told"),
    [
        (TrainConfig, "device", Constraint(str, ("cpu", "cuda"), "")),
        (TrainConfig, "groups", Constraint(int, (), "at least 1")),
        (TrainConfig, "stop_seconds", Constraint(float, (), "above 0")),
        (TrainConfig, "stop_return", Constraint(float, (), "")),
        (TrainConfig, "ray_address", Constraint(str, (), "")),
        (AtariConfig, "stack", Constraint(int, (), "at least 1, at most 16")),
    ],
)
def test_limits_of_a_setting(settings, name, told):
    assert constraint(settings, name) == told


@pytest.mark.parametrize(("stack", "fits"), [(1, True), (16, True), (0, False), (17, False)])
def test_limits_that_are_told_are_those_that_are_checked(stack, fits):
    if fits:
        assert convert({"stack": stack}, AtariConfig, "atari").stack == stack
    else:
        with pytest.raises(ConfigError):
            convert({"stack": stack}, AtariConfig, "atari")


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"network.kind": "auto", "horizon_steps": 1_000_000, "chunk_slots": 4}),
        ({"algo": "dqn"}, {"network.kind": "auto", "actors": 1, "envs_per_actor": 1}),
        ({"algo": "dqn", "env": "ALE/Pong-v5"}, {"network.kind": "nature-q"}),
        ({"network": {"hidden": [8]}, "algo": "dqn"}, {"network.kind": "auto", "network.hidden": [8]}),
        ({"stop_steps": 5000}, {"horizon_steps": 5000}),
        ({"discipline": "free", "actors": 2}, {"chunk_slots": 5, "envs_per_actor": 4}),
        ({"actors": 4}, {"envs_per_actor": 2}),
    ],
)
def test_python_and_the_command_line_have_the_same_defaults(given, filled):
    """From Python, DQN was refused with PPO's network, and a linear rate was 0 for most of a long run."""
    data = {"env": "CartPole-v1", **given}
    words = ["train", "--env", data["env"]]
    for name, value in given.items():
        pairs = value.items() if isinstance(value, dict) else [("", value)]
        for key, part in pairs if name != "env" else ():
            words += ["--set", f"{name}{'.' * bool(key)}{key}={part}"]
    by_command = settings_of(parser().parse_args(words))
    network = {"network": NetworkConfig(**{key: tuple(value) for key, value in given.get("network", {}).items()})}
    by_python = TrainConfig(**data | (network if "network" in given else {}))
    assert by_command == by_python
    plain = msgspec.to_builtins(by_python)
    for key, value in filled.items():
        section, _, name = key.rpartition(".")
        found = (plain[section] if section else plain)[name]
        assert (list(found) if isinstance(found, tuple) else found) == value, key


def test_cores_are_counted_under_a_quota(monkeypatch):
    monkeypatch.setattr(cores, "usable", lambda: 1.5)
    assert (TrainConfig(env="x").actors, TrainConfig(env="x").envs_per_actor) == (1, 8)
    assert learner_threads(TrainConfig(env="x"), 4, actors=0, learners=1) == 1
    monkeypatch.setattr(cores, "usable", lambda: 5.0)
    assert TrainConfig(env="x").actors == 5
    assert learner_threads(TrainConfig(env="x"), 4, actors=1, learners=1) == 4


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"env": 7}, TypeError, "env is of type int: give a registered id, module:name, or a class or a function"),
        ({"env": "x", "actors": "3"}, ValueError, "actors: Expected `int`, got `str`"),
        ({"env": "x", "actors": 0}, ValueError, "actors: Expected `int` >= 1"),
        ({"env": "x", "world": "dream"}, ValueError, "world: Invalid enum value 'dream'"),
    ],
)
def test_what_python_gives_is_checked_like_what_a_file_gives(given, error, says):
    with pytest.raises(error, match=says):
        TrainConfig(**given)


def test_only_slots_that_were_asked_for_are_refused():
    with pytest.raises(ConfigError, match="chunk_slots 4: under discipline 'free' an actor needs 5 slots"):
        TrainConfig(env="CartPole-v1", discipline="free", actors=2, chunk_slots=4).rule.check()
    for name in DISCIPLINES.names():
        for algo in ("ppo", "dqn", "impala", "sac", "td3"):
            told = ""
            try:
                config = TrainConfig(env="CartPole-v1", algo=algo, discipline=name, actors=2, envs_per_actor=4)
                config.rule.check()
            except (ConfigError, ValueError) as refused:
                told = str(refused)
            assert "chunk_slots" not in told, (name, algo)
