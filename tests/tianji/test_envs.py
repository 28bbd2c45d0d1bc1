import gymnasium as gym
import numpy as np
import pytest

from tianji.envs import EnvDescription, Stacks, describe
from tianji.settings import ConfigError


def test_a_box_is_described():
    assert describe("CartPole-v1") == EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)


def test_a_discrete_observation_becomes_one_hot():
    lake = describe("FrozenLake-v1")
    assert (lake.features, lake.actions) == (16, 4)
    encoded = lake.encode(np.array([3, 0]))
    assert encoded.dtype == np.float32
    assert encoded.argmax(axis=1).tolist() == [3, 0]
    assert encoded.sum() == 2


def test_bytes_are_scaled_and_what_is_too_small_for_convolutions_is_flattened():
    small = EnvDescription("x", (2, 2), "|u1", 0, 3)
    assert not small.image
    assert small.features == 4
    assert small.encode(np.full((5, 2, 2), 255, np.uint8)).tolist() == [[1.0] * 4] * 5


def test_images_stay_bytes():
    images = EnvDescription("x", (42, 42), "|u1", 0, 3, stack=4)
    assert images.features == (4, 42, 42)
    stacks = np.random.default_rng(0).integers(0, 256, (3, 4, 42, 42), np.uint8)
    assert images.encode(stacks) is stacks or np.shares_memory(images.encode(stacks), stacks)
    assert images.encode(stacks).dtype == np.uint8
    one = EnvDescription("x", (42, 42), "|u1", 0, 3)
    assert one.encode(stacks[:, 0]).shape == (3, *one.features)


def test_stacks_of_vectors_are_laid_end_to_end():
    describe = EnvDescription("x", (2,), "<f4", 0, 3, stack=3)
    assert describe.features == 6
    stacks = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    assert describe.encode(stacks).tolist() == np.arange(12).reshape(2, 6).tolist()


def test_stacks_roll_and_begin_with_their_first_frame():
    stacks = Stacks(np.array([[1], [10]]), 3)
    stacks.push(np.array([[2], [20]]))
    assert stacks.seen[..., 0].tolist() == [[1, 1, 2], [10, 10, 20]]
    stacks.push(np.array([[3], [30]]), np.array([False, True]))
    assert stacks.seen[..., 0].tolist() == [[1, 2, 3], [30, 30, 30]]
    assert stacks.age.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("CartPole-v1x", "did you mean CartPole-v1"),
        ("CartPole-v9", "did you mean CartPole-v1"),
        ("ZZZZ-v0", "registered Gymnasium environment"),
        ("Pendulum-v1", "only Discrete actions"),
        ("Blackjack-v1", "only Box and Discrete"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_line(env, says):
    with pytest.raises(ConfigError) as raised:
        describe(env)
    text = str(raised.value)
    assert says in text
    assert env in text
    assert "\n" not in text


def test_discrete_actions_that_do_not_start_at_zero_are_refused():
    class Shifted(gym.Env):
        observation_space = gym.spaces.Box(0, 1, (1,))
        action_space = gym.spaces.Discrete(3, start=-1)

    gym.register("Shifted-v0", entry_point=Shifted)
    try:
        with pytest.raises(ConfigError, match="start at -1"):
            describe("Shifted-v0")
    finally:
        del gym.registry["Shifted-v0"]
