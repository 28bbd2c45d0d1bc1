"""Synthetic simulators: delays against closed forms, waits by a fake clock, pictures against a slow loop."""

import functools
import itertools
import math
import time

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from scipy import stats

from programs.cli import ConfigError
from tianji import __main__ as command
from tianji.config import PPOConfig, SimulatorConfig, TrainConfig
from tianji.environments import delays, simulated
from tianji.environments import vector as envs
from tianji.environments.delays import RANGE, Delays, scale, times
from tianji.environments.making import ATARI, describe, make_env
from tianji.environments.vector import Environments, Simulated, together
from tianji.messages import SlotRef
from tianji.policy import load_policy
from tianji.roles.actor import Rollout
from tianji.run import training
from tianji.run.play import Player
from tianji.settings import convert
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler

LOGNORMAL = SimulatorConfig(step_seconds=0.01, reset_seconds=0.2, distribution="lognormal", sigma=1.0)


class FakeTime:
    """A clock that only moves when somebody sleeps or says that something was computed."""

    def __init__(self):
        self.now_ns = 10**15
        self.slept = []

    def clock(self):
        return self.now_ns

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_ns += round(seconds * 1e9)

    def compute(self, seconds):
        self.now_ns += round(seconds * 1e9)

    @property
    def waits(self):
        return functools.partial(Delays, clock=self.clock, sleep=self.sleep)


@pytest.fixture
def fake():
    return FakeTime()


def drawn(config, number, seed, steps):
    """The times of an environment's steps, in seconds, as it waits for them when it is alone."""
    fake = FakeTime()
    waits = fake.waits(config, [number])
    waits.seed(0, seed)
    for _ in range(steps):
        waits.wait(fake.now_ns, [0], [])
    return fake.slept


def sample(config, mean=1.0, count=20_000):
    return np.array(list(itertools.islice(times(config, mean, np.random.default_rng(0)), count))) / 1e9


@pytest.mark.parametrize(
    ("config", "law"),
    [
        # Of mean 2: exp(mu + sigma^2 / 2) = 2, and x_m alpha / (alpha - 1) = 2.
        (SimulatorConfig(distribution="lognormal", sigma=0.7), stats.lognorm(0.7, scale=2 * math.exp(-(0.7**2) / 2))),
        (SimulatorConfig(distribution="pareto", alpha=3.5), stats.pareto(3.5, scale=2 * 2.5 / 3.5)),
        (SimulatorConfig(distribution="pareto", alpha=1.5), stats.pareto(1.5, scale=2 * 0.5 / 1.5)),
    ],
)
def test_times_have_the_stated_mean_and_tail(config, law):
    assert law.mean() == pytest.approx(2)
    drawn = sample(config, mean=2.0)
    assert stats.kstest(drawn, law.cdf).pvalue > 0.01
    assert (drawn > law.ppf(0.999)).mean() == pytest.approx(0.001, abs=0.0006)
    if config.alpha != 1.5:  # Where there is no variance, the mean of a sample says little.
        assert drawn.mean() == pytest.approx(2, abs=4 * law.std() / math.sqrt(len(drawn)))


def test_a_truncated_tail_keeps_the_stated_mean():
    alpha, most = 1.5, 30.0
    found = sample(SimulatorConfig(distribution="pareto", alpha=alpha, truncation=most), mean=2.0)
    # The law by its distribution function alone: the mean is the integral of the tail.
    points = np.geomspace(1, most, 20_001)
    below = (1 - points**-alpha) / (1 - most**-alpha)
    least = 2 / (1 + np.trapezoid(1 - below, points))
    assert found.max() <= most * least * (1 + 1e-9)
    assert stats.kstest(found, lambda x: np.interp(x / least, points, below)).pvalue > 0.01
    assert found.mean() == pytest.approx(2, rel=0.05)


