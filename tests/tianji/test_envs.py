import gymnasium as gym
import numpy as np
import pytest

from tianji.envs import EnvDescription, Stacks, describe, make, make_vector
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


CORRIDOR = """
    import gymnasium as gym
    import numpy as np

    class Corridor(gym.Env):
        observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def __init__(self, length=4):
            self.length = length

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return np.array([self.at], np.float32), {}

        def step(self, action):
            self.at += 2 * int(action) - 1
            return np.array([self.at], np.float32), float(self.at), abs(self.at) == self.length, False, {}
    """


def test_an_environment_of_ones_own_is_described_and_made(own):
    own(CORRIDOR)
    assert describe("my_module:Corridor") == EnvDescription("my_module:Corridor", (1,), "<f4", 0, 2)
    env = make("my_module:Corridor")
    # As it is: nothing is put around it that could end its episodes.
    assert type(env).__name__ == "Corridor"
    assert env.reset(seed=3)[0].tolist() == [0]


def test_a_function_that_returns_an_environment_does_as_well(own):
    own(CORRIDOR + "\n    def long():\n        return Corridor(length=7)\n")
    assert make("my_module:long").length == 7


def test_environments_of_ones_own_are_stepped_together(own):
    own(CORRIDOR)
    envs = make_vector("my_module:Corridor", 3)
    envs.reset(seed=[1, 2, 3])
    for _ in range(3):
        assert not envs.step(np.array([1, 0, 1]))[2].any()
    observation, _, terminated, _, info = envs.step(np.array([1, 0, 0]))
    assert terminated.tolist() == [True, True, False]
    assert observation[:, 0].tolist() == [0, 0, 2]
    assert [last[0] for last in info["final_obs"][:2]] == [4, -4]
    envs.close()


def test_gymnasiums_own_form_of_a_module_and_an_id_goes_on_working(own):
    own(CORRIDOR + "\n    gym.register('Hall-v0', entry_point=Corridor, kwargs={'length': 5}, max_episode_steps=9)\n")
    try:
        assert describe("my_module:Hall-v0").observation_shape == (1,)
        hall = make("my_module:Hall-v0")
        assert (hall.unwrapped.length, hall.spec.max_episode_steps) == (5, 9)
        with pytest.raises(ConfigError, match="has no Hall-v1; did you mean Hall-v0"):
            describe("my_module:Hall-v1")
    finally:
        del gym.registry["Hall-v0"]


def test_what_a_module_has_wins_over_what_it_registers(own):
    own(CORRIDOR + "\n    gym.register('Corridor', entry_point=Corridor, kwargs={'length': 5})\n")
    try:
        assert make("my_module:Corridor").length == 4
    finally:
        del gym.registry["Corridor"]


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("Corridr", "", "has no Corridr; did you mean Corridor"),
        ("three", "three = 3", "of type int and cannot be called"),
        ("none", "def none(): ...", "returns an object of type NoneType, and no gymnasium.Env"),
        ("needy", "def needy(length): ...", "called with (), it raises TypeError: needy() missing 1 required"),
        ("bad", "def bad():\n        raise OSError('no\\nscreen')", "it raises OSError: no screen"),
        ("Blind", "class Blind(gym.Env):\n        action_space = gym.spaces.Discrete(2)", "it has no observation_space"),
        ("Steer", "class Steer(Corridor):\n        action_space = gym.spaces.Box(0, 1)", "only Discrete actions"),
        ("Old", "class Old(Corridor):\n        def reset(self): ...", "asked to reset, it raises TypeError"),
        (
            "Bare",
            "class Bare(Corridor):\n        def reset(self, *, seed=None, options=None):\n            return np.zeros(1)",
            "its reset must return (observation, info)",
        ),
        (
            "Four",
            "class Four(Corridor):\n        def step(self, action):\n            return np.zeros(1), 0.0, False, {}",
            "its step must return (observation, reward, terminated, truncated, info)",
        ),
        (
            "Wide",
            "class Wide(Corridor):\n        def step(self, action):\n            return np.zeros(2), 0.0, False, False, {}",
            "its step returns an observation of shape (2,), and its observation_space has (1,)",
        ),
        (
            "Far",
            "class Far(Corridor):\n        observation_space = gym.spaces.Discrete(3)\n"
            "        def reset(self, *, seed=None, options=None):\n            return 3, {}",
            "not in its observation_space, Discrete(3): 3",
        ),
    ],
)
def test_an_environment_that_could_not_be_trained_on_is_refused_in_one_line(own, name, source, says):
    own(f"{CORRIDOR}\n    {source}\n")
    with pytest.raises(ConfigError) as raised:
        describe(f"my_module:{name}")
    text = str(raised.value)
    assert text.startswith(f"environment my_module:{name}: ")
    assert says in text
    assert "\n" not in text


def test_a_registered_environment_that_fails_is_named_with_its_exception(own):
    own(CORRIDOR + "\n    gym.register('Broken-v0', entry_point=lambda: 1 / 0)\n")
    try:
        with pytest.raises(ConfigError, match="ZeroDivisionError: division by zero"):
            describe("my_module:Broken-v0")
    finally:
        del gym.registry["Broken-v0"]
