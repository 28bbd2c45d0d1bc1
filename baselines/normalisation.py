"""How programs that normalise by means of their own depart from a workload, and what stands for their statistics in a policy.

It needs Gymnasium and NumPy alone, of any version that a program here has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from tianji.algorithms.networks import FlatNetwork, Vector

MOVING = "Statistics by which observations are normalised move at every step, not once a round."
ALONE = "Rewards are divided by Gymnasium's wrapper, which has statistics of one environment and moves them at every step."
"""What sets them apart from a workload's, as deviations."""


def normalised_rewards(env: Any, gamma: float, clip: float) -> Any:
    """An environment whose rewards are divided by the standard deviation of its discounted returns, and clipped."""
    scaled = gymnasium.wrappers.NormalizeReward(env, gamma=gamma, epsilon=1e-8)
    return gymnasium.wrappers.TransformReward(scaled, lambda reward: float(np.clip(reward, -clip, clip)))


def statistics(network: FlatNetwork, known: Mapping[str, Any] | None) -> dict[str, Vector]:
    """The blocks of a network that no module of a policy has: a temperature, and those by which observations are normalised.

    None known: zeros.
    """
    shapes = {name: shape for name, shape in network.shapes().items() if name.startswith(("normaliser.", "temperature."))}
    return {name: np.zeros(shape, np.float32) if known is None else np.asarray(known[name]) for name, shape in shapes.items()}
