"""The state of an environment: it goes on as it would have, and what is no state of it is refused."""

import json

import gymnasium as gym
import numpy as np
import pytest

from tianji.environments.making import make_env
from tianji.environments.state import plain, recall, remember, restored
from tianji.faults import Unknown

KNOWN = [
    *("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"),
    *("FrozenLake-v1", "Taxi-v3", "CliffWalking-v1", "Blackjack-v1"),
    *("HalfCheetah-v5", "Humanoid-v5", "Ant-v5", "Reacher-v5", "ALE/Pong-v5"),
]


@pytest.mark.parametrize("name", KNOWN)
def test_an_environment_goes_on_as_it_would_have(name):
    first, second = make_env(name), make_env(name)
    first.reset(seed=1)
    second.reset(seed=2)
    first.action_space.seed(0)
    actions = [first.action_space.sample() for _ in range(260)]
    for action in actions[:37]:
        _, _, terminated, truncated, _ = first.step(action)
        if terminated or truncated:
            first.reset()
    recall(second, json.loads(json.dumps(remember(first), allow_nan=False)))
    for action in actions[37:]:
        (seen, *rest), (expected, *others) = second.step(action)[:4], first.step(action)[:4]
        assert np.array_equal(seen, expected)
        assert rest == others
        if rest[1] or rest[2]:
            assert np.array_equal(second.reset()[0], first.reset()[0])
    first.close()
    second.close()


@pytest.mark.parametrize(
    "value",
    [None, True, 7, 2**80, 0.1, float("nan"), float("-inf"), (1, [2.5, None]), {"a": 1}, np.float32(0.1), np.int8(-3)],
    ids=repr,
)
def test_a_value_comes_back_as_it_was(value):
    back = restored(json.loads(json.dumps(plain(value), allow_nan=False)))
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_arrays_and_generators_come_back_as_they_were():
    array = np.arange(6, dtype=">f4").reshape(2, 3)[:, ::2]
    back = restored(json.loads(json.dumps(plain(array))))
    assert (back.dtype, back.tolist()) == (array.dtype, array.tolist())
    back[0, 0] = 9  # Not a view of what was read.
    for kind in (np.random.PCG64, np.random.MT19937):
        rng = np.random.Generator(kind(5))
        if kind is np.random.PCG64:
            again = restored(json.loads(json.dumps(plain(rng))))
            assert again.random(3).tolist() == rng.random(3).tolist()


class Counter(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 99, (1,)), gym.spaces.Discrete(2)
    count = 0

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


class Silent(gym.Env):
    observation_space, action_space = Counter.observation_space, Counter.action_space


class Foreign(gym.Wrapper):
    pass


def test_an_environment_may_give_its_state_itself():
    first, second = Counter(), Counter()
    first.count = 5
    recall(second, json.loads(json.dumps(remember(first))))
    assert second.count == 5


@pytest.mark.parametrize(
    ("env", "says"),
    [(Silent(), "Silent cannot give its state"), (Foreign(Counter()), "wrapper Foreign cannot")],
    ids=["no state", "a wrapper"],
)
def test_what_cannot_give_its_state_is_named(env, says):
    with pytest.raises(Unknown, match=says):
        remember(env)


def test_an_own_state_that_is_no_plain_data_is_refused():
    env = Counter()
    env.count = object()
    with pytest.raises(Unknown, match="object is no plain data"):
        remember(env)


class Other(gym.Env):
    """Has methods of these names that are something else."""

    observation_space, action_space = Counter.observation_space, Counter.action_space

    def get_state(self):
        return np.zeros(3)

    def set_state(self, positions, velocities):
        raise AssertionError


def test_methods_that_are_something_else_are_no_state():
    with pytest.raises(Unknown, match="set_state raised TypeError"):
        remember(Other())


def without_a_layer(state):
    return state[1:]


def with_a_layer_more(state):
    return [*state, state[-1]]


def with_another_attribute(state):
    return [*state[:-1], {"attributes": {"__class__": 1}}]


def of_an_unknown_kind(state):
    return [{name: {"pickle": "gASV"} for name in layer} for layer in state[:-1]] + state[-1:]


def with_a_generator_that_is_none(state):
    return [*state[:-1], {"attributes": {"_np_random": {"generator": {"bit_generator": "system"}}}}]


@pytest.mark.parametrize(
    "wrong",
    [without_a_layer, with_a_layer_more, with_another_attribute, of_an_unknown_kind, with_a_generator_that_is_none],
)
def test_what_is_no_state_of_such_an_environment_is_refused(wrong):
    env = make_env("CartPole-v1")
    env.reset(seed=0)
    env.step(0)
    state = json.loads(json.dumps(remember(env)))
    with pytest.raises(Unknown):
        recall(env, wrong(state))
