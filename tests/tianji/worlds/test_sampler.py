"""What a sampler writes is what the environments did: replayed in fresh ones, step by step."""

import time

import gymnasium as gym
import numpy as np
import pytest

from tianji.algorithms import networks
from tianji.config import PPOConfig, TrainConfig
from tianji.envs import describe
from tianji.messages import SlotRef
from tianji.roles.actor import Rollout
from tianji.topology import chunk_layout
from tianji.worlds.sampler import Sampler, choose, epsilon_greedy
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
    network = networks.build(config.network, description.features, description.actions)
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


def test_actions_follow_the_softmax():
    logits = np.log(np.array([[0.2, 0.5, 0.3]], np.float32)).repeat(60_000, axis=0)
    action, log_p = choose(logits, np.random.default_rng(0).random((60_000, 1)))
    np.testing.assert_allclose(np.bincount(action) / 60_000, [0.2, 0.5, 0.3], atol=0.01)
    np.testing.assert_allclose(np.exp(log_p), np.array([0.2, 0.5, 0.3])[action], rtol=1e-5)


def test_choices_stay_in_range_at_the_edges_of_the_noise():
    logits = np.array([[0.0, -200.0], [-200.0, 0.0]], np.float32)
    action, _ = choose(logits, np.array([[np.nextafter(1, 0)], [0.0]]))
    assert action.tolist() == [0, 1]


def test_epsilon_greedy_explores_that_often_and_everywhere():
    values = np.tile(np.array([[0.0, 2.0, 1.0]], np.float32), (60_000, 1))
    action = epsilon_greedy(values, np.random.default_rng(0).random((60_000, 2)), 0.3)
    np.testing.assert_allclose(np.bincount(action) / 60_000, [0.1, 0.8, 0.1], atol=0.01)
    assert set(epsilon_greedy(values, np.random.default_rng(0).random((60_000, 2)), 0.0)) == {1}