def test_steps_of_a_fragment_share_a_draw():
    config = SimulatorConfig(step_seconds=0.01, distribution="lognormal", sigma=1.0, drawn_every=32)
    of_fragments = np.reshape(drawn(config, 0, seed=3, steps=320), (10, 32))
    assert np.ptp(of_fragments, axis=1).tolist() == pytest.approx([0.0] * 10)
    assert len(set(of_fragments[:, 0].round(9).tolist())) == 10
    # The same draws as without sharing, each for as long as it is shared.
    single = drawn(msgspec.structs.replace(config, drawn_every=1), 0, seed=3, steps=10)
    assert of_fragments[:, 0].tolist() == pytest.approx(single)


def test_a_simulator_that_computes_uses_a_core_and_does_not_wait(fake):
    waits = Delays(SimulatorConfig(step_seconds=0.02, computes=True), [0], clock=fake.clock)
    before = time.thread_time()
    waits.wait(fake.now_ns, [0], [])
    assert time.thread_time() - before >= 0.02
    assert waits.waited_ns == 0


def test_constant_times_are_the_mean():
    assert set(sample(SimulatorConfig(), mean=0.25).tolist()) == {0.25}


def test_environments_are_as_unequal_as_stated_and_their_mean_is_kept():
    config = SimulatorConfig(spread=3.0, spread_over=5)
    scales = [scale(config, number) for number in range(10)]
    assert scales[4] / scales[0] == pytest.approx(3)
    assert np.diff(scales[:5]).tolist() == pytest.approx([0.25] * 4)
    assert np.mean(scales[:5]) == pytest.approx(1)
    assert scales[5:] == scales[:5], "each node's are as another's"
    assert {scale(SimulatorConfig(), number) for number in range(10)} == {1.0}


@pytest.mark.parametrize(("ranks", "serial", "left"), [(1, 0.3, 1.0), (4, 0.0, 0.25), (4, 1.0, 1.0), (4, 0.2, 0.4)])
def test_more_ranks_shorten_delays_by_amdahls_law(fake, ranks, serial, left):
    config = SimulatorConfig(step_seconds=0.01, reset_seconds=0.02, ranks=ranks, serial=serial)
    waits = fake.waits(config, [0, 1])
    waits.wait(fake.now_ns, [0], [])
    waits.wait(fake.now_ns, [], [1])
    one = scale(SimulatorConfig(), 0), scale(SimulatorConfig(), 1)
    assert fake.slept == pytest.approx([0.01 * left * one[0], 0.02 * left * one[1]])


def test_one_straggler_is_as_slow_as_stated_and_the_mean_is_kept():
    config = SimulatorConfig(straggler=8.0, spread_over=4)
    scales = [scale(config, number) for number in range(8)]
    assert scales[:4] == pytest.approx([4 / 11, 4 / 11, 4 / 11, 32 / 11])
    assert scales[4:] == scales[:4], "each node's are as another's"


def test_draws_follow_from_the_seed_and_the_number_alone(fake):
    config = msgspec.structs.replace(LOGNORMAL, spread=2.0)
    alone = drawn(config, 5, seed=7, steps=600)
    waits = fake.waits(config, [3, 4, 5])
    for place, seed in enumerate((1, 2, 7)):
        waits.seed(place, seed)
    for _ in range(600):
        waits.wait(fake.now_ns, [2], [])
    assert fake.slept == alone
    assert alone != drawn(config, 5, seed=8, steps=600)
    slower = drawn(config, 6, seed=7, steps=600)
    assert slower == pytest.approx([t * scale(config, 6) / scale(config, 5) for t in alone])
    assert len(set(alone)) == 600


class Ticking(gym.Wrapper):
    """Its steps take some of a fake clock's time, and episodes have four of them."""

    def __init__(self, env, fake, seconds):
        super().__init__(env)
        self.fake, self.seconds, self.steps = fake, seconds, 0

    def reset(self, **given):
        self.steps = 0
        return self.env.reset(**given)

    def step(self, action):
        self.fake.compute(self.seconds)
        self.steps += 1
        return *self.env.step(action)[:2], self.steps == 4, False, {}


