"""Episodes that a policy plays: by its best actions, or by those that it samples."""

import msgspec
import numpy as np
import pytest

from suites.session import catalogue
from tianji.algorithms.networks import ActorCritic
from tianji.environments.actions import Actions
from tianji.policy import Policy
from tianji.run.play import Player

STEPS = 200
COUNTS = f"""
    import gymnasium as gym
    import numpy as np


    class Counts(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

        def __init__(self, box=False):
            self.action_space = gym.spaces.Box(-100, 100, (1,), np.float32) if box else gym.spaces.Discrete(2)
            self._box = box

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._left = {STEPS}
            return np.zeros(1, np.float32), {{}}

        def step(self, action):
            self._left -= 1
            reward = float(action[0] ** 2) if self._box else float(action)
            return np.zeros(1, np.float32), reward, False, not self._left, {{}}


    def numbers():
        return Counts(box=True)
"""


def policy_of(actions, bias):
    """A policy of constant scores."""
    network = ActorCritic(1, (4,), actions)
    flat = np.zeros(network.size, np.float32)
    network.views(flat)["policy.bias"][:] = bias
    return Policy(network, flat)


@pytest.fixture
def player(own):
    made = []

    def make(name="Counts"):
        made.append(Player(f"{own(COUNTS)}:{name}", 10))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_sampled_actions_have_the_policys_probabilities_and_repeat_by_seed(player):
    players, policy = player(), policy_of(2, [0, np.log(3)])
    assert players.play(policy, range(10)).tolist() == [STEPS] * 10
    returns = players.play(policy, range(10), sampled=True)
    # Three quarters of 2,000 actions, within four standard deviations.
    assert abs(returns.mean() / STEPS - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 2000)
    assert np.array_equal(players.play(policy, range(10), sampled=True), returns)
    assert not np.array_equal(players.play(policy, range(1, 11), sampled=True), returns)
    assert np.array_equal(players.play(policy, range(1, 11), sampled=True)[:9], returns[1:]), "an episode has its own seed"


def test_sampled_numbers_have_the_policys_deviation(player):
    actions = Actions("box", (0,), (1,), "<f4", (), (-100.0,), (100.0,), log_scale=0.0)
    players, policy = player("numbers"), policy_of(actions, [0])
    assert players.play(policy, range(10)).tolist() == [0] * 10
    # Squares of standard normal numbers: mean 1, variance 2.
    returns = players.play(policy, range(10), sampled=True)
    assert abs(returns.mean() / STEPS - 1) < 4 * np.sqrt(2 / 2000)


@pytest.mark.parametrize("name", ["cartpole-dqn-zoo", "pendulum-td3"])
def test_policies_without_probabilities_are_not_sampled(name):
    workload = catalogue.load(name)
    with pytest.raises(ValueError, match=r"evaluation\.sampled is for policies with probabilities, not for algo"):
        msgspec.structs.replace(workload, evaluation=msgspec.structs.replace(workload.evaluation, sampled=True))
