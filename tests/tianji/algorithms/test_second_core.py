"""The helper changes who computes, and when, but no bit of what comes out."""

import threading

import numpy as np
import pytest

from programs import cores
from tianji.algorithms import dqn_numpy, ppo_numpy, updaters
from tianji.algorithms.dqn import DQN, Regression
from tianji.algorithms.networks import ActorCritic, QNetwork
from tianji.algorithms.replay import Experience
from tianji.algorithms.rollouts import Rollouts
from tianji.algorithms.second_core import Helper, Later
from tianji.config import DQNConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)
DEADLINE_S = 30


class Counting(Helper):
    """Helper that counts what it is given."""

    given = 0

    def do(self, work):
        self.given += 1
        return super().do(work)


def name():
    return threading.current_thread().name


def busy(helper):
    """Keep a helper busy until the event that this returns is set."""
    begun, end = threading.Event(), threading.Event()

    def work():
        begun.set()
        return end.wait(DEADLINE_S)

    occupied = helper.do(work)
    assert begun.wait(DEADLINE_S)
    return end, occupied


def test_another_thread_computes_what_is_asked_for_later():
    done = threading.Event()

    def work():
        done.set()
        return name()

    later = Helper().do(work)
    assert done.wait(DEADLINE_S)
    assert later.result() == "helper"


def test_who_asks_computes_what_a_busy_helper_has_not_begun():
    helper = Helper()
    end, occupied = busy(helper)
    calls = []
    later = helper.do(lambda: calls.append(name()))
    later.result()
    assert calls == [name()]
    end.set()
    assert occupied.result(), "what it had begun is waited for"
    after = helper.do(lambda: calls.append("after"))
    after.result()
    assert calls == [name(), "after"], "the helper does not compute it again"


def test_without_a_helper_it_is_computed_when_it_is_asked_for():
    calls = []
    later = Later(lambda: calls.append(name()))
    assert not calls
    later.result()
    assert calls == [name()]


@pytest.mark.parametrize("somebody_else", [True, False])
def test_an_error_reaches_who_asks(somebody_else):
    def wrong():
        failed.set()
        raise ValueError("no such product")

    helper, failed = Helper(), threading.Event()
    later = helper.do(wrong) if somebody_else else Later(wrong)
    if somebody_else:
        assert failed.wait(DEADLINE_S)
    with pytest.raises(ValueError, match="no such product"):
        later.result()
    assert helper.do(name).result() in ("helper", name()), "it goes on"


def rollouts(rng, rows):
    columns = (rng.normal(size=(4, rows)) * 0.5 - 0.5).astype(np.float32)
    return Rollouts(rng.normal(size=(rows, 4)).astype(np.float32), rng.integers(0, 2, rows), *columns)


def regression(rng, rows):
    features = rng.normal(size=(rows, 4)).astype(np.float32)
    return Regression(features, rng.integers(0, 2, rows), rng.normal(size=rows).astype(np.float32))


@pytest.mark.parametrize(
    ("kind", "network", "config", "batch"),
    [
        (ppo_numpy.NumpyUpdater, ActorCritic(4, (192, 192, 192), 2), PPOConfig(), rollouts),
        (dqn_numpy.NumpyUpdater, QNetwork(4, (256, 256, 256), 2), DQNConfig(), regression),
        (dqn_numpy.NumpyUpdater, QNetwork(4, (256, 256), 2, dueling=True), DQNConfig(), regression),
        (dqn_numpy.NumpyUpdater, QNetwork(4, (256, 256), 2, activation="gelu"), DQNConfig(), regression),
    ],
)
def test_steps_have_the_same_bits_with_and_without_it(kind, network, config, batch):
    rng, helper = np.random.default_rng(0), Counting()
    alone, helped = (kind(network, config, network.initialise(0), one) for one in (None, helper))
    for _ in range(20):
        minibatch = batch(rng, 256)
        alone.step(minibatch, 1e-3)
        helped.step(minibatch, 1e-3)
        assert np.array_equal(alone.weights(), helped.weights())
    assert helper.given


def experience(rng, sequence, steps=40, environments=8):
    shape = steps, environments
    views = {
        "observation": rng.normal(size=(steps + 1, environments, 4)).astype(np.float32),
        "action": rng.integers(0, 2, shape),
        "reward": rng.normal(size=shape).astype(np.float32),
        "terminated": rng.random(shape) < 0.05,
        "truncated": np.zeros(shape, bool),
        "final_observation": np.zeros((0, 4), np.float32),
    }
    return Experience(views, 0, sequence)


@pytest.mark.long(why="a network learns")
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("batch", [64, 48, 200])
@pytest.mark.parametrize("occupied", [False, True])
def test_rounds_have_the_same_bits_with_and_without_it(double, batch, occupied):
    config = DQNConfig(batch_size=batch, updates=7, learning_starts=100, target_every_steps=640, double=double)
    network, helper = QNetwork(4, (256, 256), 2), Counting()
    algorithms = [
        DQN(dqn_numpy.NumpyUpdater(network, config, network.initialise(0), one), CARTPOLE, config, 8, seed=0)
        for one in (None, helper)
    ]
    end = busy(helper)[0] if occupied else threading.Event()
    rng = np.random.default_rng(1)
    for round_ in range(3):
        chunk = experience(rng, round_)
        for algorithm in algorithms:
            algorithm.insert([chunk])
            assert algorithm.train(320 * (round_ + 1)) == 7
    end.set()
    alone, helped = (a.updater.weights() for a in algorithms)
    assert np.array_equal(alone, helped)
    # Products of 200 rows are worth a hand-over, and so are targets of several minibatches. Double DQN's come one by one.
    assert (helper.given - occupied > 0) == (batch == 200 or not double)


def test_a_small_network_is_left_to_one_thread():
    config = DQNConfig(batch_size=64, updates=11, learning_starts=100)
    network, helper = QNetwork(4, (32, 32), 2), Counting()
    algorithm = DQN(dqn_numpy.NumpyUpdater(network, config, network.initialise(0), helper), CARTPOLE, config, 8, seed=0)
    algorithm.insert([experience(np.random.default_rng(1), 0)])
    assert algorithm.train(320) == 11
    assert not helper.given


@pytest.mark.parametrize(
    ("threads", "usable", "helped"),
    [(None, 2.0, True), (None, 1.5, False), (None, 0.2, False), (1, 8.0, False), (2, 8.0, True)],
)
def test_a_learner_has_one_where_a_second_core_may_be_used(monkeypatch, threads, usable, helped):
    monkeypatch.setattr(cores, "usable", lambda: usable)
    config = TrainConfig(env="CartPole-v1", algo="dqn", network=NetworkConfig(kind="mlp-q"), learner_threads=threads)
    network = QNetwork(4, (8,), 2)
    made = updaters.make_updater(config, network, network.initialise(0))
    assert (made.helper is not None) == helped
