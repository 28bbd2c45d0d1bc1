"""Atari's wrappers, on a game made up for it and on real ones."""

import importlib.util
import subprocess
import sys
import time

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from programs.cli import ConfigError
from tianji.algorithms import networks
from tianji.config import AtariConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.environments import atari
from tianji.environments.making import describe, make_env
from tianji.layout import rollout_layout, stacked
from tianji.messages import SlotRef
from tianji.policy import Policy
from tianji.roles.actor import Rollout
from tianji.run.play import Player, games_of
from tianji.worlds.sampler import Sampler


class Game(gym.Env):
    """Three lives; action 2 loses one; every step scores 5, and the last life is shown as 0 before the game is over."""

    observation_space = gym.spaces.Box(0, 255, (1,), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def __init__(self):
        self.pressed, self.resets, self.clock = [], 0, 0

    def get_action_meanings(self):
        return ["NOOP", "RIGHT", "LEFT", "FIRE"]

    def reset(self, *, seed=None, options=None):
        self.lives, self.linger, self.resets = 3, 0, self.resets + 1
        return self._frame(), {"lives": 3}

    def step(self, action):
        self.pressed.append(action)
        if action == 2 and self.lives:
            self.lives -= 1
        elif not self.lives:
            self.linger += 1
        return self._frame(), 5.0, self.linger == 1, False, {"lives": self.lives}

    def _frame(self):
        self.clock += 1
        return np.array([self.clock], np.uint8)


def test_a_lost_life_ends_an_episode_and_the_game_goes_on():
    game = Game()
    env = atari.EpisodicLife(game)
    env.reset(seed=1)
    assert env.step(0)[2] is False
    last, _, terminated, _, _ = env.step(2)
    assert terminated
    assert game.resets == 1
    first, _ = env.reset()
    assert np.array_equal(first, last), "no step is made that nobody sees"
    assert game.resets == 1
    assert env.step(2)[2] is True
    env.reset()
    _, _, terminated, _, info = env.step(2)
    assert info["lives"] == 0
    assert not terminated, "it shows no lives, but is not over"
    assert env.step(0)[2] is True
    env.reset()
    assert game.resets == 2
    assert env.step(0)[2] is False


def test_a_reset_amid_a_life_or_with_a_seed_starts_anew():
    game = Game()
    env = atari.EpisodicLife(game)
    env.reset()
    env.step(0)
    env.reset()
    assert game.resets == 2
    env.step(2)
    env.reset(seed=3)
    assert game.resets == 3


def test_fire_is_pressed_at_the_start_of_every_life():
    game = Game()
    env = atari.FireReset(atari.EpisodicLife(game), 3)
    first, _ = env.reset()
    assert game.pressed == [3]
    assert first[0] == game.clock, "what is seen first is what FIRE led to"
    env.step(2)
    env.reset()
    assert game.pressed == [3, 2, 3]


def test_a_game_that_ends_when_fire_is_pressed_is_told_with_the_reset():
    class Brittle(Game):
        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, action == 3 and self.resets == 1, truncated, info

    game = Brittle()
    env = atari.FireReset(gym.wrappers.RecordEpisodeStatistics(game), 3)
    _, info = env.reset()
    assert game.resets == 2
    assert (info["episode"]["r"], info["episode"]["l"]) == (5.0, 1)


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_without_the_extra_one_line_says_what_to_install(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    with pytest.raises(ConfigError, match=rf"ALE/Pong-v5: .*{missing} not installed.*tianji-bench\[atari\]") as raised:
        describe("ALE/Pong-v5")
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def ale():
    pytest.importorskip("ale_py", reason="needs ale-py, of the extra `atari`")
    pytest.importorskip("cv2", reason="needs opencv, of the extra `atari`")


@pytest.mark.usefixtures("ale")
class TestRealGames:
    def test_games_are_described_with_their_stacks(self):
        pong = describe("ALE/Pong-v5")
        assert (pong.observation_shape, pong.observation_dtype, pong.actions.outputs) == ((84, 84), "|u1", 6)
        assert pong.features == (4, 84, 84)
        assert describe("ALE/Breakout-v5", AtariConfig(screen=42, stack=2)).features == (2, 42, 42)

    def test_nothing_is_printed(self):
        code = "from tianji.environments.making import describe; describe('ALE/Pong-v5')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout + done.stderr == ""

    def test_a_name_that_is_near_is_suggested(self):
        with pytest.raises(ConfigError, match="did you mean ALE/Pong-v5"):
            describe("ALE/Pongg-v5")

    def test_one_step_is_four_frames_and_sticky_actions_are_off(self):
        env = atari.make_game("ALE/Breakout-v5", AtariConfig(noop_max=0, episodic_life=False, fire_reset=False))
        _, info = env.reset(seed=0)
        before = info["episode_frame_number"]
        assert [env.step(0)[4]["episode_frame_number"] - before for _ in range(3)] == [4, 8, 12]
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.0
        env.close()

    def test_episodes_begin_after_no_ops_that_the_seed_decides(self):
        starts = []
        for seed in (0, 0, 1, 2, 3):
            env = atari.make_game("ALE/Pong-v5", AtariConfig(fire_reset=False))
            starts.append(env.reset(seed=seed)[1]["episode_frame_number"])
            env.close()
        assert starts[0] == starts[1]
        assert len(set(starts)) > 2
        assert all(1 <= start <= 30 for start in starts)

    def test_lives_and_rewards_are_the_learners_and_the_game_is_told_whole(self):
        """Breakout, played at random to its end: five lives, and a score that clipped lives would not show."""
        env = atari.make_game("ALE/Breakout-v5", AtariConfig())
        rng, lives, steps, total = np.random.default_rng(0), 0, 0, 0.0
        env.reset(seed=4)
        while True:
            _, reward, terminated, _, info = env.step(int(rng.integers(4)))
            assert reward in (-1.0, 0.0, 1.0)
            total, steps = total + reward, steps + 1
            if terminated:
                lives += 1
                if "episode" in info:
                    break
                env.reset()
        env.close()
        assert lives == 5
        assert info["lives"] == 0
        assert info["episode"]["l"] == steps + 5, "FIRE is pressed once a life"
        assert info["episode"]["r"] >= total > 0

    def test_what_the_learner_sees_is_clipped_and_what_is_told_is_not(self):
        """Space Invaders scores 5 to 30 a hit."""
        clipped, raw = (
            atari.make_game("ALE/SpaceInvaders-v5", AtariConfig(noop_max=0, clip_rewards=clip)) for clip in (True, False)
        )
        rng, rewards = np.random.default_rng(1), []
        for env in (clipped, raw):
            env.reset(seed=0)
        for _ in range(150):
            action = int(rng.integers(6))
            rewards.append((clipped.step(action)[1], raw.step(action)[1]))
        seen, scored = np.array(rewards).T
        assert scored.max() >= 5
        assert np.array_equal(seen, np.sign(scored))
        for env in (clipped, raw):
            env.close()


def sampled(env_id, steps, games):
    config = TrainConfig(
        env=env_id,
        actors=1,
        envs_per_actor=2,
        network=NetworkConfig(kind="mlp-shared", hidden=(8,)),
        ppo=PPOConfig(rollout_steps=steps),
        atari=games,
    )
    description = describe(env_id, games)
    shape, dtype = description.observation_shape, description.observation_dtype
    layout = rollout_layout(steps, 2, shape, dtype, behaviour=True, stack=description.stack)
    slots = {}
    sampler = Sampler(
        config,
        description,
        layout,
        lambda slot: layout.views(slots.setdefault(slot, bytearray(layout.capacity_bytes))),
        0,
        time.monotonic_ns,
    )
    sampler.weights()[:] = sampler.network.initialise(0)
    return config, sampler, lambda: layout.views(slots[SlotRef(0, sampler.run(Rollout(SlotRef(0, 0))).slot.slot)])


@pytest.mark.long(why="whole games")
@pytest.mark.usefixtures("ale")
def test_a_sampler_tells_whole_games_and_writes_each_frame_once():
    games = AtariConfig(screen=42, stack=3)
    config, sampler, run = sampled("ALE/Breakout-v5", 64, games)
    mirror = SyncVectorEnv([lambda: make_env(config.env, games)] * 2, autoreset_mode=AutoresetMode.SAME_STEP, copy=False)
    seeds = [int(np.random.SeedSequence(0, spawn_key=(0, e)).generate_state(2)[0]) for e in range(2)]
    frames = np.array(mirror.reset(seed=seeds)[0])
    told, ended, episodes = [], 0, []
    for _ in range(8):
        views = run()
        seen, _ = stacked(views, 3)
        logits = sampler.network.scores(sampler.network.views(sampler.weights()), seen[:-1].reshape(-1, 3, 42, 42))
        chosen = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        taken = np.take_along_axis(chosen, views["action"].reshape(-1, 1), 1)[:, 0]
        np.testing.assert_allclose(views["log_probability"].reshape(-1), taken, atol=1e-5)
        for t in range(64):
            assert np.array_equal(views["observation"][2 + t], frames)
            assert np.array_equal(seen[t, :, -1], frames)
            _, reward, terminated, _, info = mirror.step(views["action"][t])
            frames = np.array(mirror._observations)
            assert np.array_equal(views["reward"][t], reward)
            assert np.array_equal(views["terminated"][t], terminated)
            ended += int(terminated.sum())
            for i in np.flatnonzero(info.get("final_info", {}).get("_episode", ())):
                game = info["final_info"]["episode"]
                told.append((float(game["r"][i]), int(game["l"][i])))
        episodes += sampler.take_finished()
    sampler.close()
    mirror.close()
    assert [(e.episode_return, e.length) for e in episodes] == told
    assert 1 <= len(told) < ended, "lives end more often than games"
    assert all(length > 5 for _, length in told)


@pytest.mark.long(why="whole games")
@pytest.mark.usefixtures("ale")
def test_a_player_plays_whole_games_for_their_score():
    games = AtariConfig(screen=42, stack=2, noop_max=3)
    description = describe("ALE/SpaceInvaders-v5", games)
    network = networks.build(NetworkConfig(kind="mlp-q", hidden=(4,)), description.features, description.actions)
    policy = Policy(network, np.zeros(network.size, np.float32))
    fire = 1
    network.views(policy.weights)["q.1.bias"][fire] = 1.0
    assert games_of(policy) == AtariConfig(screen=42, stack=2)
    player = Player("ALE/SpaceInvaders-v5", 2, games)
    try:
        returns = player.play(policy, [3, 4])
        lives = [env.unwrapped.ale.lives() for env in player._envs.envs]
        assert np.array_equal(player.play(policy, [3, 4]), returns)
    finally:
        player.close()
    assert lives == [0, 0]
    assert (returns % 5 == 0).all()
    # Alone its shots that hit are fewer: a return of clipped rewards would be their number.
    assert returns.min() >= 50


def test_the_background_is_black_and_what_moves_is_not():
    """Against a slow definition, over play of another seed."""
    config = AtariConfig(screen=42, subtract_background=True, noop_max=0)
    plain = atari.make_game("ALE/Pong-v5", msgspec.structs.replace(config, subtract_background=False))
    env = atari.make_game("ALE/Pong-v5", config)
    still = atari.background("ALE/Pong-v5", 42, 4, 0)
    assert still.shape == (42, 42)
    seen = []
    plain.reset(seed=3)
    env.reset(seed=3)
    for step in range(60):
        frame, before = env.step(step % 6)[0], plain.step(step % 6)[0]
        slow = [[min(255, 3 * abs(int(before[y, x]) - int(still[y, x]))) for x in range(42)] for y in range(42)]
        assert frame.tolist() == slow
        assert frame.dtype == np.uint8
        seen.append(frame)
    black = np.mean(np.stack(seen) == 0)
    assert 0.9 < black < 1
    plain.close()
    env.close()
