"""Stored and restored algorithms continue exactly like uninterrupted ones, bit for bit."""

import json

import msgspec
import numpy as np
import pytest

from tianji.algorithms import algorithm, networks, updaters
from tianji.algorithms.replay import Experience
from tianji.algorithms.rollouts import Rollouts
from tianji.algorithms.state import State
from tianji.config import DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.environments.making import describe
from tianji.layout import rollout_layout
from tianji.run_folder import read_state, write_state

CARTPOLE = describe("CartPole-v1")


def chunks(rng, count, steps=16, environments=4, behaviour=True):
    layout = rollout_layout(steps, environments, CARTPOLE.observation_shape, CARTPOLE.observation_dtype, behaviour=behaviour)
    made = []
    for _ in range(count):
        views = layout.views(memoryview(bytearray(layout.capacity_bytes)))
        views["observation"][:] = rng.normal(size=views["observation"].shape)
        views["action"][:] = rng.integers(0, 2, views["action"].shape)
        views["reward"][:] = 1
        views["terminated"][:] = rng.random(views["terminated"].shape) < 0.1
        if behaviour:
            views["log_probability"][:] = np.log(0.5)
        made.append(views)
    return made


def config(algo, updater):
    return TrainConfig(
        env="CartPole-v1",
        algo=algo,
        updater=updater,
        actors=1,
        envs_per_actor=4,
        network=NetworkConfig(kind="mlp-q" if algo == "dqn" else "mlp-separate", hidden=(8,)),
        ppo=PPOConfig(rollout_steps=16, minibatch_size=16, epochs=2),
        impala=IMPALAConfig(rollout_steps=16),
        dqn=DQNConfig(train_every_steps=64, updates=4, batch_size=8, learning_starts=64, replay_capacity=512),
    )


def step(algo, views, number):
    if algo.replays:
        algo.insert([Experience(views, 0, number)])
        return algo.train(64 * (number + 1))
    return algo.update([views], 64 * number)


@pytest.mark.parametrize("updater", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["ppo", "impala", "dqn"])
def test_it_goes_on_to_the_last_bit(name, updater, tmp_path):
    rounds = chunks(np.random.default_rng(0), 8, behaviour=name != "dqn")
    first = algorithm.make_algorithm(config(name, updater), CARTPOLE)
    for number in range(4):
        step(first, rounds[number], number)
    state = first.state()
    write_state(tmp_path / "state", State(state.arrays, state.values))
    second = algorithm.make_algorithm(config(name, updater), CARTPOLE)
    assert not np.array_equal(second.updater.weights(), first.updater.weights())
    second.restore(read_state(tmp_path / "state"))
    assert np.array_equal(second.updater.weights(), first.updater.weights())
    if name == "dqn":
        # A successor's actors begin anew: so does what they send, in either.
        first.replay._sequence.clear()
    for number in range(4, 8):
        assert step(first, rounds[number], number) == step(second, rounds[number], number) > 0
        assert np.array_equal(second.updater.weights(), first.updater.weights())


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_either_updater_goes_on_where_the_other_was(name, tmp_path):
    rounds = chunks(np.random.default_rng(1), 6, behaviour=name != "dqn")
    numpy, torch = (algorithm.make_algorithm(config(name, updater), CARTPOLE) for updater in ("numpy", "torch"))
    for number in range(3):
        step(numpy, rounds[number], number)
    torch.restore(State({k: v.copy() for k, v in numpy.state().arrays.items()}, json.loads(json.dumps(numpy.state().values))))
    if name == "dqn":
        numpy.replay._sequence.clear()
    for number in range(3, 6):
        step(numpy, rounds[number], number)
        step(torch, rounds[number], number)
    assert np.allclose(torch.updater.weights(), numpy.updater.weights(), atol=1e-6)


def test_without_its_replay_it_waits_for_a_new_one():
    rounds = chunks(np.random.default_rng(2), 2, behaviour=False)
    first = algorithm.make_algorithm(config("dqn", "numpy"), CARTPOLE)
    assert step(first, rounds[0], 0) > 0
    state = first.state(replay=False)
    assert not any(name.startswith("replay.") for name in state.arrays)
    second = algorithm.make_algorithm(config("dqn", "numpy"), CARTPOLE)
    second.restore(state)
    assert second.replay.size == 0
    assert second.train(128) == 0
    assert step(second, rounds[1], 0) > 0


def test_a_replay_of_other_sizes_is_refused():
    first = algorithm.make_algorithm(config("dqn", "numpy"), CARTPOLE)
    for number, views in enumerate(chunks(np.random.default_rng(3), 4, behaviour=False)):
        step(first, views, number)
    smaller = DQNConfig(train_every_steps=64, updates=4, batch_size=8, learning_starts=64, replay_capacity=128)
    for change in ({"actors": 2}, {"dqn": smaller}):
        other = msgspec.structs.replace(config("dqn", "numpy"), **change)
        with pytest.raises(ValueError, match="replay"):
            algorithm.make_algorithm(other, CARTPOLE).restore(first.state())


@pytest.mark.parametrize("updater", ["numpy", "torch"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_gradient_that_is_no_number_is_noticed_for_good(updater, bad):
    """Also where clipping makes zeros of it, and the weights stay what they were."""
    network = networks.make_network("mlp-separate", 4, (8,), 2)
    config = TrainConfig(env="x", updater=updater)
    made = updaters.make_updater(config, network, network.initialise(0))
    rows = {
        "features": np.ones((4, 4), np.float32),
        "action": np.zeros(4, np.int64),
        "log_probability": np.zeros(4, np.float32),
    }
    good = Rollouts(**rows, advantage=np.ones(4, np.float32), value_target=np.ones(4, np.float32))
    made.step(good, 1e-3)
    assert made.sound()
    with np.errstate(all="ignore"):
        made.step(Rollouts(**rows, advantage=np.ones(4, np.float32), value_target=np.full(4, bad, np.float32)), 1e-3)
    assert not made.sound()
    with np.errstate(all="ignore"):
        made.step(good, 1e-3)
    assert not made.sound()
