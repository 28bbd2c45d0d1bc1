"""Generalised advantage estimation (Schulman et al., 2016, arXiv 1506.02438) and V-trace (Espeholt et al., 2018, arXiv
1802.01561). V-trace estimates values and advantages of one policy from the experience of another.

All arrays are [T, B]. `next_value[t]` is the value of the observation after step t. For a truncated step that is the last
observation of its episode. A terminated step has no future value. A truncated step is bootstrapped, and the trace stops there.
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

    v_s - V(x_s) = rho_s (r_s + gamma V(x_{s+1}) - V(x_s)) + gamma c_s (v_{s+1} - V(x_{s+1})).
    Here rho = min(rho_clip, ratio) and c = lambda min(c_clip, ratio); see equation 1, and remark 2 for lambda.

    Parameters
    ----------
    ratio
        pi(a|x) / mu(a|x), with the learnt policy pi and the behaviour policy mu.
    """
    delta = np.minimum(ratio, np.float32(rho_clip)) * (reward + gamma * np.where(terminated, 0, next_value) - value)
    carry = (gamma * lambda_) * ~(terminated | truncated) * np.minimum(ratio, np.float32(c_clip))
    result = np.empty(reward.shape, np.float32)
    running = np.zeros(reward.shape[1], np.float32)
    for t in range(reward.shape[0] - 1, -1, -1):
        running = delta[t] + carry[t] * running
        result[t] = running
    return result


def generalised_advantages(
    reward: Array, value: Array, next_value: Array, terminated: Flags, truncated: Flags, gamma: float, gae_lambda: float
) -> Array:
    """Generalised advantage estimates (equation 16). They equal `excess` bit for bit if both policies are the same."""
    columns = (reward, value, next_value, terminated, truncated, np.ones((), np.float32))
    return excess(*columns, gamma=gamma, lambda_=gae_lambda, rho_clip=1.0, c_clip=1.0)


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
    """Weighted advantages of the policy gradient (section 4.2), rho_s (r_s + gamma v_{s+1} - V(x_s)).

    Parameters
    ----------
    above
        v_s - V(x_s), from `excess`. After the last step, and after a truncated one, v is the value itself.
    """
    future = np.array(next_value, np.float32)
    future[:-1] += np.where(truncated[:-1], 0, above[1:])
    future[terminated] = 0
    advantage: Array = np.minimum(ratio, np.float32(rho_clip)) * (reward + np.float32(gamma) * future - value)
    return advantage
