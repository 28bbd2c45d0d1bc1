"""Chunks from vector environments of the three autoreset modes: each row is checked by the environment's rule."""

import time
from contextlib import contextmanager

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.helpers.counting import Counting, CountingVector, ends, length, reward_of
from tianji.algorithms.replay import Experience, Replay
from tianji.config import DQNConfig, EnvironmentConfig, NormaliseConfig, PPOConfig, TrainConfig
from tianji.layout import shortened, stacked
from tianji.messages import ACTOR_STEPS, SlotRef
from tianji.roles.actor import Rollout
from tianji.run.training import check
from tianji.topology import chunk_layout
from tianji.worlds import lanes
from tianji.worlds.lanes import SURPLUS, LaneSampler
from tianji.worlds.sampler import Sampler
from tianji.worlds.workers import chunk_views

B, T = 5, 24


@contextmanager
def registered(mode):
    """Context with the id of a counting environment whose vector form has this mode."""
    gym.register(
        "Counting-v0",
        entry_point=Counting,
        vector_entry_point=lambda num_envs: CountingVector(num_envs, mode, reuses=True),
        disable_env_checker=True,
    )
    yield "Counting-v0"
    del gym.registry["Counting-v0"]


@pytest.fixture(params=AutoresetMode, ids=lambda mode: mode.name)
def counting(request):
    """An environment of each mode in turn, and the mode."""
    with registered(request.param) as env:
        yield env, request.param


@pytest.fixture
def next_step():
    with registered(AutoresetMode.NEXT_STEP) as env:
        yield env


def made(env, vector, stack=1, **more):
    config = TrainConfig(
        env=env,
        seed=5,
        actors=1,
        envs_per_actor=B,
        world="lockstep",
        environment=EnvironmentConfig(vector=vector, stack=stack),
        **{"ppo": PPOConfig(rollout_steps=T), **more},
    )
    description = check(config)
    layout = chunk_layout(config, description)
    slots = {}
    body = chunk_views(layout, lambda slot: slots.setdefault(slot, bytearray(layout.capacity_bytes)))
    sampler = lanes.sampler(config, description, layout, body, 0, time.monotonic_ns)
    sampler.weights()[:] = sampler.network.initialise(0)
    return sampler, body, description


def cut_after(sampler, slot, slices):
    """Let a sampler work for some slices, and cut the fragment."""
    work = sampler.work(Rollout(slot))
    for _ in range(slices):
        next(work)
    sampler.cut()
    with pytest.raises(StopIteration) as end:
        next(work)
    return end.value.value


def checked(view):
    """Check each row against the rule. Returns the first states by lane, kinds of ends, and last observations."""
    steps, finals, kinds = len(view["action"]), 0, set()
    for t in range(steps):
        for lane in range(B):
            name, episode, at = view["observation"][t, lane].astype(int).tolist()
            action = view["action"][t, lane]
            assert at < length(name, episode), "an action was taken after an episode's end"
            assert view["reward"][t, lane] == reward_of(at + 1, action)
            over = ends(name, episode, at + 1)
            assert (view["terminated"][t, lane], view["truncated"][t, lane]) == (over[0], over[1] and not over[0])
            if any(over):
                kinds.add(over)
            if over == (False, True):
                assert view["final_observation"][finals].tolist() == [name, episode, at + 1]
                finals += 1
            following = [name, episode + 1, 0] if any(over) else [name, episode, at + 1]
            # No row acts on the observation after the last step of a chunk if the episode ended there.
            if t + 1 < steps or not any(over):
                assert view["observation"][t + 1, lane].tolist() == following
    return view["observation"][0].astype(int).tolist(), kinds, finals


def count_of(name, episode, at):
    """Steps of a lane before this state."""
    return sum(length(name, earlier) for earlier in range(episode)) + at


