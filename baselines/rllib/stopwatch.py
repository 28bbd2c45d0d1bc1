"""Seconds that RLlib's driver spends in calls: its own timers are moving averages, ruled for long by a slow first iteration."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    """Adds up what calls of certain methods take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Count calls of this object's method under a name from now on; where another method of it that is watched is called
        inside, that time counts for both."""
        self.seconds.setdefault(name, 0.0)
        call = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - began

        setattr(owner, method, timed)
