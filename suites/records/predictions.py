"""Predictions of a session, which are stated in its plan before its first run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from suites.records import limits
from suites.records.bundle import BundleError
from suites.records.limits import Amount, Count, Name, Text

SCHEMA = "tianji-bench/predictions/1"
TIE = 0.1
"""Throughputs this close, as a share, are no difference that matters."""
SAME_AGE = 0.5
"""Mean ages this close, in rounds, likewise."""


class Forecast(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one system is predicted to give on one workload."""

    workload: Name
    system: Name
    steps_per_s: Amount
    """Samples trained on, each counted once, in the simulated world."""
    ratio: Amount
    """The same over the barrier's."""
    age_rounds: Amount
    """Mean age of a sample when it is trained on."""
    closed_ratio: Amount
    """Throughput over the barrier's by the closed forms of round times."""
    return_ratio: Amount | None = None
    """Time to a return over the barrier's, where a price of staleness was given: more steps, at more steps a second."""


class Predictions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Predictions of a profile's cells, and when and by what they were made."""

    schema: str = SCHEMA
    suite: Name
    profile: Name
    written: Text
    """In universal time: `2026-01-31T12:00:00Z`."""
    commit: Text | None
    dirty: bool | None
    """Whether files differed from the commit."""
    seed: Count
    """Of the simulated runs."""
    calibrating: tuple[Name, ...]
    """Workloads that calibrate; the others are held out."""
    forecasts: Annotated[tuple[Forecast, ...], Meta(max_length=2000)]

    def of(self, workload: str) -> dict[str, Forecast]:
        """Forecasts of a workload by system."""
        return {one.system: one for one in self.forecasts if one.workload == workload}

    @property
    def digest(self) -> str:
        """SHA-256 of the contents."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


def winner(found: Iterable[tuple[str, float, float]]) -> str:
    """The freshest of the systems that are within `TIE` of the fastest one.

    Parameters
    ----------
    found
        id, throughput and mean age of each system.
    """
    found = list(found)
    best = max(rate for _, rate, _ in found)
    return freshest((name, age) for name, rate, age in found if rate >= best * (1 - TIE))


def freshest(found: Iterable[tuple[str, float]]) -> str:
    """The first of the systems whose mean age is within `SAME_AGE` of the least one."""
    found = list(found)
    least = min(age for _, age in found)
    return next(name for name, age in found if age <= least + SAME_AGE)


def read(path: Path) -> Predictions:
    """Read a file of predictions.

    Raises
    ------
    BundleError
        where it is missing, damaged or of another schema.
    """
    try:
        found = msgspec.json.decode(limits.contents(path), type=Predictions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{path}: damaged, or no predictions: {error}") from None
    if found.schema != SCHEMA:
        raise BundleError(f"{path}: has schema {found.schema}; this version reads {SCHEMA}")
    return found