def test_the_first_chunk_is_that_of_single_environments_row_for_row(counting):
    env, mode = counting
    vector, body, description = made(env, "always")
    single, other, _ = made(env, "never")
    assert description.autoreset == mode.value
    assert (type(vector), type(single)) == (LaneSampler if mode is AutoresetMode.NEXT_STEP else Sampler, Sampler)
    for fragment in range(1 if mode is AutoresetMode.NEXT_STEP else 3):
        ours, reference = (one.run(Rollout(SlotRef(0, fragment))) for one in (vector, single))
        assert ours == reference
        ours, reference = body(ours.slot), other(reference.slot)
        over = ours["terminated"] | ours["truncated"]
        assert over.any()
        for name in ("action", "reward", "terminated", "truncated", "log_probability", "final_observation"):
            np.testing.assert_array_equal(ours[name], reference[name])
        np.testing.assert_array_equal(ours["observation"][:-1], reference["observation"][:-1])
        np.testing.assert_array_equal(ours["observation"][-1][~over[-1]], reference["observation"][-1][~over[-1]])
    ours, reference = (
        sorted((one.episode_return, one.length) for one in sampler.take_finished()) for sampler in (vector, single)
    )
    if mode is AutoresetMode.NEXT_STEP:
        # Lanes that are ahead have gone on.
        assert all(one in ours for one in reference)
    else:
        assert ours == reference
    for sampler in (vector, single):
        sampler.close()


def test_chunks_hold_each_lanes_steps_in_a_row_and_the_rest_is_counted(counting):
    env, mode = counting
    sampler, body, _ = made(env, "always")
    position, known, skipped, total, kinds = np.zeros(B, int), 0, 0, 0, set()
    for fragment in range(16):
        is_cut, slot = fragment % 4 == 1, SlotRef(0, fragment)
        done = cut_after(sampler, slot, 2) if is_cut else sampler.run(Rollout(slot))
        filled = done.count // B
        # A fragment that is cut after two slices has up to 16 rows.
        assert 0 < filled <= 16 if is_cut else filled == T
        assert done.count == B * filled
        total += done.count
        view = shortened(body(done.slot), filled)
        first, more, finals = checked(view)
        kinds |= more
        assert done.ragged_rows == finals
        begun = np.array([count_of(*state) for state in first])
        assert done.goes_on == (fragment > 0 and (begun == position).all())
        assert (begun >= position).all()
        # What was skipped is the surplus of the chunk before.
        skipped += int((begun - position).sum())
        assert skipped == known
        position, known = begun + filled, sampler.progress().get(SURPLUS, 0)
    assert sampler.steps == sampler.progress()[ACTOR_STEPS] == total
    assert (known > 0) == (mode is AutoresetMode.NEXT_STEP)
    assert kinds == {(True, False), (False, True), (True, True)}
    for one in sampler.take_finished():
        assert 1 <= one.length <= 11
        low, high = (sum(reward_of(at, action) for at in range(1, one.length + 1)) for action in (0, 2))
        assert low <= one.episode_return <= high
    sampler.close()


def test_surplus_steps_have_noise_of_their_own(next_step):
    sampler, _, _ = made(next_step, "always")
    explore, drawn = sampler._explore, []

    def noted(blocks, seen, noise, *rest):
        drawn.append(np.where(sampler._envs.pending, np.nan, noise[:, 0]))
        return explore(blocks, seen, noise, *rest)

    sampler._explore = noted
    for number in range(4):
        sampler.run(Rollout(SlotRef(0, number)))
    used = np.concatenate(drawn)
    used = used[~np.isnan(used)]
    assert len(used) > sampler.steps
    assert len(np.unique(used)) == len(used)
    sampler.close()


def test_stacks_are_those_of_the_episode(next_step):
    sampler, body, _ = made(next_step, "always", stack=3)
    for fragment in range(6):
        done = sampler.run(Rollout(SlotRef(0, fragment)))
        observations, finals = stacked(body(done.slot), 3)
        over = body(done.slot)["terminated"] | body(done.slot)["truncated"]
        for t in range(T + 1):
            for lane in range(B):
                if t == T and over[T - 1, lane]:
                    continue  # No row acts on it.
                name, episode, at = observations[t, lane, -1].astype(int).tolist()
                assert observations[t, lane].tolist() == [[name, episode, max(0, at - back)] for back in (2, 1, 0)]
        for stack in finals:
            name, episode, at = stack[-1].astype(int).tolist()
            assert at == length(name, episode)
            assert stack.tolist() == [[name, episode, max(0, at - back)] for back in (2, 1, 0)]
    sampler.close()


