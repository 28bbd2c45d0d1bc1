"""Keeps what a learner reports of its training. It is measured now and then, since a measurement takes a forward pass."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Protocol

EVERY_S = 0.5
"""Seconds between two measurements, at least."""
SHARE = 0.01
"""Largest share of the time that measurements take."""


class Normed(Protocol):
    """Holder of a sum of gradient norms."""

    def norm_sum(self) -> float:
        """Sum of the norms of all gradients so far, before they were clipped."""


class Meter:
    """Keeps the latest metrics of an algorithm, by name. None of them is infinite or not a number."""

    def __init__(self, updater: Normed) -> None:
        self.values: dict[str, float] = {}
        self._updater, self._norms, self._steps, self._next = updater, 0.0, 0, 0.0

    def after(self, steps: int, learning_rate: float, measure: Callable[[], Mapping[str, float]]) -> None:
        """Note a round of so many optimizer steps, and measure if the last time is long enough ago."""
        self._steps += steps
        now = time.monotonic()
        if now < self._next or not self._steps:
            return
        norms = self._updater.norm_sum()
        found = {
            **measure(),
            "gradient_norm": (norms - self._norms) / self._steps,
            "learning_rate": learning_rate,
        }
        self._norms, self._steps = norms, 0
        self.values = {name: float(value) for name, value in found.items() if math.isfinite(value)}
        # A forward pass of pictures on a busy core takes long.
        ended = time.monotonic()
        self._next = ended + max(EVERY_S, (ended - now) / SHARE)