@pytest.fixture
def ticking(fake):
    """An environment of which a step takes 1 ms of processor."""
    gym.register("Ticking-v0", entry_point=lambda: Ticking(gym.make("CartPole-v1").unwrapped, fake, 0.001))
    yield "Ticking-v0"
    del gym.registry["Ticking-v0"]


def step(environments, count):
    observations, rewards = np.zeros((count, 4), np.float32), np.zeros(count)
    return environments.step(np.ones(count, np.int64), observations, rewards)


def test_a_step_together_takes_as_long_as_the_slowest(fake, ticking):
    # By their numbers .005, .0083, .0117 and .015 s; 4 ms of processor are a part of that.
    config = SimulatorConfig(step_seconds=0.01, spread=3.0, spread_over=4)
    environments = Simulated(ticking, range(4), ATARI, config, fake.waits(config, range(4)))
    environments.reset(range(4))
    assert fake.slept == []
    step(environments, 4)
    assert fake.slept == [pytest.approx(0.015 - 0.004)]
    assert environments.waited_ns == pytest.approx(0.011e9)
    fast = Simulated(ticking, [0, 4], ATARI, config, fake.waits(config, [0, 4]))
    fast.reset([0, 1])
    step(fast, 2)
    assert fake.slept[1:] == [pytest.approx(0.005 - 0.002)], "the fastest two"


def test_where_the_processor_takes_longer_nobody_sleeps(fake, ticking):
    config = SimulatorConfig(step_seconds=0.003)
    environments = Simulated(ticking, range(4), ATARI, config, fake.waits(config, range(4)))
    environments.reset(range(4))
    step(environments, 4)
    assert fake.slept == []


def test_a_reset_delays_the_step_that_ends_the_episode_and_no_other(fake, ticking):
    config = SimulatorConfig(step_seconds=0.01, reset_seconds=0.1)
    environments = Simulated(ticking, range(2), ATARI, config, fake.waits(config, range(2)))
    environments.reset([0, 1])
    assert fake.slept == [pytest.approx(0.1)]
    ended = [len(step(environments, 2)) for _ in range(5)]
    assert ended == [0, 0, 0, 2, 0]
    assert fake.slept[1:] == pytest.approx([0.008, 0.008, 0.008, 0.108, 0.008])


def test_the_slowest_of_many_is_as_slow_as_order_statistics_say(fake):
    """The mean of the largest of B Pareto times is x_m B Beta(B, 1 - 1 / alpha). A sum, or one time for all, is far off."""
    config = SimulatorConfig(step_seconds=0.01, distribution="pareto", alpha=4.0)
    waits = fake.waits(config, range(16))
    for place in range(16):
        waits.seed(place, place)
    for _ in range(4000):
        waits.wait(fake.now_ns, range(16), [])
    beta = math.gamma(16) * math.gamma(0.75) / math.gamma(16.75)
    assert np.mean(fake.slept) == pytest.approx(0.0075 * 16 * beta, rel=0.03)


@pytest.mark.parametrize("env", ["CartPole-v1", "FrozenLake-v1"])
def test_what_happens_does_not_depend_on_how_long_it_takes(fake, env):
    config = SimulatorConfig(step_seconds=0.5, reset_seconds=9.0, distribution="pareto", alpha=1.2)
    plain, seeds = Environments(env, range(3)), [4, 5, 6]
    still = together(env, range(3), simulator=SimulatorConfig(spread=2.0))
    slow = Simulated(env, range(3), ATARI, config, fake.waits(config, range(3)))
    assert type(still) is Environments
    assert isinstance(together(env, range(3), simulator=config), Simulated)
    choices, rng = int(make_env(env).action_space.n), np.random.default_rng(0)
    first = plain.reset(seeds)
    places = [(np.zeros_like(first), np.zeros(3)) for _ in range(3)]
    assert np.array_equal(first, still.reset(seeds))
    assert np.array_equal(first, slow.reset(seeds))
    for _ in range(300):
        actions = rng.integers(0, choices, 3)
        ends = [
            [(e.environment, e.episode_return, e.length) for e in envs.step(actions, *place)]
            for envs, place in zip((plain, still, slow), places, strict=True)
        ]
        assert ends[0] == ends[1] == ends[2]
        for observations, rewards in places[1:]:
            assert np.array_equal(observations, places[0][0])
            assert np.array_equal(rewards, places[0][1])
    assert len(fake.slept) == 301


