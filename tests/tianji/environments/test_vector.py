import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from programs.cli import ConfigError
from tianji.environments.description import EnvDescription
from tianji.environments.making import describe, make_env
from tianji.environments.vector import Environments, Stacks


def test_a_box_is_described():
    assert describe("CartPole-v1") == EnvDescription("CartPole-v1", (4,), "<f4", 0, 2, shipped=True)


def test_a_discrete_observation_becomes_one_hot():
    lake = describe("FrozenLake-v1")
    assert (lake.features, lake.actions.outputs) == (16, 4)
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
    images = EnvDescription("x", (42, 42), "|u1", 0, 3, stack=4, pixels="hw")
    assert images.features == (4, 42, 42)
    stacks = np.random.default_rng(0).integers(0, 256, (3, 4, 42, 42), np.uint8)
    assert images.encode(stacks) is stacks or np.shares_memory(images.encode(stacks), stacks)
    assert images.encode(stacks).dtype == np.uint8
    one = EnvDescription("x", (42, 42), "|u1", 0, 3, pixels="hw")
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
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_line(env, says):
    with pytest.raises(ConfigError) as raised:
        describe(env)
    text = str(raised.value)
    assert says in text
    assert env in text
    assert "\n" not in text


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
    env = make_env("my_module:Corridor")
    # As it is: nothing is put around it that could end its episodes.
    assert type(env).__name__ == "Corridor"
    assert env.reset(seed=3)[0].tolist() == [0]


def test_a_function_that_returns_an_environment_does_as_well(own):
    own(CORRIDOR + "\n    def long():\n        return Corridor(length=7)\n")
    assert make_env("my_module:long").length == 7


def test_environments_of_ones_own_are_stepped_together(own):
    own(CORRIDOR)
    envs = Environments("my_module:Corridor", range(3))
    envs.reset([1, 2, 3])
    observation, reward = np.zeros((3, 1), np.float32), np.zeros(3, np.float32)
    for _ in range(3):
        assert envs.step(np.array([1, 0, 1]), observation, reward) == []
    ended = envs.step(np.array([1, 0, 0]), observation, reward)
    assert [(end.environment, end.terminated) for end in ended] == [(0, True), (1, True)]
    assert [float(end.observation[0]) for end in ended] == [4, -4]
    assert observation[:, 0].tolist() == [0, 0, 2]
    envs.close()


def test_gymnasiums_own_form_of_a_module_and_an_id_goes_on_working(own):
    own(CORRIDOR + "\n    gym.register('Hall-v0', entry_point=Corridor, kwargs={'length': 5}, max_episode_steps=9)\n")
    try:
        assert describe("my_module:Hall-v0").observation_shape == (1,)
        hall = make_env("my_module:Hall-v0")
        assert (hall.unwrapped.length, hall.spec.max_episode_steps) == (5, 9)
        with pytest.raises(ConfigError, match="has no Hall-v1; did you mean Hall-v0"):
            describe("my_module:Hall-v1")
    finally:
        del gym.registry["Hall-v0"]


def test_what_a_module_has_wins_over_what_it_registers(own):
    own(CORRIDOR + "\n    gym.register('Corridor', entry_point=Corridor, kwargs={'length': 5})\n")
    try:
        assert make_env("my_module:Corridor").length == 4
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


class Short(gym.Wrapper):
    """Cuts episodes short after some steps, and rewards with fractions."""

    def __init__(self, env, limit):
        super().__init__(env)
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        self.left = self.limit
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.left -= 1
        observation, reward, terminated, _, info = self.env.step(action)
        return observation, np.float32(0.1) * reward + observation[0], terminated, self.left == 0, info


@pytest.fixture
def short():
    gym.register("Short-v0", entry_point=lambda: Short(gym.make("CartPole-v1").unwrapped, 23))
    yield "Short-v0"
    del gym.registry["Short-v0"]


@pytest.mark.parametrize("env", ["short", "FrozenLake-v1"])
def test_environments_step_as_gymnasiums_do(env, request):
    """Against its vector environment, with its own record of returns and lengths, over ends of both kinds."""
    env = request.getfixturevalue(env) if env == "short" else env
    rng, seeds = np.random.default_rng(0), [5, 6, 7]
    reference = SyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(make_env(env))] * 3, autoreset_mode=AutoresetMode.SAME_STEP
    )
    ours = Environments(env, range(3))
    space = reference.single_observation_space
    assert np.array_equal(ours.reset(seeds), reference.reset(seed=seeds)[0])
    observations, rewards = np.zeros((3, *space.shape), space.dtype), np.zeros(3)
    kinds = set()
    for _ in range(400):
        actions = rng.integers(0, reference.single_action_space.n, 3)
        ended = ours.step(actions, observations, rewards)
        expected, reward, terminated, truncated, info = reference.step(actions)
        assert np.array_equal(observations, expected)
        assert np.array_equal(rewards, reward)
        assert [e.environment for e in ended] == np.flatnonzero(terminated | truncated).tolist()
        for e in ended:
            i, told = e.environment, info["final_info"]["episode"]
            kinds.add((bool(terminated[i]), bool(truncated[i])))
            assert np.array_equal(e.observation, info["final_obs"][i])
            assert e.terminated == terminated[i]
            assert (e.episode_return, e.length) == (pytest.approx(told["r"][i], rel=1e-5), told["l"][i])
    assert len(kinds) > (env == "Short-v0")
    ours.close()
    reference.close()


def test_actions_reach_an_environment_as_pythons_integers():
    class Strict(gym.Env):
        observation_space = gym.spaces.Box(0, 9, (1,))
        action_space = gym.spaces.Discrete(9)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {"seed": seed}

        def step(self, action):
            assert type(action) is int
            return np.full(1, action, np.float32), action, action == 8, False, {"told": action}

    gym.register("Strict-v0", entry_point=Strict)
    try:
        environments, observations, rewards = Environments("Strict-v0", range(2)), np.ones((2, 1)), np.ones(2)
        environments.reset([1, 2])
        assert environments.step(np.array([3, 4]), observations, rewards) == []
        assert rewards.tolist() == observations[:, 0].tolist() == [3, 4]
        (ended,) = environments.step(np.array([5, 8]), observations, rewards)
        assert (ended.environment, ended.terminated, ended.episode_return, ended.length) == (1, True, 12.0, 2)
        assert ended.infos == ({"told": 8}, {"seed": None})
        assert observations[:, 0].tolist() == [5, 0], "the next episode has begun"
        environments.step(np.array([0, 8]), observations, rewards)
        (ended,) = environments.step(np.array([8, 0]), observations, rewards)
        assert (ended.environment, ended.episode_return, ended.length) == (0, 16.0, 4)
    finally:
        del gym.registry["Strict-v0"]


def test_what_a_stack_keeps_does_not_change_with_the_place_it_lay_in():
    stacks, place = Stacks(np.zeros((1, 2)), 1), np.ones((1, 2))
    stacks.push(place)
    assert stacks.seen is place
    stacks.keep()
    place[:] = 7
    assert stacks.seen.tolist() == [[1, 1]]


def test_what_box2d_needs_is_told(monkeypatch):
    # As where it is not installed; importing it here would end this process, whose warnings are errors.
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"Box2D is not installed; pip install 'tianji-bench\[box2d\]'"):
        describe("LunarLander-v3")
