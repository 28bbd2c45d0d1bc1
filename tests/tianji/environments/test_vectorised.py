"""Vector environments of the three autoreset modes, against the same environment stepped one by one."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from programs.cli import ConfigError
from tests.helpers.counting import ACTIONS, IGNORED, Counting, CountingVector, ends, reward_of
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import forms, vector_form
from tianji.environments.description import EnvDescription
from tianji.environments.making import ATARI, describe
from tianji.environments.place import Place
from tianji.environments.vector import Environments
from tianji.environments.vectorised import NextStep, Vectorised
from tianji.faults import EnvironmentFailed, Misshapen

SEEDS = [7, 11, 23, 42]
ALWAYS = EnvironmentConfig(vector="always")


@pytest.fixture
def registered():
    """Register environments with vector forms, whose entries are removed after the test."""
    names = []

    def register(vector=CountingVector, single=Counting, **more):
        names.append(f"Counting{len(names)}-v0")
        gym.register(names[-1], entry_point=single, vector_entry_point=vector, disable_env_checker=True, **more)
        return names[-1]

    yield register
    for name in names:
        del gym.registry[name]


def of_mode(mode, *, reuses=False):
    return lambda num_envs: CountingVector(num_envs, mode, reuses)


@pytest.mark.parametrize("reuses", [False, True])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_every_row_is_that_of_single_environments(registered, mode, reuses):
    env = registered(of_mode(mode, reuses=reuses))
    ours, reference = Vectorised(env, range(4)), Environments(env, range(4))
    first = ours.reset(SEEDS)
    assert np.array_equal(first, reference.reset(SEEDS))
    before = first.copy()
    rng = np.random.default_rng(0)
    seen, rewards = (np.zeros((2, 4, 3), np.float32), np.zeros((2, 4)))
    episodes = []
    for _ in range(200):
        actions = rng.integers(0, ACTIONS, 4)
        ended, expected = ours.step(actions, seen[0], rewards[0]), reference.step(actions, seen[1], rewards[1])
        assert np.array_equal(seen[0], seen[1])
        assert np.array_equal(rewards[0], rewards[1])
        assert len(ended) == len(expected)
        episodes += zip(ended, expected, strict=True)
    # Later, so that a result that is no copy has changed.
    for one, other in episodes:
        assert np.array_equal(one.observation, other.observation)
        for name in ("environment", "terminated", "episode_return", "length"):
            assert getattr(one, name) == getattr(other, name)
    assert {one.terminated for one, _ in episodes} == {True, False}
    assert np.array_equal(first, before)
    ours.close()


@pytest.mark.parametrize("reuses", [False, True])
def test_a_row_that_is_only_a_reset_is_named(registered, reuses):
    env = registered(of_mode(AutoresetMode.NEXT_STEP, reuses=reuses))
    envs = NextStep(env, range(4))
    latest, rng = envs.reset(SEEDS), np.random.default_rng(0)
    seen, rewards, totals, episodes, resets = np.zeros((4, 3), np.float32), np.zeros(4), np.zeros(4), [], 0
    for _ in range(200):
        ignored, actions = envs.pending, rng.integers(0, ACTIONS, 4)
        ended = {one.environment: one for one in envs.step(actions, seen, rewards)}
        for lane, (name, episode, step) in enumerate(seen.astype(int).tolist()):
            if ignored[lane]:
                assert (name, episode, step) == (latest[lane, 0], latest[lane, 1] + 1, 0)
                assert rewards[lane] == 0 != IGNORED
                totals[lane], resets = 0, resets + 1
            else:
                assert (name, episode, step) == tuple(latest[lane] + (0, 0, 1))
                assert rewards[lane] == reward_of(step, actions[lane])
                totals[lane] += rewards[lane]
            assert (lane in ended) == (any(ends(name, episode, step)) and not ignored[lane])
            if lane in ended:
                one = ended[lane]
                episodes.append((one, seen[lane].copy()))
                assert (one.terminated, one.episode_return, one.length) == (ends(name, episode, step)[0], totals[lane], step)
        latest = seen.copy()
    assert all(np.array_equal(one.observation, last) for one, last in episodes)
    assert len(episodes) - 4 <= resets <= len(episodes)


def test_a_maker_that_takes_a_mode_is_asked_for_the_same_step(registered):
    def vector(num_envs, autoreset_mode=AutoresetMode.NEXT_STEP, length=3):
        return CountingVector(num_envs, autoreset_mode)

    env = registered(vector)
    assert forms.describe(env, 2, ATARI, None, ALWAYS).autoreset == AutoresetMode.SAME_STEP.value
    own = EnvironmentConfig(vector="always", args={"autoreset_mode": AutoresetMode.DISABLED})
    assert forms.describe(env, 2, ATARI, None, own).autoreset == AutoresetMode.DISABLED.value


def test_gymnasiums_own_is_described_and_its_single_form_too():
    expected = EnvDescription("CartPole-v1", (4,), "<f4", 0, 2, shipped=True)
    assert describe("CartPole-v1", settings=ALWAYS) == expected
    found = forms.describe("CartPole-v1", 3, ATARI, None, ALWAYS)
    assert found == replace(expected, autoreset="NextStep")
    assert forms.alike(expected, found)
    assert found.shipped


def test_seeds_decide_whatever_form_of_them_is_taken(registered):
    def whole(num_envs):
        return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    # A list of seeds is that of single environments; CartPole's own form takes one number.
    listed = Vectorised(registered(whole), range(2)).reset([5, 2**32 - 1])
    assert np.array_equal(listed, Environments("CartPole-v1", range(2)).reset([5, 2**32 - 1]))
    first, again, other = (NextStep("CartPole-v1", range(2)).reset([seed, 6]) for seed in (5, 5, 7))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


MODULE = """
    from gymnasium.vector import AutoresetMode
    from tests.helpers.counting import Counting, CountingVector

    def pair(num_envs=None, reuses=False):
        return Counting() if num_envs is None else CountingVector(num_envs, AutoresetMode.DISABLED, reuses)

    def single():
        return Counting()

    def either(**arguments):
        return Counting()

    def fewer(num_envs):
        return CountingVector(num_envs - 1)

    def silent(num_envs):
        env = CountingVector(num_envs)
        env.metadata = {}
        return env

    def broken(num_envs):
        raise OSError("no\\nlicence")

    class Flat(CountingVector):
        def step(self, actions):
            seen, *rest = super().step(actions)
            return seen.reshape(-1), *rest

    three = 3
    """


def test_a_function_of_ones_own_is_called_with_num_envs(own):
    own(MODULE)
    settings = EnvironmentConfig(vector="always", args={"reuses": True})
    found = forms.describe("my_module:pair", 3, ATARI, None, settings)
    assert found == EnvDescription("my_module:pair", (3,), "<f4", 0, ACTIONS, autoreset="Disabled")
    assert describe("my_module:pair").autoreset == ""
    envs = Vectorised("my_module:pair", range(3), settings=settings)
    assert envs.reset([1, 2, 3])[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("single", "it has no vector form (it takes no argument num_envs): set environment.vector to never, or give"),
        ("either", "it has no vector form (called with num_envs it returns an object of type Counting)"),
        ("fewer", "its vector form has 2 environments, and was asked for 3"),
        ("silent", "metadata['autoreset_mode'] of its vector form is None: it must be a gymnasium.vector.AutoresetMode"),
        ("broken", "called with (num_envs=3), it raises OSError: no licence"),
        ("Flat", "the step of its vector form returns observations of shape (9,), not (3, 3)"),
        ("three", "is of type int and cannot be called"),
    ],
)
def test_what_has_no_vector_form_that_could_be_used_is_refused_in_one_line(own, name, says):
    own(MODULE)
    with pytest.raises(ConfigError) as raised:
        forms.describe(f"my_module:{name}", 3, ATARI, None, ALWAYS)
    assert str(raised.value).startswith(f"environment my_module:{name}: ")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("env", "settings", "simulator", "says"),
    [
        (
            "Pendulum-v1",
            {},
            None,
            "it has no vector form (it is registered without a vector_entry_point): set environment.vector",
        ),
        ("Nothing-v1", {}, None, "there is no environment of this id"),
        (
            "CartPole-v1",
            {"frame_skip": 2},
            None,
            "environment.frame_skip: for single environments, not for its vector form: set",
        ),
        (
            "CartPole-v1",
            {"wrappers": ("a:B",)},
            None,
            "environment.wrappers: for single environments, not for its vector form: set",
        ),
        (
            "CartPole-v1",
            {},
            SimulatorConfig(step_seconds=1.0),
            "simulator: for single environments, not for its vector form: set",
        ),
        (
            "CartPole-v1",
            {"args": {"nothing": 1}},
            None,
            "its vector form takes no nothing: leave it out, or set environment.vector to never",
        ),
        ("ALE/Pong-v5", {}, None, "its vector form cannot go on after a lost life: set atari.episodic_life to false"),
    ],
)
def test_settings_that_a_vector_cannot_have_are_refused_in_one_line(env, settings, simulator, says):
    with pytest.raises(ConfigError) as raised:
        forms.describe(env, 2, ATARI, simulator, EnvironmentConfig(vector="always", **settings))
    assert str(raised.value).startswith(f"environment {env}: ")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_time_limit_is_the_vectors_own(registered):
    settings = EnvironmentConfig(vector="always", time_limit=5)
    envs, seen, rewards = NextStep("CartPole-v1", range(2), settings=settings), np.zeros((2, 4), np.float32), np.zeros(2)
    envs.reset([1, 2])
    ended = [envs.step(np.array([t % 2, t % 2]), seen, rewards) for t in range(5)]
    assert [len(one) for one in ended] == [0, 0, 0, 0, 2]
    assert not any(one.terminated for one in ended[-1])
    with pytest.raises(ConfigError, match=r"takes no max_episode_steps: leave environment\.time_limit out"):
        vector_form.made(registered(of_mode(AutoresetMode.DISABLED)), 2, ATARI, settings)


@pytest.mark.parametrize(("rates", "vector"), [((1.0, 2.0), True), ((2.0, 1.0), False)])
def test_auto_takes_the_quicker_form(registered, monkeypatch, rates, vector):
    env = registered()
    monkeypatch.setattr(forms, "speeds", lambda *given, **named: rates)
    found = forms.describe(env, 2, ATARI, None, EnvironmentConfig(vector="auto"))
    assert bool(found.autoreset) == vector
    assert not forms.describe("Pendulum-v1", 2, ATARI, None, EnvironmentConfig(vector="auto")).autoreset
    skipping = EnvironmentConfig(vector="auto", frame_skip=2)
    assert not forms.describe(env, 2, ATARI, None, skipping).autoreset


def test_auto_keeps_to_single_environments_where_the_spaces_differ(registered, monkeypatch):
    class Wide(Counting):
        observation_space = gym.spaces.Box(-9, 9, (4,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.zeros(4, np.float32), {}

        def step(self, action):
            return np.zeros(4, np.float32), 0.0, False, False, {}

    monkeypatch.setattr(forms, "speeds", lambda *given, **named: (1.0, 2.0))
    found = forms.describe(registered(single=Wide), 2, ATARI, None, EnvironmentConfig(vector="auto"))
    assert (found.autoreset, found.observation_shape) == ("", (4,))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_both_forms_are_measured(registered, mode):
    env = registered(of_mode(mode))
    found = forms.describe(env, 2, ATARI, None, ALWAYS)
    rates = forms.speeds(env, 2, ATARI, ALWAYS, found, seconds=0.01)
    assert len(rates) == 2
    assert min(rates) > 0


def faulty(**wrong):
    """A vector environment whose step returns something wrong."""

    class Faulty(CountingVector):
        def step(self, actions):
            names = ("seen", "rewards", "terminated", "truncated", "infos")
            result = dict(zip(names, super().step(actions), strict=True))
            return tuple((result | {name: make(result[name]) for name, make in wrong.items()}).values())

    return Faulty


def gone(value):
    raise RuntimeError("the simulator is gone")


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"seen": gone}, EnvironmentFailed, "its step raised RuntimeError: the simulator is gone"),
        ({"seen": lambda seen: seen[:, :2]}, Misshapen, r"observations of shape \(2, 2\); its space has \(2, 3\)"),
        ({"seen": lambda seen: seen[:1]}, Misshapen, r"observations of shape \(1, 3\); its space has \(2, 3\)"),
        ({"seen": lambda seen: seen.astype(str)}, Misshapen, "which cannot hold their values"),
        ({"rewards": lambda rewards: rewards[:, None]}, Misshapen, r"rewards of shape \(2, 1\)"),
        ({"rewards": lambda rewards: [None, None]}, Misshapen, "rewards of shape .* and type object"),
        ({"terminated": lambda flags: True}, Misshapen, r"terminations of shape \(\)"),
        ({"infos": lambda infos: {}}, Misshapen, r"without infos\['final_obs'\]"),
        (
            {"infos": lambda infos: infos and {**infos, "_final_obs": [False, False]}},
            Misshapen,
            r"without infos\['final_obs'\]",
        ),
    ],
)
def test_a_vector_that_fails_is_named_with_its_lanes(registered, wrong, error, says):
    place = Place()
    envs = Vectorised(registered(faulty(**wrong)), range(4, 6), place=place)
    envs.reset(SEEDS[:2])

    def episode():
        for _ in range(20):
            envs.step(np.zeros(2, np.int64), np.zeros((2, 3), np.float32), np.zeros(2))

    with pytest.raises(error, match=rf"^environment Counting0-v0, numbers 4 to 5.*{says}"):
        episode()
    assert place.doing() is None


def test_what_a_vector_is_doing_is_told(registered):
    place, doing = Place(), []

    class Told(CountingVector):
        def reset(self, **given):
            doing.append(place.doing())
            return super().reset(**given)

        def step(self, actions):
            doing.append(place.doing())
            return super().step(actions)

        def close(self):
            doing.append(place.doing())
            if len(doing) == 3:
                raise OSError("busy")

    envs = Vectorised(registered(Told), range(4, 6), place=place)
    envs.reset(SEEDS[:2])
    envs.step(np.zeros(2, np.int64), np.zeros((2, 3), np.float32), np.zeros(2))
    envs.close()
    assert doing[:3] == [(4, "reset"), (4, "step"), (4, "close")]


class TestGames:
    def test_games_of_a_vector_are_whole_and_their_returns_unclipped(self):
        pytest.importorskip("ale_py")
        pytest.importorskip("cv2")
        games = AtariConfig(episodic_life=False, screen=42, stack=2)
        found = forms.describe("ALE/Breakout-v5", 2, games, None, ALWAYS)
        assert forms.alike(describe("ALE/Breakout-v5", games), found)
        assert found.autoreset == AutoresetMode.SAME_STEP.value
        envs = Vectorised("ALE/Breakout-v5", range(2), games, settings=ALWAYS)
        assert envs.reset([3, 2**32 - 4]).shape == (2, 42, 42)
        rng, frames, rewards, ended = np.random.default_rng(0), np.zeros((2, 42, 42), np.uint8), np.zeros(2), []
        while len(ended) < 2:
            for one in envs.step(rng.integers(0, 4, 2), frames, rewards):
                ended.append(one)
                assert one.observation.shape == (42, 42)
                assert one.infos[0]["episode"]["l"] == one.length
                assert one.infos[0]["episode"]["r"] >= one.episode_return
            assert set(rewards) <= {-1.0, 0.0, 1.0}
        envs.close()