def test_training_in_lockstep_waits_for_no_simulator():
    """Hours a step: it would not end."""
    ended = [
        training.train(
            TrainConfig(
                env="CartPole-v1",
                world="lockstep",
                actors=2,
                envs_per_actor=2,
                ppo=PPOConfig(rollout_steps=8, epochs=1),
                stop_steps=64,
                simulator=simulator,
            )
        ).weights
        for simulator in (None, SimulatorConfig(step_seconds=3600.0, reset_seconds=3600.0))
    ]
    assert np.array_equal(*ended)


def test_an_actors_environments_have_their_numbers_over_all_actors(monkeypatch, fake):
    """And its account tells what it waited from what it computed."""
    numbers = []

    def recorded(config, given):
        numbers.append(list(given))
        return fake.waits(config, given)

    monkeypatch.setattr(envs, "Delays", recorded)
    config = TrainConfig(
        env="CartPole-v1",
        envs_per_actor=3,
        ppo=PPOConfig(rollout_steps=16),
        simulator=SimulatorConfig(step_seconds=0.5, distribution="lognormal", sigma=1.0),
    )
    seen = describe(config.env)
    layout = chunk_layout(config, seen)
    views = layout.views(memoryview(bytearray(layout.capacity_bytes)))
    sampler = Sampler(config, seen, layout, lambda slot: views, 1, fake.clock)
    sampler.run(Rollout(SlotRef(0, 0)))
    assert numbers == [[3, 4, 5]]
    assert len(fake.slept) == 16
    assert sampler.account.wait_ns["simulator"] == pytest.approx(sum(fake.slept) * 1e9)
    assert sampler.account.busy_ns["env"] == 0, "nothing was computed by this clock"


# Pictures.


def slowly_drawn(values, side):
    """Pixel by pixel."""
    picture, high = np.zeros((side, side, 3)), side // len(values)
    for k, v in enumerate(values):
        length = math.copysign(math.sqrt(min(abs(v), RANGE) / RANGE), v)
        end = round((1 + length) * side / 2 * 8) / 8
        low, top, colour = (side / 2, end, 0) if end > side / 2 else (end, side / 2, 2)
        for row in range(k * high, (k + 1) * high):
            for column in range(side):
                covered = min(column + 1, top) - max(column, low)
                picture[row, column, colour] = max(0.0, min(1.0, covered))
    return np.rint(255 * picture).astype(np.uint8)


@pytest.mark.parametrize("side", [84, 21, 6])
def test_components_are_drawn_as_bars(side):
    env = make_env("CartPole-v1", simulator=SimulatorConfig(picture=side))
    for values in ([0.0, 1.3, -0.02, 5.0], [-9.0, 1e6, -5.0, 0.21], [0.0, 0.0, 0.0, -0.0]):
        picture = env.observation(np.array(values, np.float32))
        assert (picture.dtype, picture.shape) == (np.uint8, (side, side, 3))
        assert np.array_equal(picture, slowly_drawn(values, side))
    assert env.observation_space.contains(picture)


def test_a_discrete_observation_is_a_bar_between_both_ends():
    env = make_env("FrozenLake-v1", simulator=SimulatorConfig(picture=16))
    first, last = env.observation(0), env.observation(15)
    assert (first[:, :8] == [0, 0, 255]).all()
    assert not first[:, 8:].any()
    assert (last[:, 8:] == [255, 0, 0]).all()
    assert len({env.observation(state).tobytes() for state in range(16)}) == 16


def test_pictures_tell_states_apart_and_repeat():
    def play(seed, steps=20):
        env = make_env("CartPole-v1", simulator=SimulatorConfig(picture=84))
        pictures = [env.reset(seed=seed)[0]]
        pictures += [env.step(t % 2)[0] for t in range(steps)]
        return [picture.tobytes() for picture in pictures]

    assert play(3) == play(3)
    assert play(3) != play(4)
    assert len(set(play(3))) == 21


