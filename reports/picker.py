"""What the first page of a report draws: each system's cost of a return, by workload, machine, division and definition.

A cost is an expected one: all that was spent over the number of successes, with a 95 % bootstrap interval over runs. Functions
are pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reports.charts import rounded
from reports.dataset import Dataset
from reports.pairs import REFERENCE
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL, SEED, percentile_interval
from suites.statistics.summary import AGAIN

SERIES = ("crossings", "staleness-crossings")
COSTS = {"seconds": "measured_s", "steps": "measured_steps", "core_seconds": None}
"""What a return costs, and the column that says what a run spent that missed it; None: that is not known."""
RESAMPLES = 2_000


class Choice(NamedTuple):
    """What a reader chooses: each has its own bars."""

    workload: str
    machine: str
    options: str
    """Empty in the closed division."""
    kind: str
    """Definition of the return."""


class Bar(NamedTuple):
    """One system."""

    system: str
    title: str
    reached: int
    runs: int
    costs: dict[str, list[float | None]]
    """By name of `COSTS`: value, and both ends of its interval."""
    spent_s: float
    """Of all runs together."""

    @property
    def seconds(self) -> float | None:
        """Expected running time to the return; None where no run reached it."""
        return self.spent_s / self.reached if self.reached else None

    @property
    def counted(self) -> str:
        """`5`, or `3/5` where two runs missed the return."""
        return str(self.runs) if self.reached == self.runs else f"{self.reached}/{self.runs}"


@lru_cache(maxsize=1)
def bars(data: Dataset) -> dict[Choice, list[Bar]]:
    """The bars of every choice, the cheapest in seconds first; choices with a single system are left out."""
    known = [frame for name in SERIES if len(frame := data.series[name])]
    if not known:
        return {}
    every = pd.concat(known, ignore_index=True)
    every = every[~every["system"].str.endswith(AGAIN)]
    titles = {b.manifest.system: b.manifest.system_title for b in data.bundles}
    found: dict[Choice, list[Bar]] = {}
    keys = ["workload", "machine", "options", "threshold_kind"]
    for key, own in every.groupby(keys, sort=True):
        systems = [_bar(str(system), titles[str(system)], runs) for system, runs in own.groupby("system", sort=True)]
        if len(systems) > 1:
            found[Choice(*map(str, key))] = sorted(systems, key=_place)
    return found


def _place(bar: Bar) -> tuple[bool, float, bool]:
    value = bar.costs["seconds"][0]
    return value is None, value or 0.0, bar.system != REFERENCE


def _bar(system: str, title: str, runs: pd.DataFrame) -> Bar:
    reached = runs["seconds"].notna().to_numpy()
    costs = {name: _cost(runs, name, spent, reached) for name, spent in COSTS.items()}
    spent_s = float(runs["seconds"].fillna(runs["measured_s"]).sum())
    return Bar(system, title, int(reached.sum()), len(runs), costs, spent_s)


def _cost(runs: pd.DataFrame, name: str, spent: str | None, reached: NDArray[np.bool_]) -> list[float | None]:
    values = runs[name].astype(float)
    values = values if spent is None else values.fillna(runs[spent].astype(float))
    if not reached.any() or values.isna().any():
        return [None, None, None]
    paid, n = values.to_numpy(), len(values)
    value = paid.sum() / reached.sum()
    if n < MINIMUM_FOR_INTERVAL:
        return [*rounded([value]), None, None]
    drawn = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, n))
    draws = paid[drawn].sum(axis=1) / np.maximum(1, reached[drawn].sum(axis=1))
    found = percentile_interval(value, draws, n)
    return rounded([found.value, found.low, found.high])


def told(found: dict[Choice, list[Bar]]) -> list[dict[str, Any]]:
    """Choices with their bars, as the page's script reads them."""
    read = ("system", "title", "reached", "runs", "costs")
    return [
        choice._asdict() | {"bars": [{name: getattr(bar, name) for name in read} for bar in own]}
        for choice, own in found.items()
    ]


def first(found: dict[Choice, list[Bar]]) -> Choice | None:
    """What is shown before a reader chooses: in the closed division the training return that the most systems reached."""
    usual = [choice for choice in found if not choice.options and choice.kind == "training"] or list(found)

    def told(choice: Choice) -> tuple[int, int]:
        own = [bar for bar in found[choice] if bar.reached]
        return len(own), sum(bar.runs for bar in own)

    return max(usual, key=told, default=None)
