"""What a learner of a policy reports of its training: losses, divergence, clipping.

It is computed after a round, from the minibatch that was trained on last and under the weights after it, and changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tianji.algorithms.distributions import from_scores
from tianji.algorithms.rollouts import Rollouts, Updater
from tianji.environments.actions import Actions
from tianji.hyperparameters import PolicyGradientConfig, PPOConfig


def of_policy(updater: Updater, actions: Actions, batch: Rollouts, config: PolicyGradientConfig) -> dict[str, float]:
    """Metrics of a policy and a value on one batch.

    The divergence is Schulman's estimate, the mean of r - 1 - log r, of the policy around which the loss clips from the present
    one (http://joschu.net/blog/kl-approx.html). The explained variance is 1 - Var(target - V) / Var(target).
    """
    scores, value = updater.both(batch.features)
    policy = from_scores(actions, scores)
    now = policy.log_probability(batch.action)
    log_ratio = now - batch.log_probability
    ratio, entropy = np.exp(log_ratio), float(policy.entropy().mean())
    found: dict[str, Any] = {
        "value_loss": np.square(value - batch.value_target).mean(),
        "entropy": entropy,
        "approx_kl": (ratio - 1 - log_ratio).mean(),
    }
    if isinstance(config, PPOConfig):
        clipped = np.clip(ratio, 1 - config.clip, 1 + config.clip)
        found["policy_loss"] = -np.minimum(ratio * batch.advantage, clipped * batch.advantage).mean()
        found["clip_fraction"] = (np.abs(ratio - 1) > config.clip).mean()
    else:
        found["policy_loss"] = -(now * batch.advantage).mean()
    known = value if batch.value is None else batch.value
    spread = float(batch.value_target.var())
    if spread:
        found["explained_variance"] = 1 - (batch.value_target - known).var() / spread
    return found
