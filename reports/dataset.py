"""What a report is drawn from: what `summary.json` and `series/*.csv` hold, and the bundles that say how things are called.

Values are never pooled over machines, nor over values of a further axis: a `Key` says what may be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from reports import bounds, escaping, summaries
from reports.table import Row, Table, hashable
from reports.tables import counted
from suites.records import forecasts, machine, statement, store
from suites.records.bundle import Bundle, BundleError
from suites.records.forecasts import Forecasts
from suites.records.limits import blamed
from suites.records.notes import Series, Superseded
from suites.records.statement import Statement
from suites.statistics.summary import label_of

SCHEMA = "tianji-bench/summary/1"
TUNING = "tuning"
"""Suite of the runs that only choose settings for the open division."""
SYSTEMS, RUNS, SECTIONS = 64, 128, 200
"""Limits: systems of one workload, runs of one system, and workloads. More would take a machine's memory, or a day."""


class Key(NamedTuple):
    """What values may be pooled within; each row and each line of a series has these."""

    suite: str
    workload: str
    machine: str
    """Its name: seconds of different machines have no mean."""
    options: str
    """Values of further axes, `bound = 4, tail = lone`; empty where there are none."""


@dataclass(eq=False)
class Dataset:
    """Everything that a report says."""

    table: Table
    series: dict[str, pd.DataFrame]
    """By file name without suffix."""
    unusable: list[tuple[Bundle, str]]
    """Completed bundles from which nothing is to be had, and why."""
    bundles: list[Bundle]
    left_out: list[str]
    """What was read and is not counted, in words."""
    stated: Mapping[str, Statement] = field(default_factory=dict)
    """By session, the plan that was stated before it began."""
    caveats: Sequence[str] = ()
    """What makes values less exact than they look, a line each."""
    forecasts: Sequence[Forecasts] = ()
    """What was simulated. No row and no series has anything of it."""
    begun: Sequence[Series] = ()
    """Series of sessions. A verdict is of the newest one in which a pair was measured."""

    @property
    def rows(self) -> list[Row]:
        return self.table.rows

    @cached_property
    def groups(self) -> dict[Key, list[Bundle]]:
        """All bundles, those of failed runs among them, by what may be pooled."""
        return grouped(self.bundles, self.machine_names)

    @cached_property
    def machine_names(self) -> dict[tuple[Any, ...], str]:
        return machine.names(b.manifest.environment for b in self.bundles)

    @cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        """The first environment of each machine."""
        every = [b.manifest.environment for b in reversed(self.bundles)]
        return {self.machine_names[machine.key(one)]: one for one in every}

    @property
    def machines(self) -> str:
        return "; ".join(sorted(self.environments))


def grouped(bundles: Iterable[Bundle], names: Mapping[tuple[Any, ...], str]) -> dict[Key, list[Bundle]]:
    """Bundles by what may be pooled, sorted; machines are called by these names."""
    found: dict[Key, list[Bundle]] = {}
    for b in bundles:
        m = b.manifest
        key = Key(m.suite, m.workload, names[machine.key(m.environment)], str(hashable(m.axes) or ""))
        found.setdefault(key, []).append(b)
    return dict(sorted(found.items()))


def load(roots: list[Path]) -> Dataset:
    """Read every bundle under these folders and compute what they say. Forecasts among them stay apart.

    Raises
    ------
    suites.records.bundle.BundleError
        for a folder without bundles, and for the first bundle that breaks the schema or lacks what its suite promises.
    """
    loaded = store.load(forecasts.measured(roots))
    bundles, tuning = without_tuning(loaded.bundles)
    bundles, smoke = without_smoke(bundles)
    bundles, again = once(bundles)
    bundles, unfinished = without_unfinished(bundles, loaded.stated, loaded.series)
    bundles, unplanned = planned(bundles, loaded.stated)
    left_out = [*smoke, *tuning, *of_superseded(loaded.superseded), *again, *unfinished, *unplanned]
    names = machine.names(b.manifest.environment for b in bundles)
    completed = grouped((b for b in bundles if b.manifest.status == "completed"), names)
    _check_each(grouped(bundles, names))
    suites = [*summaries.SUMMARIES, *sorted({key.suite for key in completed} - summaries.SUMMARIES.keys())]
    rows: list[Row] = []
    parts: dict[str, list[pd.DataFrame]] = {}
    unusable: list[tuple[Bundle, str]] = []
    caveats: list[str] = []
    for suite in suites:
        # A suite without bundles has its series, too: empty ones.
        own = {key: runs for key, runs in completed.items() if key.suite == suite} or {Key(suite, "", "", ""): []}
        for key, runs in own.items():
            with blamed(f"{runs[0].path.parent}: {suite}, {key.workload}" if runs else suite):
                found = summaries.of(suite, runs)
                json.dumps(found.rows, allow_nan=False)
            # Each look is a chance to stop at a lucky moment, so an interval holds for all of them together.
            looks = statement.looks(runs, loaded.stated)
            of = runs[0].manifest if runs else None
            more = {"machine": key.machine, "options": of.axes or None, "division": of.division} if of else {}
            rows += [bounds.looked(row, looks) | more for row in found.rows]
            for name, frame in found.series.items():
                parts.setdefault(name, []).append(frame.assign(machine=key.machine, options=key.options))
            unusable += found.unusable
            caveats += found.caveats
    series = {name: joined(frames) for name, frames in parts.items()}
    series["certificate"] = summaries.of_certificates(loaded.certificates)
    return Dataset(
        Table(rows), series, unusable, bundles, left_out, loaded.stated, caveats, forecasts.read(roots), loaded.series
    )


