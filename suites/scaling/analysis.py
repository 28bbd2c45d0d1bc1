"""Analysis of scaling bundles: throughput in the steady window, and the resources that nodes used meanwhile.

Functions are pure, and no package that trains is imported. Three quantities are kept apart. Production is steps sampled.
Consumption is samples trained on, with repetitions. Unique consumption counts each sample once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import Counter, Evaluation, FirstStep, NodeUsage, Process, Progress
from suites.statistics.crossings import Block, Learning, learning, points
from suites.statistics.summary import identity, label_of

SUITE = "scaling"
COPIES = "-copies"
"""Ends the id of a system that is as many non-communicating copies of another one as there are nodes."""
WARM_UP_S, WARM_UP_SHARE = 2.0, 0.2
"""The steady window begins this long after the first step, or at this share of the measured time, whichever is later."""
FEWEST_TOLD = 2
"""How often a process must have said in the window how far it is."""
PAYLOAD = "_payload_bytes_sent"
"""Ends the name of counters of payload that was handed to sockets for other nodes."""
COUNTED = {
    "production_steps_per_s": "samples_produced",
    "consumption_samples_per_s": "samples_consumed",
    "unique_consumption_samples_per_s": "samples_consumed_unique",
}
"""Throughputs, and the total that each is the growth of."""
SCALARS = (
    ("production_steps_per_s", "steps/s"),
    ("consumption_samples_per_s", "samples/s"),
    ("unique_consumption_samples_per_s", "samples/s"),
    ("learner_busy_share", "share"),
    ("cpu_budget_share", "share"),
    ("throttled_share", "share"),
    ("daemons_cores", "cores"),
    ("wire_sent_bytes_per_s", "bytes/s"),
    ("wire_received_bytes_per_s", "bytes/s"),
    ("wire_busiest_bytes_per_s", "bytes/s"),
    ("socket_bytes_per_s", "bytes/s"),
    ("control_bytes_per_s", "bytes/s"),
    ("socket_bytes_per_payload_byte", "ratio"),
    ("testbed_s", "s"),
    ("check_s", "s"),
    ("setup_s", "s"),
)
"""Metrics of one run. Of nodes: means over them; but daemons' cores are of all nodes together, and the busiest is the one link
and direction that carried most. The busy share of a learner is that of its updates, mean over learners."""


class Setting(NamedTuple):
    """Properties shared by runs that may be compared, in order of sorting."""

    workload: str
    testbed: str
    scaling: str

    @property
    def slug(self) -> str:
        """Text for file names."""
        return "-".join(self)


USED = {
    "cpu_cores": "cpu_s",
    "throttled_share": "throttled_s",
    "daemons_cores": "daemons_cpu_s",
    "wire_sent_bytes_per_s": "wire_sent_bytes",
    "wire_received_bytes_per_s": "wire_received_bytes",
    "socket_bytes_per_s": "socket_bytes",
    "control_bytes_per_s": "control_bytes",
}
"""Rates of a node's resources, and the total of which each is the growth."""
NODE_COLUMNS = ["node", *dict.fromkeys(["cpu_cores", "cpu_budget_share", *USED])]
Rates = dict[str, float | None]
"""Resources of a node in the steady window, by `NODE_COLUMNS`; None: unknown."""


@dataclass(frozen=True)
class Run:
    """One completed bundle, understood."""

    bundle: Bundle
    window_s: float
    metrics: dict[str, float | None]
    """Metrics by the names of `SCALARS`."""
    rates: tuple[Rates, ...]
    learning: Learning | None
    """Learning of a run that trained to a threshold."""

    @property
    def label(self) -> str:
        """Label of its system."""
        return label_of(self.bundle)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.bundle.manifest.nodes

    @property
    def cores_shared(self) -> bool:
        """Whether nodes have the machine's cores together, so that one alone has more than one of many.

        Real nodes have their own, and emulated ones with a budget behave as if they had.
        """
        manifest = self.bundle.manifest
        budget = manifest.configuration.get("regime", {}).get("cores")
        return manifest.testbed == "local" or (manifest.testbed == "netns" and budget is None)

    @property
    def block(self) -> Block:
        """Block within which it is paired with runs on any number of nodes."""
        return self.bundle.manifest.session, self.bundle.manifest.block

    @cached_property
    def setting(self) -> Setting:
        """Which runs it may be compared with."""
        return setting_of(self.bundle)


