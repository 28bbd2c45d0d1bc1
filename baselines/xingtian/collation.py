"""A batch of chunks whose producers have computed advantages and values, as XingTian's explorers do."""

from __future__ import annotations

from collections.abc import Sequence

from tianji.algorithms.rollouts import Rollouts, by_length, joined, observations
from tianji.environments.description import EnvDescription
from tianji.layout import Views


@by_length
def collate(chunks: Sequence[Views], describe: EnvDescription) -> Rollouts:
    """Batch of chunks with the fields `advantage` and `value`. It equals `tianji.algorithms.ppo.assess` bit for bit."""
    action, log_probability, advantage, value = (
        joined(chunks, name).reshape(-1) for name in ("action", "log_probability", "advantage", "value")
    )
    features = observations(chunks, describe)[0][: len(action)]
    return Rollouts(features, action, log_probability, advantage, advantage + value, value)
