"""What a tuning chose, `tuned.json`: settings of one system on one workload, with the record of every run behind the choice.

A session of the open division reads it and keeps it in its plan, which is sealed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from programs.cli import ConfigError
from suites.records import limits
from suites.records.bundle import Scalar
from suites.records.limits import Amount, BundleError, Count, Key, Name, Number, Prose, Text

FILE = "tuned.json"
SCHEMA = "tianji-bench/tuned/1"
MOST_TRIALS = 12
"""Settings that may be tried for a system on a workload."""
Options = Annotated[dict[Key, Scalar], Meta(max_length=16)]


class Trial(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run with one setting."""

    run: Text
    """Its folder, beside the file."""
    options: Options
    budget_share: Annotated[float, Meta(gt=0, le=1)]
    """Share of the workload's budget that it had."""
    seed: Count
    status: Literal["completed", "failed", "interrupted"]
    seconds: Amount | None
    """To the training return; None if it was not reached."""
    best_return: Number | None
    """Best mean over 100 training episodes; None if it had fewer."""
    error: Prose | None = None


class Tuned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A choice, and what it rests on."""

    schema: str = SCHEMA
    session: Name
    """Of the trials."""
    system: Name
    workload: dict[str, Any]
    """Complete."""
    trials: Annotated[int, Meta(ge=1, le=MOST_TRIALS)]
    """Number of settings that were tried."""
    sampler: Text
    options: Options
    """The chosen setting."""
    record: Annotated[tuple[Trial, ...], Meta(max_length=4 * MOST_TRIALS)]
    """Every run, in order."""

    @property
    def last_seeds(self) -> int | None:
        """Number of seeds in the last rung, the one with the greatest share of the budget; None if there is no record."""
        last = max((one.budget_share for one in self.record), default=None)
        return len({one.seed for one in self.record if one.budget_share == last}) or None

    @property
    def place(self) -> tuple[str, str]:
        """Its system and workload."""
        return self.system, str(self.workload.get("id"))


def read(path: Path) -> Tuned:
    """Read what a tuning chose.

    Raises
    ------
    ConfigError
        when there is no such file, or it is damaged or of another schema.
    """
    try:
        found = msgspec.json.decode(limits.contents(path), type=Tuned)
    except (BundleError, OSError) as error:
        raise ConfigError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not what `tianji-bench tune` writes: {error}") from None
    if found.schema != SCHEMA:
        raise ConfigError(f"{path}: has schema {found.schema}; this version reads {SCHEMA}")
    return found
