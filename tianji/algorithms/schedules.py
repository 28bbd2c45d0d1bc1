"""Rates that follow environment steps."""

from __future__ import annotations

from tianji.config import IMPALAConfig, PPOConfig


def learning_rate(config: PPOConfig | IMPALAConfig, steps: int, horizon_steps: int) -> float:
    """The rate for a round whose first transition is environment step `steps`, summed over actors."""
    if config.learning_rate_schedule == "constant":
        return config.learning_rate
    return config.learning_rate * max(0.0, 1.0 - steps / horizon_steps)
