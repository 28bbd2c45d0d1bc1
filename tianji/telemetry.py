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

SLOW_STEP = "slow_step"
"""Name of the durations of an actor's slow steps, from the choice of an action to its result."""
BINS_AN_OCTAVE = 16
"""Logarithmic bins of a duration, between a number of nanoseconds and its double."""


def bin_of(duration_ns: int) -> int:
    """Bin of a duration: bin n begins at 2^(n / 16) ns. A duration under 1 ns counts as 1 ns."""
    return int(BINS_AN_OCTAVE * math.log2(max(1, duration_ns)))


def middle_s(number: int) -> float:
    """Middle of a bin, in seconds."""
    return 2 ** ((number + 0.5) / BINS_AN_OCTAVE) / 1e9


def took(name: str) -> str:
    """Name of the histogram of durations in a report."""
    return f"took_{name}"


def took_seconds(name: str) -> str:
    """Name of the counter with their exact sum."""
    return f"took_{name}_s"


class Account:
    """Account of seconds by cause.

    Busy causes are env, infer, send, update and save. Waiting causes are samples, weights, credit, barrier, stop and simulator.
    Durations of whole pieces of work are kept as distributions: `fragment`, `simulator` (a fragment's wait), `slow_step`,
    `round`, `mean` and `adoption`.
    """

    def __init__(self) -> None:
        self.busy_ns: defaultdict[str, int] = defaultdict(int)
        self.wait_ns: defaultdict[str, int] = defaultdict(int)
        self.took: dict[str, Histogram] = {}
        """Durations of whole pieces of work by name, in logarithmic bins."""
        self._took_ns: defaultdict[str, int] = defaultdict(int)
        """Sum of the durations by name."""

    def record(self, name: str, duration_ns: int, times: int = 1) -> None:
        """Record the duration of a piece of work, which stands for so many. No fast step is recorded."""
        bins = self.took.setdefault(name, {})
        number = bin_of(duration_ns)
        bins[number] = bins.get(number, 0) + times
        self._took_ns[name] += times * duration_ns

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
            counters | {took_seconds(name): ns / 1e9 for name, ns in self._took_ns.items()},
            {cause: ns / 1e9 for cause, ns in self.busy_ns.items()},
            {cause: ns / 1e9 for cause, ns in self.wait_ns.items()},
            time.process_time() if process else 0.0,
            usage.ru_maxrss * 1024 if process else 0,
            {name: dict(counts) for name, counts in (histograms or {}).items()}
            | {took(name): dict(bins) for name, bins in self.took.items()},
        )
