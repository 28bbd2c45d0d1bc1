"""Advantages and returns of a fragment of experience."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def generalised_advantages(
    reward: NDArray[Any],
    value: NDArray[Any],
    next_value: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float32]:
    """Generalised advantage estimates (Schulman et al., 2016, arXiv 1506.02438, equation 16).

    Parameters
    ----------
    reward, value, next_value : [T, B]
        `next_value[t]` is the value of the observation that step t led to: where the episode was truncated, of its
        last observation, not of the reset one that follows.
    terminated, truncated : [T, B]
        a terminated step has no future; a truncated one is bootstrapped from, but passes nothing back.

    Returns
    -------
    [T, B] float32
    """
    bootstrap = np.where(terminated, 0, next_value)
    delta = reward + gamma * bootstrap - value
    carry = (gamma * gae_lambda) * ~(terminated | truncated)
    advantage = np.empty(reward.shape, np.float32)
    running = np.zeros(reward.shape[1], np.float32)
    for t in range(reward.shape[0] - 1, -1, -1):
        running = delta[t] + carry[t] * running
        advantage[t] = running
    return advantage