def test_statistics_are_those_of_the_rows_that_a_chunk_holds(next_step):
    settings = NormaliseConfig(observations=True, rewards=True)
    vector, body, _ = made(next_step, "always", normalise=settings)
    single, other, _ = made(next_step, "never", normalise=settings)
    first, reference = (one.run(Rollout(SlotRef(0, 0))) for one in (vector, single))
    ours, theirs = body(first.slot), other(reference.slot)
    np.testing.assert_allclose(ours["statistics"], theirs["statistics"], rtol=1e-12)
    for name in ("action", "reward", "terminated", "truncated", "log_probability"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    np.testing.assert_array_equal(ours["observation"][:-1], theirs["observation"][:-1])
    cut = cut_after(vector, SlotRef(0, 1), 1)
    assert (body(cut.slot)["statistics"][:, 0] == cut.count // B).all()
    for sampler in (vector, single):
        sampler.close()


@pytest.mark.parametrize("stack", [1, 3])
def test_a_replay_never_joins_steps_between_which_others_were_left_out(next_step, stack):
    sampler, body, description = made(next_step, "always", stack, algo="dqn", dqn=DQNConfig(train_every_steps=B * 6))
    replay, gaps = Replay(10_000, B, description), 0
    for number in range(30):
        done = sampler.run(Rollout(SlotRef(0, number % 4)))
        gaps += number > 0 and not done.goes_on
        replay.insert(Experience(shortened(body(done.slot), done.count // B), 0, number, done.goes_on))
    assert gaps
    drawn = replay.draw(np.random.default_rng(0), 4000)
    for before, after, action, reward, terminated in zip(
        *(drawn[name] for name in ("observation", "next_observation", "action", "reward", "terminated")), strict=True
    ):
        latest, following = (before[-1], after[-1]) if stack > 1 else (before, after)
        name, episode, at = latest.astype(int).tolist()
        assert reward == reward_of(at + 1, action)
        assert terminated == ends(name, episode, at + 1)[0]
        if not terminated:
            assert following.tolist() == [name, episode, at + 1]
        if stack > 1:
            assert before.tolist() == [[name, episode, max(0, at - back)] for back in (2, 1, 0)]
    sampler.close()


def test_the_same_seed_gives_the_same_chunks():
    chunks = []
    for _ in range(2):
        sampler, body, description = made("CartPole-v1", "always")
        assert description.autoreset == AutoresetMode.NEXT_STEP.value
        chunks.append([{k: v.copy() for k, v in body(sampler.run(Rollout(SlotRef(0, n))).slot).items()} for n in range(4)])
        sampler.close()
    for one, other in zip(*chunks, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_brief_fragment_is_one_step_of_each_lane(next_step):
    sampler, body, _ = made(next_step, "always")
    counts = set()
    for number in range(12):
        done = sampler.run(Rollout(SlotRef(0, number % 4), brief=True))
        counts.add(done.count)
        checked(shortened(body(done.slot), 1))
    assert counts == {B}
    sampler.close()


def test_what_an_episode_ends_with_need_not_be_finite(next_step):
    class Odd(CountingVector):
        def step(self, actions):
            seen, rewards, terminated, *rest = super().step(actions)
            seen[terminated] = np.nan
            return seen, rewards, terminated, *rest

    gym.registry[next_step].vector_entry_point = lambda num_envs: Odd(num_envs, AutoresetMode.NEXT_STEP)
    sampler, body, _ = made(next_step, "always")
    for number in range(12):
        done = sampler.run(Rollout(SlotRef(0, number % 4)))
        assert done.count == B * T
        assert np.isfinite(body(done.slot)["observation"]).all()
    sampler.close()


def test_a_sampler_of_whole_rows_refuses_a_vector_that_resets_in_a_step_of_its_own():
    sampler, body, description = made("CartPole-v1", "always")
    sampler.close()
    config = TrainConfig(env="CartPole-v1", envs_per_actor=2, environment=EnvironmentConfig(vector="always"))
    with pytest.raises(TypeError, match=r"use tianji\.worlds\.lanes\.sampler"):
        Sampler(config, description, chunk_layout(config, description), body, 0, time.monotonic_ns)
