"""What a sampler writes is what the environments did: replayed in fresh ones, step by step."""

import time

import gymnasium as gym
import numpy as np
import pytest

from tianji.algorithms import networks
from tianji.config import PPOConfig, TrainConfig
from tianji.environments.making import describe
from tianji.layout import shortened
from tianji.messages import SlotRef
from tianji.roles.actor import Rollout
from tianji.telemetry import SLOW_STEP, bin_of
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler
from tianji.worlds.workers import chunk_views


class ShortCartPole(gym.Wrapper):
    """Ends episodes by truncation after 7 steps."""

    def __init__(self, env):
        super().__init__(env)
        self.count = 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminated, _, info = self.env.step(action)
        self.count += 1
        return observation, reward, terminated, self.count >= 7, info


@pytest.fixture
def short_env():
    gym.register("ShortCartPole-v0", entry_point=lambda: ShortCartPole(gym.make("CartPole-v1").unwrapped))
    yield "ShortCartPole-v0"
    del gym.registry["ShortCartPole-v0"]


def sample(env_id, index, envs_per_actor, fragments=2, steps=32):
    config = TrainConfig(env=env_id, seed=5, actors=2, envs_per_actor=envs_per_actor, ppo=PPOConfig(rollout_steps=steps))
    description = describe(env_id)
    layout = chunk_layout(config, description)
    slots = {}
    body = chunk_views(layout, lambda slot: slots.setdefault(slot, bytearray(layout.capacity_bytes)))
    sampler = Sampler(config, description, layout, body, index, time.monotonic_ns)
    network = networks.of(config, description)
    sampler.weights()[:] = network.initialise(0)
    done = [sampler.run(Rollout(SlotRef(0, k))) for k in range(fragments)]
    episodes = sampler.take_finished()
    sampler.close()
    return [body(d.slot) for d in done], done, episodes, network


def test_chunks_hold_what_happened(short_env):
    views, done, episodes, network = sample(short_env, 0, 3)
    env_seeds = [int(np.random.SeedSequence(5, spawn_key=(0, e)).generate_state(2)[0]) for e in range(3)]
    lengths = []
    for e, seed in enumerate(env_seeds):
        env = gym.make(short_env)
        observation, _ = env.reset(seed=seed)
        total = 0
        for view in views:
            finals = 0
            for t in range(32):
                np.testing.assert_array_equal(view["observation"][t, e], observation)
                observation, reward, terminated, truncated, _ = env.step(int(view["action"][t, e]))
                total += 1
                assert view["reward"][t, e] == np.float32(reward)
                assert view["terminated"][t, e] == terminated
                assert view["truncated"][t, e] == (truncated and not terminated)
                if terminated or truncated:
                    if not terminated:
                        place = np.flatnonzero(view["truncated"].reshape(-1)).tolist().index(t * 3 + e)
                        np.testing.assert_array_equal(view["final_observation"][place], observation)
                        finals += 1
                    lengths.append(total)
                    total = 0
                    observation, _ = env.reset()
            assert finals == view["truncated"][:, e].sum() > 0
        env.close()
    assert sorted(lengths) == sorted(episode.length for episode in episodes)
    assert [d.ragged_rows for d in done] == [int(v["truncated"].sum()) for v in views]
    for view in views:
        logits = network.scores(network.views(network.initialise(0)), view["observation"][:-1].reshape(-1, 4))
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        chosen = log_p[np.arange(96), view["action"].reshape(-1)]
        np.testing.assert_allclose(view["log_probability"].reshape(-1), chosen, atol=1e-6)


def test_environments_are_the_same_however_they_are_dealt_out():
    (whole, *_), *_ = sample("CartPole-v1", 0, 8, fragments=1)
    (second, *_), *_ = sample("CartPole-v1", 1, 4, fragments=1)
    for name in ("observation", "action", "reward", "log_probability"):
        assert np.array_equal(whole[name][:, 4:], second[name])


def slices(sampler, slot, until, then):
    """Let a sampler work on, and do something once so many slices are done."""
    work, done = sampler.work(Rollout(slot)), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        done += 1
        if done == until:
            then()