def _check_each(groups: Mapping[Key, list[Bundle]]) -> None:
    """Check that no run is there twice, and nothing more often than can be drawn.

    Raises
    ------
    BundleError
        where it is.
    """
    if len(groups) > SECTIONS:
        raise BundleError(f"these are {len(groups)} workloads; a report has at most {SECTIONS}")
    for key, bundles in groups.items():
        there: dict[tuple[Any, ...], Bundle] = {}
        for b in bundles:
            m = b.manifest
            run = (label_of(b), m.session, m.block, m.testbed, m.nodes, m.scaling, m.explorers, m.size_bytes)
            if (other := there.setdefault(run, b)) is not b:
                raise BundleError(f"{b.path}: is of the same system and block as {other.path}")
        runs = Counter(map(label_of, bundles))
        for what, count, most in (("systems", len(runs), SYSTEMS), ("runs of one", max(runs.values()), RUNS)):
            if count > most:
                raise BundleError(f"{bundles[0].path.parent}: {key.workload}: has {count} {what}; a report has at most {most}")


Sifted = tuple[list[Bundle], list[str]]
"""Runs that may be pooled, and what is left out, in words."""


def _sifted(bundles: list[Bundle], left: list[Bundle], text: str, noun: str = "run") -> Sifted:
    """Take some runs away, with a line for all of which `text` says the same. It knows the run as `b`, its manifest as `m`."""
    known = {id(b) for b in left}
    told = Counter(text.format(b=b, m=b.manifest) for b in left)
    kept = [b for b in bundles if id(b) not in known]
    return kept, [f"left out: {counted(number, noun)} of {what}" for what, number in sorted(told.items())]


def without_tuning(bundles: list[Bundle]) -> Sifted:
    """Leave out trials of a tuning, which only choose settings.

    Raises
    ------
    BundleError
        where there is nothing else.
    """
    trials = [b for b in bundles if b.manifest.suite == TUNING]
    if trials and len(trials) == len(bundles):
        raise BundleError(f"{bundles[0].path.parent}: holds trials of a tuning, which are no results; `run --tuned` makes some")
    return _sifted(bundles, trials, "{m.system} on {m.workload}, which are no results", "tuning run")


def without_smoke(bundles: list[Bundle]) -> Sifted:
    """Leave out runs that may stop at their goal where others go on, and smoke runs where there are others.

    The two are never pooled. Of each workload and division the more thorough ones are kept.
    """
    how = {id(b): (b.manifest.profile == "smoke", bool(b.manifest.configuration.get("stop_at_goal"))) for b in bundles}
    alike: dict[tuple[str, str, str], list[Bundle]] = {}
    for b in bundles:
        alike.setdefault((b.manifest.suite, b.manifest.workload, b.manifest.division), []).append(b)
    left: list[Bundle] = []
    for own in alike.values():
        best = min(how[id(b)] for b in own)
        left += [b for b in own if how[id(b)] != best]
    return _sifted(bundles, left, "{m.workload} ({m.suite}), which longer runs are never pooled with", "smoke run")


def planned(bundles: list[Bundle], stated: Mapping[str, Statement]) -> Sifted:
    """Leave out what was added beyond a plan."""
    late = statement.beyond(bundles, stated)
    return _sifted(
        bundles, late, "{m.workload} ({m.suite}) in {b.path.parent.name}, in blocks that its stated plan does not name"
    )


def without_unfinished(bundles: list[Bundle], stated: Mapping[str, Statement], begun: Iterable[Series]) -> Sifted:
    """Leave out series that are not whole yet. What is alone is shown as it is."""
    left_out: list[str] = []
    written = {session: one.written for session, one in stated.items()}
    for one in begun:
        of_it = [b for b in bundles if b.manifest.workload == one.workload and b.manifest.session in written]
        own = [b for b in of_it if written[b.manifest.session] >= one.begins]
        blocks = len({(b.manifest.session, b.manifest.seed) for b in own})
        if one.blocks is not None and 0 < blocks < one.blocks and len(own) < len(bundles):
            there = f"{{m.workload}}, of a series of which {blocks} of {one.blocks} blocks are there"
            bundles, told = _sifted(bundles, own, there)
            left_out += told
    return bundles, left_out


def once(bundles: list[Bundle]) -> Sifted:
    """Keep the last runs of each block."""
    early = statement.repeated(bundles)
    return _sifted(
        bundles, early, "{m.workload} ({m.suite}) in {b.path.parent.name}, in blocks that ran again: the machine changed"
    )


def of_superseded(runs: Iterable[tuple[Bundle, Superseded]]) -> list[str]:
    """What is told of runs that others have taken the place of."""
    counts = Counter((b.manifest.workload, b.path.parent.name, reason.by, reason.why) for b, reason in runs)
    return [
        f"left out: {counted(number, 'run')} of {workload} in {file}, superseded by {by}: {why}"
        for (workload, file, by, why), number in sorted(counts.items())
    ]


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
        escaping.csv(frame, out / "series" / f"{name}.csv")
