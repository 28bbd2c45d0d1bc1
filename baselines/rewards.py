"""Rewards as Gymnasium's wrappers normalise them, for programs that have no statistics of returns themselves.

It needs Gymnasium and NumPy alone, of any version that a program here has.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

ALONE = "Rewards are divided by Gymnasium's wrapper, which has statistics of one environment and moves them at every step."
"""What sets them apart from a workload's, as a deviation."""


def normalised(env: Any, gamma: float, clip: float) -> Any:
    """An environment whose rewards are divided by the standard deviation of its discounted returns, and clipped."""
    scaled = gymnasium.wrappers.NormalizeReward(env, gamma=gamma, epsilon=1e-8)
    return gymnasium.wrappers.TransformReward(scaled, lambda reward: float(np.clip(reward, -clip, clip)))
