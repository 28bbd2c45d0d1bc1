"""Returns of recorded runs beside those that others published for the same settings.

`outside.toml` has the published values with their source. The margin is fixed here, before anything is measured: the share that
is called equivalent everywhere in this project, of the published return.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
from msgspec import Struct

from reports.dataset import Dataset
from suites.convergence.analysis import understand
from suites.records.bundle import Bundle
from suites.records.limits import BundleError, blamed
from suites.statistics.curves import WINDOW
from suites.statistics.equivalence import Kind, Published, difference, verdict
from suites.statistics.gate import Rule
from suites.statistics.intervals import Estimate

MARGIN = Rule.size
"""Share of a published return by which another may differ and still is called equivalent."""
FILE = Path(__file__).with_suffix(".toml")
HEADS = ("workload", "system", "seeds", "last 100 episodes", "published", "difference, 90 % interval", "margin", "verdict")


class Return(Struct, frozen=True, forbid_unknown_fields=True):
    """One published mean over seeds, with the deviation that divides by their number."""

    mean: float
    sd: float


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of `outside.toml`."""

    source: str
    page: str
    revision: str
    seeds: int
    steps: int
    settings: dict[str, Any]
    returns: dict[str, Return]
    """By workload."""

    def published(self, workload: str) -> Published:
        """A value with the deviation that divides by one less than the number of seeds."""
        found = self.returns[workload]
        return Published(found.mean, found.sd * math.sqrt(self.seeds / (self.seeds - 1)), self.seeds)


@dataclass(frozen=True)
class Line:
    """One system on one workload beside the published value."""

    workload: str
    system: str
    returns: tuple[float, ...]
    """A value for each seed: the mean of its last 100 episodes."""
    published: Return
    difference: Estimate
    margin: float
    kind: Kind

    @property
    def cells(self) -> tuple[str, ...]:
        """The line of the table, in the order of `HEADS`."""
        scatter = f" ± {stdev(self.returns):.2f}" if len(self.returns) > 1 else ""
        found = self.difference
        interval = "" if found.low is None or found.high is None else f" ({found.low:+.2f} to {found.high:+.2f})"
        return (
            self.workload,
            self.system,
            str(len(self.returns)),
            f"{fmean(self.returns):.2f}{scatter}",
            f"{self.published.mean:.2f} ± {self.published.sd:.2f}",
            f"{found.value:+.2f}{interval}",
            f"±{self.margin:.2f}",
            self.kind,
        )


def source() -> Source:
    """The published values."""
    return msgspec.toml.decode(FILE.read_bytes(), type=Source)


def lines(data: Dataset, published: Source) -> tuple[list[Line], list[str]]:
    """A line for each system and workload, and runs that are not compared, in words.

    Raises
    ------
    BundleError
        where no run is of a workload with a published value.
    """
    of_these = [b for b in data.bundles if b.manifest.suite == "convergence" and b.manifest.workload in published.returns]
    if not of_these:
        raise BundleError(f"no run is of a workload that others published: {', '.join(published.returns)}")
    found: dict[tuple[str, str], dict[int, float]] = {}
    left_out = []
    # The second run of a block has the seed of the first, and is no further value.
    for b in (b for b in of_these if not b.manifest.replica):
        m, value = b.manifest, _last(b, published)
        if isinstance(value, str):
            left_out.append(f"not compared: {m.workload}, {m.system}, seed {m.seed}: {value}")
        else:
            found.setdefault((m.workload, m.system), {}).setdefault(m.seed, value)
    return [_line(*key, tuple(by_seed.values()), published) for key, by_seed in sorted(found.items())], left_out


def _last(b: Bundle, published: Source) -> float | str:
    """Mean of a run's last 100 episodes, or why there is none to compare."""
    if b.manifest.status != "completed":
        return b.manifest.status
    workload = b.manifest.configuration["workload"]
    if other := list(_other(workload, published.settings)):
        return f"its workload has other settings: {', '.join(other)}"
    with blamed(b.path):
        run = understand(b)
    taken = run.snapshots[-1].steps
    # The last snapshot is taken at most one interval before the end.
    if taken + int(workload["snapshot_every_steps"]) < published.steps:
        return f"it ended after {taken} of {published.steps} steps"
    return float(run.training["mean_return"].iloc[-1]) if len(run.training) else f"under {WINDOW} episodes"


def _other(workload: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """Names of settings that a workload has otherwise."""
    for name, wanted in settings.items():
        has = workload.get(name)
        if isinstance(wanted, dict):
            yield from (f"{name}.{key}" for key in _other(has if isinstance(has, dict) else {}, wanted))
        elif has != wanted:
            yield name


def _line(workload: str, system: str, returns: tuple[float, ...], published: Source) -> Line:
    value = published.published(workload)
    margin = MARGIN * abs(value.mean)
    found = difference(returns, value)
    return Line(workload, system, returns, published.returns[workload], found, margin, verdict(found, margin))
