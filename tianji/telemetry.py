"""What a role says of itself to its launcher, and its account of time: busy and waiting seconds by cause."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from tianji.messages import FromRole, Report

Clock = Callable[[], int]
"""Monotonic nanoseconds."""

Sink = Callable[[FromRole], None]
"""Where messages to the launcher go."""


class Account:
    """Seconds by cause: busy `env`, `infer`, `send`, `update`, `save`; waiting `samples`, `weights`, `credit`, `barrier`,
    `stop`, `simulator`."""

    def __init__(self) -> None:
        self.busy_ns: defaultdict[str, int] = defaultdict(int)
        self.wait_ns: defaultdict[str, int] = defaultdict(int)

    def report(
        self, role: str, counters: dict[str, float], histograms: Mapping[str, Mapping[int, int]] | None = None
    ) -> Report:
        """The closing account, with the process's own CPU time and peak memory."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            role,
            counters,
            {cause: ns / 1e9 for cause, ns in self.busy_ns.items()},
            {cause: ns / 1e9 for cause, ns in self.wait_ns.items()},
            time.process_time(),
            usage.ru_maxrss * 1024,
            {name: dict(counts) for name, counts in (histograms or {}).items()},
        )