def setting_of(bundle: Bundle) -> Setting:
    """Setting within which a bundle may be compared.

    Raises
    ------
    ValueError
        when it does not say whether the work grows with the nodes.
    """
    manifest = bundle.manifest
    if manifest.scaling is None:
        raise ValueError(f"{bundle.path.name}: says neither weak nor strong scaling")
    return Setting(manifest.workload, manifest.testbed, manifest.scaling)


def understand(bundle: Bundle) -> Run:
    """Compute everything about one completed run.

    Raises
    ------
    ValueError
        when it lacks a first step, or a process did not say often enough how far it was; one line without paths.
    """
    setting_of(bundle)
    progress = _Progress(bundle)
    start, end = progress.window()
    seconds = (end - start) / 1e9
    regime = bundle.manifest.configuration.get("regime", {})
    usage = _by_node(bundle)
    rates = tuple(_rates(samples, start, end, regime.get("cores")) for _, samples in sorted(usage.items()))
    phases = bundle.manifest.phases_s
    metrics: dict[str, float | None] = {
        **{metric: progress.rate(count, start, end) for metric, count in COUNTED.items()},
        "learner_busy_share": _busy_share(bundle, progress.measured_s),
        **{name: _mean(rate[name] for rate in rates) for name in _MEANS},
        "daemons_cores": _total(rate["daemons_cores"] for rate in rates),
        "wire_busiest_bytes_per_s": max(
            _known(rate[f"wire_{way}_bytes_per_s"] for rate in rates for way in WAYS), default=None
        ),
        "socket_bytes_per_payload_byte": _overhead(bundle, usage),
        **{f"{phase}_s": phases.get(phase) for phase in ("testbed", "check", "setup")},
    }
    trained = bool(bundle.of(Evaluation))
    return Run(bundle, seconds, metrics, rates, learning(bundle) if trained else None)


class _Progress:
    """Totals of every counting process over time."""

    def __init__(self, bundle: Bundle) -> None:
        self._name = bundle.path.name
        firsts = [event.ns for event in bundle.of(FirstStep)]
        if not firsts:
            raise ValueError(f"{self._name}: no first environment step was told")
        self._first = min(firsts)
        told: dict[str, list[Progress]] = {}
        for event in bundle.of(Progress):
            if event.ns > self._first and not set(COUNTED.values()).isdisjoint(event.counts):
                told.setdefault(event.role, []).append(event)
        if not told:
            raise ValueError(f"{self._name}: no process reported progress")
        self._told = {role: sorted(events, key=lambda event: event.ns) for role, events in told.items()}
        self._end = min(events[-1].ns for events in self._told.values())
        self.measured_s: float = bundle.manifest.phases_s.get("measured", (self._end - self._first) / 1e9)

    def window(self) -> tuple[int, int]:
        """Steady window in nanoseconds, up to the last time that all processes have reported.

        Raises
        ------
        ValueError
            when a process told too little in between.
        """
        start = self._first + int(max(WARM_UP_S, WARM_UP_SHARE * self.measured_s) * 1e9)
        silent = min(self._told, key=lambda role: self._told[role][-1].ns)
        for role, events in self._told.items():
            within = sum(start <= event.ns <= self._end for event in events)
            if within < FEWEST_TOLD:
                raise ValueError(
                    f"{self._name}: {role} reported progress {within}x in the steady window, and {FEWEST_TOLD}x is needed; "
                    f"the window is from {(start - self._first) / 1e9:.1f} s after the first step to "
                    f"{(self._end - self._first) / 1e9:.1f} s, when {silent} reported for the last time"
                )
        return start, self._end

    def rate(self, count: str, start: int, end: int) -> float | None:
        """Rate per second of all processes together, interpolated between their reports. None: no process counts it."""
        grown = []
        for events in self._told.values():
            counting = [event for event in events if count in event.counts]
            if counting:
                at = [self._first, *(event.ns for event in counting)]
                low, high = np.interp([start, end], at, [0.0, *(event.counts[count] for event in counting)])
                grown.append(float(high - low))
        return sum(grown) / ((end - start) / 1e9) if grown else None