def test_grain_is_noise_below_its_bound_that_hardly_shrinks():
    lz4 = pytest.importorskip("lz4.frame")

    def play(grain, seed=3):
        env = make_env("CartPole-v1", simulator=SimulatorConfig(picture=84, grain=grain))
        return np.array([env.reset(seed=seed)[0], *(env.step(t % 2)[0] for t in range(20))])

    clear, grainy = play(0), play(32)
    assert np.array_equal(grainy, play(32))
    assert not np.array_equal(grainy, play(32, seed=4))
    # Nothing gets darker, bars stay as bright as they are, and what was black is evenly anything up to the bound.
    assert (grainy >= clear).all()
    assert np.array_equal(grainy[clear > 32], clear[clear > 32])
    black = grainy[clear == 0]
    assert (black.min(), black.max()) == (0, 32)
    assert black.mean() == pytest.approx(16, abs=0.1)
    assert len(lz4.compress(clear.tobytes())) < 0.05 * clear.nbytes
    assert len(lz4.compress(grainy.tobytes())) > 0.8 * clear.nbytes


def test_perceptrons_see_a_picture_in_colour_flattened():
    seen = describe("CartPole-v1", simulator=SimulatorConfig(picture=84, step_seconds=3600.0))
    assert seen.features == (3, 84, 84)
    seen = seen.seen_by("mlp-q")
    assert (seen.observation_shape, seen.observation_dtype, seen.actions.outputs) == ((84, 84, 3), "|u1", 2)
    assert not seen.image
    assert seen.features == 84 * 84 * 3
    environments = together("CartPole-v1", range(2), simulator=SimulatorConfig(picture=84))
    encoded = seen.encode(environments.reset([0, 1]))
    assert (encoded.shape, encoded.dtype, encoded.max()) == ((2, 21168), np.float32, 1)


def test_what_cannot_be_drawn_is_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"^environment CartPole-v1: an observation of 500 components .* 84 rows") as raised:
        delays.Picture(Wide(), 84, "environment CartPole-v1")
    assert "\n" not in str(raised.value)


class Wide(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (20, 25))
    action_space = gym.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"step_second": 1.0}, "did you mean `step_seconds`"),
        ({"step_seconds": -1.0}, ">= 0"),
        ({"distribution": "normal"}, "known: constant, lognormal, pareto"),
        ({"distribution": "lognormal"}, "needs simulator.sigma"),
        ({"distribution": "pareto"}, "needs simulator.alpha"),
        ({"distribution": "pareto", "alpha": 1.0}, "> 1"),
        ({"distribution": "pareto", "alpha": 2.0, "sigma": 1.0}, "sigma is for distribution 'lognormal', not 'pareto'"),
        ({"alpha": 2.0}, "alpha is for distribution 'pareto', not 'constant'"),
        ({"spread": 0.5}, ">= 1"),
        ({"spread_over": 1}, ">= 2"),
        ({"straggler": 0.5}, ">= 1"),
        ({"spread": 2.0, "straggler": 2.0}, "exclude each other"),
        ({"ranks": 2, "computes": True}, "for simulators that wait"),
        ({"serial": 1.1}, "<= 1"),
        ({"picture": 0}, ">= 4"),
        ({"grain": 8}, "simulator.grain is for pictures"),
    ],
)
def test_wrong_settings_are_named_in_one_line(data, says):
    with pytest.raises(ConfigError) as raised:
        convert({"env": "CartPole-v1", "simulator": data}, TrainConfig, "train")
    assert says in str(raised.value)
    assert "simulator" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.long(why="convolutions are trained and evaluated, in processes")
