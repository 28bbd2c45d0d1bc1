"""From accounts of real runs to what work takes. Functions are pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from suites.records.events import AnyEvent, Delays, Transfer
from tianji.config import TrainConfig
from tianji.messages import Report
from tianji.simulation.calibration import Durations, Fragment, Round, Work
from tianji.simulation.machines import Machine
from tianji.telemetry import BINS_AN_OCTAVE, took, took_seconds

SMALL_BYTES, LARGE_BYTES = 1 << 10, 1 << 20
"""Messages whose round trips and whose throughput say what an edge takes."""
GROUPS = 2
"""Groups of the run that shows what means of models take."""


class Missing(Exception):
    """A run ended before a piece of work did; the text says which."""


def durations(reports: Sequence[Report], name: str) -> Durations | None:
    """All roles' durations of one kind of work; None: there were none."""
    bins: Counter[int] = Counter()
    for report in reports:
        bins.update(report.histograms.get(took(name), {}))
    seconds = sum(report.counters.get(took_seconds(name), 0.0) for report in reports)
    return Durations(bins.total(), seconds, dict(bins)) if bins else None


def halved(both: Durations) -> Durations:
    """Durations of one half of each piece of work. Bins are logarithmic, so all move by an octave."""
    bins: Counter[int] = Counter()
    for number, count in both.bins.items():
        bins[max(0, number - BINS_AN_OCTAVE)] += count
    return Durations(both.count, both.sum_s / 2, dict(bins))


def work_of(config: TrainConfig, parameters: int, alone: Sequence[Report], grouped: Sequence[Report]) -> Work:
    """What the work of a workload takes.

    Parameters
    ----------
    config
        of the run without a Root.
    parameters
        size of the network.
    alone, grouped
        reports of a run without a Root, and of one of `GROUPS` groups.

    Raises
    ------
    Missing
        if no fragment or no round ended.
    """
    fragment, trained = durations(alone, "fragment"), durations(alone, "round")
    if fragment is None or trained is None:
        raise Missing("no whole fragment was sampled" if fragment is None else "no round of updates ended")
    mean, adoption = durations(grouped, "mean"), durations(grouped, "adoption")
    return Work(
        env=config.env,
        fragments=(Fragment(config.fragment_steps, config.envs_per_actor, fragment, durations(alone, "simulator")),),
        rounds=(Round(config.round_steps, trained, config.reuse),),
        parameters=parameters,
        mean=None if mean is None else halved(mean),
        adoption=adoption,
    )


def overhead_s(reports: Sequence[Report]) -> float:
    """Processor seconds of all processes that no piece of work took: messages, their headers, and what roles decide."""
    used = sum(report.counters.get("processor_s", 0.0) for report in reports)
    return max(0.0, used - sum(report.counters.get(took_seconds(name), 0.0) for report in reports for name in COMPUTED))


COMPUTED = ("fragment", "round", "mean", "adoption")
"""Kinds of work that are recorded in processor time."""


def machine_of(
    cores: float, message_seconds: float, here: Sequence[AnyEvent], apart: Sequence[AnyEvent] | None = None
) -> Machine:
    """A machine, from round trips and throughput of edges on one host and, if they could be measured, between two.

    A ring in shared memory is visible at once, so half a round trip on one host is the time to wake up. Between hosts the rest
    of it is latency.
    """
    wake = _one_way(here)
    found = Machine(cores, wake_seconds=wake, message_seconds=message_seconds, copy_bytes_per_s=_bytes_per_s(here))
    if apart is None:
        return found
    return msgspec.structs.replace(
        found, latency_seconds=max(0.0, _one_way(apart) - wake), link_bytes_per_s=_bytes_per_s(apart)
    )


def _one_way(events: Sequence[AnyEvent]) -> float:
    """Median seconds of half a round trip of a small message."""
    (trips,) = (event for event in events if isinstance(event, Delays) and event.size_bytes == SMALL_BYTES)
    return trips.percentiles_ns[50] / 2e9


def _bytes_per_s(events: Sequence[AnyEvent]) -> float:
    """Throughput of large messages."""
    (moved,) = (event for event in events if isinstance(event, Transfer) and event.size_bytes == LARGE_BYTES)
    return moved.intervals * LARGE_BYTES / moved.seconds