def test_a_fragment_that_is_cut_holds_what_happened_and_the_next_goes_on_from_there(short_env):
    # In lockstep slices do not depend on a clock: a busy machine makes a step slow.
    config = TrainConfig(env=short_env, seed=5, actors=1, envs_per_actor=3, world="lockstep", ppo=PPOConfig(rollout_steps=32))
    description = describe(short_env)
    layout = chunk_layout(config, description)
    slots = {}
    body = chunk_views(layout, lambda slot: slots.setdefault(slot, bytearray(layout.capacity_bytes)))
    sampler = Sampler(config, description, layout, body, 0, time.monotonic_ns)
    done = [slices(sampler, SlotRef(0, 0), 2, sampler.cut), sampler.run(Rollout(SlotRef(0, 1)))]
    sampler.close()
    assert [one.count for one in done] == [16 * 3, 32 * 3]
    views = [shortened(body(one.slot), one.count // 3) for one in done]
    assert [len(view["observation"]) for view in views] == [17, 33]
    assert sampler.steps == 48 * 3
    joined = {name: np.concatenate([view[name] for view in views]) for name in ("action", "reward", "terminated", "truncated")}
    seen = np.concatenate([views[0]["observation"][:-1], views[1]["observation"]])
    np.testing.assert_array_equal(views[0]["observation"][-1], views[1]["observation"][0])
    assert done[0].ragged_rows == np.count_nonzero(views[0]["truncated"]) > 0
    for e in range(3):
        env = gym.make(short_env)
        observation, _ = env.reset(seed=int(np.random.SeedSequence(5, spawn_key=(0, e)).generate_state(2)[0]))
        for t in range(48):
            np.testing.assert_array_equal(seen[t, e], observation)
            observation, reward, terminated, truncated, _ = env.step(int(joined["action"][t, e]))
            assert joined["reward"][t, e] == np.float32(reward)
            assert (joined["terminated"][t, e], joined["truncated"][t, e]) == (terminated, truncated and not terminated)
            if terminated or truncated:
                observation, _ = env.reset()
        env.close()


def test_rows_that_follow_newer_weights_are_named():
    config = TrainConfig(
        env="CartPole-v1", seed=5, actors=1, envs_per_actor=2, world="lockstep", ppo=PPOConfig(rollout_steps=32)
    )
    description = describe("CartPole-v1")
    layout = chunk_layout(config, description)
    memory = bytearray(layout.capacity_bytes)
    sampler = Sampler(config, description, layout, lambda slot: layout.views(memory), 0, time.monotonic_ns)

    def renew():
        # Weights by which the second action is all but certain.
        sampler.network.views(sampler.weights())["policy.bias"][:] = (-50, 50)
        sampler.renewed(7)

    done = slices(sampler, SlotRef(0, 0), 2, renew)
    sampler.close()
    assert done.renewals == ((16, 7),)
    action = layout.views(memory)["action"]
    assert action[16:].all()
    assert not action[:16].all()


def sampler_of(config, clock=time.monotonic_ns):
    description = describe(config.env)
    layout = chunk_layout(config, description)
    slots = {}
    body = chunk_views(layout, lambda slot: slots.setdefault(slot, bytearray(layout.capacity_bytes)))
    return Sampler(config, description, layout, body, 0, clock), body


def test_a_brief_fragment_is_one_step_and_the_next_one_goes_on_from_it():
    config = TrainConfig(env="CartPole-v1", actors=1, envs_per_actor=2, ppo=PPOConfig(rollout_steps=16))
    whole, whole_body = sampler_of(config)
    parts, body = sampler_of(config)
    (long,) = (whole.run(Rollout(SlotRef(0, 0))),)
    brief, rest = parts.run(Rollout(SlotRef(0, 0), brief=True)), parts.run(Rollout(SlotRef(0, 1)))
    assert (long.count, brief.count, rest.count) == (32, 2, 32)
    assert parts.steps == 34
    expected, first, then = whole_body(long.slot), shortened(body(brief.slot), 1), body(rest.slot)
    np.testing.assert_array_equal(first["observation"], expected["observation"][:2])
    np.testing.assert_array_equal(first["action"], expected["action"][:1])
    np.testing.assert_array_equal(then["observation"][0], first["observation"][1])


@pytest.mark.parametrize(
    ("step_ns", "world", "slices"), [(2_000_000, "real", 15), (1_000, "real", 1), (2_000_000, "lockstep", 1)]
)
def test_an_actor_of_slow_steps_looks_for_messages_after_each(step_ns, world, slices):
    now = iter(range(0, 10**12, step_ns))
    config = TrainConfig(env="CartPole-v1", actors=1, envs_per_actor=2, ppo=PPOConfig(rollout_steps=16), world=world)
    sampler, _ = sampler_of(config, lambda: next(now))
    assert sum(1 for _ in sampler.work(Rollout(SlotRef(0, 0)))) == slices
    # From the choice of an action to its result are two steps of this clock. One timed step in eight stands for all.
    recorded = {bin_of(2 * step_ns): 16} if slices == 15 else {}
    assert sampler.account.took.get(SLOW_STEP, {}) == recorded
    sampler.cut()
    work = sampler.work(Rollout(SlotRef(0, 0)))
    next(work)
    sampler.cut()
    with pytest.raises(StopIteration) as end:
        next(work)
    assert end.value.value.count == (2 if slices == 15 else 16)
    # After a fragment of slow steps each one is timed.
    assert sum(sampler.account.took.get(SLOW_STEP, {}).values()) == (16 + 1 if slices == 15 else 0)


def test_the_fragment_after_one_that_was_dropped_does_not_go_on_from_the_one_before():
    class Spoilt(gym.Wrapper):
        steps = 0

        def step(self, action):
            observation, reward, *rest = self.env.step(action)
            Spoilt.steps += 1
            return observation, np.nan if Spoilt.steps == 40 else reward, *rest

    gym.register("Spoilt-v0", entry_point=lambda: Spoilt(gym.make("CartPole-v1").unwrapped))
    try:
        sampler, _ = sampler_of(
            TrainConfig(
                env="Spoilt-v0",
                actors=1,
                envs_per_actor=2,
                not_finite="drop",
                world="lockstep",
                ppo=PPOConfig(rollout_steps=16),
            )
        )
        done = [sampler.run(Rollout(SlotRef(0, number))) for number in range(4)]
    finally:
        del gym.registry["Spoilt-v0"]
    assert [(one.count, one.goes_on) for one in done if one.count] == [(32, False), (32, False), (32, True)]
    assert done[1].count == 0
    sampler.close()
