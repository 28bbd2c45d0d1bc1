"""Environments whose spaces are as people have them, without any meaning."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Spaced(gym.Env):
    """Draws observations from a space, for episodes of five steps."""

    def __init__(self, observations, actions):
        self.observation_space, self.action_space, self._t = observations, actions, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(np.int64(action) if isinstance(action, int) else action), action
        self._t += 1
        return self.observation_space.sample(), 1.0, self._t == 5, False, {}


class Bits(Spaced):
    """As the games of MinAtar."""

    def __init__(self):
        super().__init__(spaces.Box(0, 1, (10, 10, 6), np.bool_), spaces.Discrete(6))


class Grid(Spaced):
    """As MiniGrid's view of the agent."""

    def __init__(self):
        super().__init__(spaces.Box(0, 255, (7, 7, 3), np.uint8), spaces.Discrete(7))


class Bytes24(Spaced):
    def __init__(self):
        super().__init__(spaces.Box(0, 255, (24, 24, 1), np.uint8), spaces.MultiBinary(3))


class Camera(Spaced):
    def __init__(self):
        super().__init__(spaces.Box(0, 255, (48, 48, 3), np.uint8), spaces.Box(-1.0, 1.0, (2,)))


class Anything(Spaced):
    """Pictures and vectors in spaces within spaces."""

    def __init__(self):
        inner = spaces.Dict(eye=spaces.Box(0, 255, (36, 36, 3), np.uint8), touch=spaces.MultiBinary((2, 2)))
        seen = spaces.Dict(
            inner=inner, map=spaces.Box(0, 1, (12, 12), np.bool_), pair=spaces.Tuple((spaces.Discrete(3), inner))
        )
        super().__init__(seen, spaces.MultiDiscrete([2, 3]))


class Shifted(Spaced):
    def __init__(self):
        super().__init__(spaces.Discrete(4, start=7), spaces.Discrete(3, start=-1))


class Scalar(Spaced):
    def __init__(self):
        super().__init__(spaces.Box(-1.0, 1.0, ()), spaces.Box(-1.0, 1.0, ()))


class Table(Spaced):
    def __init__(self):
        super().__init__(spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.MultiDiscrete([[2, 3], [4, 5]]))


class Doubles(Spaced):
    def __init__(self):
        super().__init__(spaces.Box(-np.inf, np.inf, (2, 3), np.float64), spaces.Box(-2.0, 2.0, (2, 2), np.float64))


class Words(Spaced):
    def __init__(self):
        super().__init__(spaces.Dict(image=spaces.Box(0, 255, (7, 7, 3), np.uint8), mission=spaces.Text(9)), spaces.Discrete(2))


class Nested(Spaced):
    def __init__(self):
        super().__init__(spaces.Discrete(2), spaces.Dict(arm=spaces.Discrete(2), leg=spaces.Discrete(2)))


class Endless(Spaced):
    def __init__(self):
        super().__init__(spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2))


class Net(Spaced):
    def __init__(self):
        super().__init__(spaces.Graph(spaces.Box(-1, 1, (2,)), None), spaces.Discrete(2))
