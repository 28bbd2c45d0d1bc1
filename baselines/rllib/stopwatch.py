"""Seconds that RLlib's driver spends in calls. Its own timers are moving averages, which a slow first iteration distorts."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    """Adds up the durations of calls of chosen methods."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Time calls of this object's method under a name from now on. A watched call within another one counts for both."""
        self.seconds.setdefault(name, 0.0)
        call = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - began

        setattr(owner, method, timed)
