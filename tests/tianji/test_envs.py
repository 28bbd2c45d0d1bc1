import gymnasium as gym
import numpy as np
import pytest

from tianji.config import ConfigError
from tianji.envs import EnvDescription, describe


def test_a_box_is_described():
    assert describe("CartPole-v1") == EnvDescription("CartPole-v1", (4,), "<f4", 0, 2)


def test_a_discrete_observation_becomes_one_hot():
    lake = describe("FrozenLake-v1")
    assert (lake.features, lake.actions) == (16, 4)
    encoded = lake.encode(np.array([3, 0]))
    assert encoded.dtype == np.float32
    assert encoded.argmax(axis=1).tolist() == [3, 0]
    assert encoded.sum() == 2


def test_bytes_are_scaled_and_images_flattened():
    images = EnvDescription("x", (2, 2), "|u1", 0, 3)
    assert images.encode(np.full((5, 2, 2), 255, np.uint8)).tolist() == [[1.0] * 4] * 5


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("CartPole-v1x", "did you mean CartPole-v1"),
        ("CartPole-v9", "did you mean CartPole-v1"),
        ("NoSuchThing-v0", "registered Gymnasium environment"),
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
