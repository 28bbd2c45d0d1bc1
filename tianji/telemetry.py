"""Reports of a role to its launcher, and its account of time: busy and waiting seconds by cause."""

from __future__ import annotations

import math
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from tianji.messages import FromRole, Report

Clock = Callable[[], int]
"""Function that returns monotonic nanoseconds."""

Sink = Callable[[FromRole], None]
"""Function that sends a message to the launcher."""


Histogram = dict[int, int]
"""Counts by bin."""

BINS_AN_OCTAVE = 16
"""Logarithmic bins of a duration, between a number of nanoseconds and its double."""


def bin_of(duration_ns: int) -> int:
    """Bin of a duration: bin n begins at 2^(n / 16) ns. A duration under 1 ns counts as 1 ns."""
    return int(BINS_AN_OCTAVE * math.log2(max(1, duration_ns)))


class Account:
    """Account of seconds by cause.

    Busy causes are env, infer, send, update and save. Waiting causes are samples, weights, credit, barrier, stop and simulator.
    """

    def __init__(self) -> None:
        self.busy_ns: defaultdict[str, int] = defaultdict(int)
        self.wait_ns: defaultdict[str, int] = defaultdict(int)

    def report(
        self,
        role: str,
        counters: dict[str, float],
        histograms: Mapping[str, Mapping[int, int]] | None = None,
        *,
        process: bool = True,
    ) -> Report:
        """Final report, with CPU time and peak memory of the process unless another role reports them."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            role,
            counters,
            {cause: ns / 1e9 for cause, ns in self.busy_ns.items()},
            {cause: ns / 1e9 for cause, ns in self.wait_ns.items()},
            time.process_time() if process else 0.0,
            usage.ru_maxrss * 1024 if process else 0,
            {name: dict(counts) for name, counts in (histograms or {}).items()},
        )