WAYS = ("sent", "received")
_MEANS = (
    "cpu_budget_share",
    "throttled_share",
    *(f"wire_{way}_bytes_per_s" for way in WAYS),
    "socket_bytes_per_s",
    "control_bytes_per_s",
)


def _by_node(bundle: Bundle) -> dict[int, list[NodeUsage]]:
    found: dict[int, list[NodeUsage]] = {}
    for event in bundle.of(NodeUsage):
        found.setdefault(event.node, []).append(event)
    return {node: sorted(samples, key=lambda sample: sample.ns) for node, samples in found.items()}


def _rates(samples: Sequence[NodeUsage], start: int, end: int, cores: float | None) -> Rates:
    """Rates of one node over the part of the window that its samples cover."""
    start, end = max(start, samples[0].ns), min(end, samples[-1].ns)

    def rate(name: str) -> float | None:
        known = [(sample.ns, value) for sample in samples if (value := getattr(sample, name)) is not None]
        if len(known) < 2 or end <= start:
            return None
        low, high = np.interp([start, end], [ns for ns, _ in known], [value for _, value in known])
        return float((high - low) / ((end - start) / 1e9))

    used = {name: rate(total) for name, total in USED.items()}
    cpu_cores = used["cpu_cores"]
    share = None if cpu_cores is None or cores is None else cpu_cores / cores
    return {"node": samples[0].node, "cpu_cores": cpu_cores, "cpu_budget_share": share, **used}


def _busy_share(bundle: Bundle, measured_s: float) -> float | None:
    """Busy share of the learner, in its own process or in the driver's."""
    processes = bundle.of(Process)
    return _mean(p.busy_s["update"] / measured_s for p in processes if "update" in p.busy_s and measured_s > 0)


def _overhead(bundle: Bundle, usage: dict[int, list[NodeUsage]]) -> float | None:
    """Bytes handed to sockets over the payload that had to travel, of the whole run; None: nothing crosses, or unknown."""
    payload = sum(event.value for event in bundle.of(Counter) if event.name.endswith(PAYLOAD))
    handed = _total(samples[-1].socket_bytes for samples in usage.values())
    return None if handed is None or payload <= 0 else handed / payload


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return float(np.mean(known)) if known else None


def _total(values: Iterable[float | None]) -> float | None:
    """None where one is missing: a part is not the sum."""
    listed = list(values)
    return None if not listed or None in listed else float(sum(_known(listed)))


WHAT = [*Setting._fields, "nodes", "system", "session", "block", "seed"]
"""Columns that say what a line is of."""


def what(bundle: Bundle) -> dict[str, Any]:
    """Values of the columns of `WHAT`."""
    return setting_of(bundle)._asdict() | {"nodes": bundle.manifest.nodes} | identity(bundle)


def run_points(runs: Iterable[Run]) -> pd.DataFrame:
    """One line a run: the window and every metric of `SCALARS`; what is not known is empty."""
    rows = [what(run.bundle) | {"window_s": run.window_s} | run.metrics for run in runs]
    metrics = ["window_s", *(name for name, _ in SCALARS)]
    return pd.DataFrame(rows, columns=[*WHAT, *metrics]).astype(dict.fromkeys(metrics, float))


def node_points(runs: Iterable[Run]) -> pd.DataFrame:
    """One line a run and node: what it used a second."""
    rows = [what(run.bundle) | rate for run in runs for rate in run.rates]
    return pd.DataFrame(rows, columns=[*WHAT, *NODE_COLUMNS])


def crossing_points(runs: Iterable[Run]) -> pd.DataFrame:
    """One line a run that trained to a threshold, and definition; `seconds` is empty where the run was censored."""
    rows = [what(run.bundle) | point for run in runs if run.learning for point in points(run.learning)]
    columns = ["threshold_kind", "seconds", "seconds_before", "steps", "core_seconds", "measured_s", "measured_steps"]
    return pd.DataFrame(rows, columns=[*WHAT, *columns])
