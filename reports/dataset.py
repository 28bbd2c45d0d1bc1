"""What a report is drawn from: what `summary.json` and `series/*.csv` hold, and the bundles that say how things are called.

Values are never pooled over machines, nor over values of a further axis: a `Key` says what may be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from reports import summaries
from reports.table import Row, Table, hashable
from suites.records import machine, store
from suites.records.bundle import Bundle, BundleError

SCHEMA = "tianji-bench/summary/1"


class Key(NamedTuple):
    """What values may be pooled within; each row and each line of a series has these."""

    suite: str
    workload: str
    machine: str
    """Its name: seconds of different machines have no mean."""
    options: str
    """Values of further axes, `bound = 4, tail = lone`; empty where there are none."""


@dataclass
class Dataset:
    """Everything that a report says."""

    table: Table
    series: dict[str, pd.DataFrame]
    """By file name without suffix."""
    unusable: list[tuple[Bundle, str]]
    """Completed bundles from which nothing is to be had, and why."""
    bundles: list[Bundle]

    @property
    def rows(self) -> list[Row]:
        """Of `summary.json`."""
        return self.table.rows

    @cached_property
    def groups(self) -> dict[Key, list[Bundle]]:
        """All bundles, those of failed runs among them, by what may be pooled."""
        return grouped(self.bundles)

    @cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        """The first environment of each machine."""
        return {machine_of(b): b.manifest.environment for b in reversed(self.bundles)}

    @property
    def machines(self) -> str:
        """What to call the machines of all runs."""
        return "; ".join(sorted(self.environments))


def machine_of(b: Bundle) -> str:
    """What to call the machine of a run, and what rows have as their `machine`."""
    return machine.name(b.manifest.environment)


def grouped(bundles: Iterable[Bundle]) -> dict[Key, list[Bundle]]:
    """Bundles by what may be pooled, sorted."""
    found: dict[Key, list[Bundle]] = {}
    for b in bundles:
        m = b.manifest
        found.setdefault(Key(m.suite, m.workload, machine_of(b), str(hashable(m.options) or "")), []).append(b)
    return dict(sorted(found.items()))


def load(roots: list[Path]) -> Dataset:
    """Read every bundle under these folders and compute what they say.

    Raises
    ------
    suites.records.bundle.BundleError
        for a folder without bundles, and for the first bundle that breaks the schema or lacks what its suite promises.
    """
    loaded = store.load(roots)
    completed = grouped(b for b in loaded.bundles if b.manifest.status == "completed")
    suites = [*summaries.SUMMARIES, *sorted({key.suite for key in completed} - summaries.SUMMARIES.keys())]
    rows: list[Row] = []
    parts: dict[str, list[pd.DataFrame]] = {}
    unusable: list[tuple[Bundle, str]] = []
    for suite in suites:
        # A suite without bundles has its series, too: empty ones.
        own = {key: bundles for key, bundles in completed.items() if key.suite == suite} or {Key(suite, "", "", ""): []}
        for key, bundles in own.items():
            try:
                found = summaries.of(suite, bundles)
            except (ValueError, KeyError) as error:
                raise BundleError(str(error)) from error
            options = bundles[0].manifest.options or None if bundles else None
            rows += [row | {"machine": key.machine, "options": options} for row in found.rows]
            for name, frame in found.series.items():
                parts.setdefault(name, []).append(frame.assign(machine=key.machine, options=key.options))
            unusable += found.unusable
    series = {name: joined(frames) for name, frames in parts.items()}
    series["certificate"] = summaries.of_certificates(loaded.certificates)
    return Dataset(Table(rows), series, unusable, loaded.bundles)


def joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames below each other; empty ones have no part in what a column holds."""
    filled = [frame for frame in frames if not frame.empty]
    # A column that is empty in one of them and numbers in another holds numbers.
    return pd.concat(filled, ignore_index=True).infer_objects() if filled else frames[0]


def write(dataset: Dataset, out: Path) -> None:
    """Write `summary.json` and `series/*.csv`."""
    # A row a line: small, and two of them can be compared.
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in dataset.rows)
    text = f'{{"schema": {json.dumps(SCHEMA)}, "rows": [\n{rows}\n]}}\n'
    (out / "summary.json").write_text(text, encoding="utf-8")
    (out / "series").mkdir(exist_ok=True)
    for name, frame in dataset.series.items():
        frame.to_csv(out / "series" / f"{name}.csv", index=False, float_format="%.6g")
