"""V-trace: values and advantages of a policy from experience of another (Espeholt et al., 2018, arXiv 1802.01561).

All arrays are [T, B]. `next_value[t]` is the value of the observation that step t led to: where the episode was
truncated, of its last observation. A terminated step has no future; a truncated one is bootstrapped from, but nothing is
passed back over it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Flags = NDArray[np.bool_]


def excess(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Flags,
    truncated: Flags,
    ratio: Array,
    *,
    gamma: float,
    lambda_: float,
    rho_clip: float,
    c_clip: float,
) -> Array:
    """V-trace targets less the values, v_s - V(x_s), by the recursion of remark 1.

    v_s - V(x_s) = rho_s (r_s + gamma V(x_{s+1}) - V(x_s)) + gamma c_s (v_{s+1} - V(x_{s+1})), with
    rho = min(rho_clip, ratio) and c = lambda min(c_clip, ratio) (equation 1, and remark 2 for lambda).

    With a ratio of 1 throughout this is the generalised advantage estimate.

    Parameters
    ----------
    ratio
        pi(a|x) / mu(a|x) of the policy that is learnt and the one that acted.
    """
    delta = np.minimum(ratio, np.float32(rho_clip)) * (reward + gamma * np.where(terminated, 0, next_value) - value)
    carry = (gamma * lambda_) * ~(terminated | truncated) * np.minimum(ratio, np.float32(c_clip))
    result = np.empty(reward.shape, np.float32)
    running = np.zeros(reward.shape[1], np.float32)
    for t in range(reward.shape[0] - 1, -1, -1):
        running = delta[t] + carry[t] * running
        result[t] = running
    return result


def policy_advantages(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Flags,
    truncated: Flags,
    ratio: Array,
    above: Array,
    *,
    gamma: float,
    rho_clip: float,
) -> Array:
    """Weighted advantages of the policy gradient, rho_s (r_s + gamma v_{s+1} - V(x_s)) (section 4.2).

    Parameters
    ----------
    above
        v_s - V(x_s), from `excess`. Behind the last step, and where an episode was truncated, v is the value itself.
    """
    future = np.array(next_value, np.float32)
    future[:-1] += np.where(truncated[:-1], 0, above[1:])
    future[terminated] = 0
    advantage: Array = np.minimum(ratio, np.float32(rho_clip)) * (reward + np.float32(gamma) * future - value)
    return advantage
