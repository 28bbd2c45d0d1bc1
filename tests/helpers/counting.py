"""An environment whose every row can be checked: single, and as vector environments of the three autoreset modes.

An observation is (name, episode, step). Name is the seed modulo `NAMES`, and episodes are counted from 0. The reward of a step
is the step's number and a quarter of the action. So a row whose action was ignored is found.
"""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

NAMES = 997
ACTIONS = 3
IGNORED = -1e6
"""Reward of a row that is only a reset."""
SPACE = gym.spaces.Box(-1e9, 1e9, (3,), np.float32)


def length(name, episode):
    """Steps of an episode: some are over at once."""
    return 1 + (3 * name + 5 * episode) % 11


def ends(name, episode, step):
    """(terminated, truncated) after this many steps of an episode. Every third one ends in both ways at once."""
    over, way = step == length(name, episode), (name + episode) % 3
    return over and way != 1, over and way != 0


def reward_of(step, action):
    """Reward of the action after which an episode has so many steps."""
    return step + 0.25 * action


class Counting(gym.Env):
    observation_space, action_space = SPACE, gym.spaces.Discrete(ACTIONS)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.name, self.episode = seed % NAMES, -1
        self.episode, self.at = self.episode + 1, 0
        return np.array([self.name, self.episode, 0], np.float32), {}

    def step(self, action):
        self.at += 1
        seen = np.array([self.name, self.episode, self.at], np.float32)
        return seen, reward_of(self.at, action), *ends(self.name, self.episode, self.at), {}


class CountingVector(VectorEnv):
    """The same in one array. With `reuses` every result is written into the same memory, and spoilt before the next."""

    def __init__(self, num_envs, mode=AutoresetMode.SAME_STEP, reuses=False):
        self.num_envs, self.metadata, self.mode, self.reuses = num_envs, {"autoreset_mode": mode}, mode, reuses
        self.single_observation_space, self.single_action_space = SPACE, Counting.action_space
        self.observation_space, self.action_space = batch_space(SPACE, num_envs), batch_space(Counting.action_space, num_envs)
        self.kept = {}

    def result(self, name, array):
        if not self.reuses:
            return array.copy()
        if name not in self.kept:
            self.kept[name] = np.empty_like(array)
        self.kept[name][...] = array
        return self.kept[name]

    def seen(self):
        return self.result("seen", self.state.astype(np.float32))

    def reset(self, *, seed=None, options=None):
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        assert mask.dtype == bool
        if seed is not None:
            listed = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed
            self.state = np.stack([np.array([one % NAMES, -1, 0]) for one in listed])
        self.renew(mask)
        if options is None:
            self.over = np.zeros(self.num_envs, bool)
        else:
            assert mask[self.over].all(), "an episode that ended was not reset"
            assert not mask[~self.over].any(), "an episode that goes on was reset"
            self.over[mask] = False
        return self.seen(), {}

    def renew(self, mask):
        self.state[mask, 1] += 1
        self.state[mask, 2] = 0

    def step(self, actions):
        assert self.action_space.contains(actions)
        for array in self.kept.values():
            array[...] = True if array.dtype == bool else 77
        ignored = self.over if self.mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        assert self.mode is not AutoresetMode.DISABLED or not self.over.any(), "it was stepped after an episode's end"
        self.state[~ignored, 2] += 1
        self.renew(ignored)
        rewards = np.where(ignored, IGNORED, reward_of(self.state[:, 2], actions))
        flags = np.array([ends(*one) for one in self.state.tolist()])
        flags[ignored] = False
        self.over, infos = flags.any(axis=1), {}
        if self.mode is AutoresetMode.SAME_STEP and self.over.any():
            final = np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(self.over):
                final[lane] = self.result(f"final {lane}", self.state[lane].astype(np.float32))
            infos = {"final_obs": final, "_final_obs": self.over.copy()}
            self.renew(self.over)
        terminated, truncated = (self.result(name, flags[:, way]) for way, name in enumerate(("terminated", "truncated")))
        return self.seen(), self.result("rewards", rewards), terminated, truncated, infos