def test_a_run_on_pictures_is_trained_and_evaluated_from_its_folder(tmp_path, capsys):
    folder = tmp_path / "run"
    settings = ["ppo.rollout_steps=16", "simulator.picture=12", "simulator.step_seconds=.0001"]
    options = ["--env", "CartPole-v1", "--actors", "1", "--envs-per-actor", "2", "--stop-steps", "64", "--out", str(folder)]
    assert command.main(["train", *options, "--quiet", *(part for text in settings for part in ("--set", text))]) == 0
    assert command.main(["evaluate", str(folder), "--episodes", "2"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out
    player = Player("CartPole-v1", 2, simulator=SimulatorConfig(picture=12, step_seconds=3600.0))
    assert len(player.play(load_policy(folder / "policy.safetensors"), [1, 2])) == 2
    player.close()


# For other programs.


@pytest.fixture
def by_fake_time(fake, monkeypatch):
    monkeypatch.setattr(simulated, "Delays", fake.waits)
    monkeypatch.setattr(delays, "Delays", fake.waits)
    return fake


PARETO = SimulatorConfig(step_seconds=0.01, reset_seconds=0.3, distribution="pareto", alpha=2.5, spread=2.0, picture=12)


def test_the_vector_is_single_environments_beside_each_other(by_fake_time):
    fake, plain = by_fake_time, simulated.arguments("CartPole-v1", PARETO)
    vector = gym.make_vec(simulated.FULL_ID, 3, vectorization_mode="vector_entry_point", first=4, **plain)
    singles = [gym.make(simulated.FULL_ID, number=4 + i, **plain) for i in range(3)]
    reference = SyncVectorEnv([lambda: make_env("CartPole-v1", simulator=PARETO)] * 3)
    assert vector.metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP

    def alone(deed):
        """What it returns, and how long it waits."""
        before = len(fake.slept)
        result = deed()
        return result, sum(fake.slept[before:])

    firsts = [alone(lambda env=env, i=i: env.reset(seed=9 + i)) for i, env in enumerate(singles)]
    (observations, _), slept = alone(lambda: vector.reset(seed=9))
    assert slept == pytest.approx(max(seconds for _, seconds in firsts))
    assert np.array_equal(observations, [first[0] for first, _ in firsts])
    assert np.array_equal(observations, reference.reset(seed=9)[0])
    over, resets, rng = [False] * 3, 0, np.random.default_rng(0)
    for _ in range(150):
        actions = rng.integers(0, 2, 3)
        own = [
            alone(env.reset) if ended else alone(lambda env=env, action=action: env.step(action))
            for env, ended, action in zip(singles, over, actions, strict=True)
        ]
        got, slept = alone(lambda actions=actions: vector.step(actions))
        assert slept == pytest.approx(max(seconds for _, seconds in own))
        assert np.array_equal(got[0], [result[0] for result, _ in own])
        for ours, theirs in zip(got[:4], reference.step(actions)[:4], strict=True):
            assert np.array_equal(ours, theirs)
        resets += sum(over)
        over = (got[2] | got[3]).tolist()
    assert resets > 5


def test_a_vector_can_be_told_its_numbers_later(by_fake_time):
    config = SimulatorConfig(step_seconds=0.01, spread=3.0, spread_over=4)
    vector = gym.make_vec(simulated.FULL_ID, 2, **simulated.arguments("CartPole-v1", config))
    for first, slowest in ((0, 0.005 + 0.01 / 3), (2, 0.015)):
        vector.unwrapped.renumber(first)
        vector.reset(seed=0)
        vector.step(np.array([0, 1]))
        assert by_fake_time.slept[-1] == pytest.approx(slowest)


def test_a_part_of_a_vector_is_reset_without_the_others(by_fake_time):
    config = SimulatorConfig(step_seconds=0.01, reset_seconds=0.1, spread=3.0, spread_over=2)
    vector = simulated.SimulatedVector(2, "CartPole-v1", {**msgspec.to_builtins(config)})
    vector.reset(seed=[1, 2])
    vector.reset(options={"reset_mask": np.array([True, False])})
    assert by_fake_time.slept == pytest.approx([0.15, 0.05])


def test_wrong_arguments_of_the_registered_environment_are_named():
    with pytest.raises(ConfigError, match="did you mean `step_seconds`"):
        gym.make(simulated.FULL_ID, env="CartPole-v1", simulator={"step_secs": 1})
