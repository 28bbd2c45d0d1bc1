"""What accepted runs of TianJi came to, one after the other: `results/history/history.jsonl`, a line a run.

A value's *series* is a digest of the machine and of the complete workload: where either changes, another series begins, and
no line is drawn from the one to the other.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import msgspec
import pandas as pd
from matplotlib.figure import Figure
from msgspec import Struct

from reports.dataset import REFERENCE, Dataset
from reports.looks import look
from reports.tables import number, with_interval
from suites.records import machine
from suites.records.bundle import Bundle, BundleError

SCHEMA = "tianji-bench/history/1"
FILE = "history.jsonl"
SIZES = (1 << 16, 1 << 20)
"""Of messages: a chunk's, and a batch's."""
COLUMNS = 3
DIGITS = 12


class Value(Struct, frozen=True):
    """One scalar of a run."""

    name: str
    unit: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    series: str


class Entry(Struct, frozen=True, kw_only=True):
    """One accepted run."""

    schema: str = SCHEMA
    accepted: str
    """Day, UTC."""
    commit: str | None
    machine: str
    sessions: tuple[str, ...]
    values: tuple[Value, ...]


def read(folder: Path) -> list[Entry]:
    """Every accepted run, oldest first; none where there is no history yet.

    Raises
    ------
    BundleError
        for a line that is damaged or of another schema.
    """
    file = folder / FILE
    if not file.exists():
        return []
    found = []
    for count, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BundleError(f"{file}: line {count} is damaged: {error}") from None
        if entry.schema != SCHEMA:
            raise BundleError(f"{file}: line {count} has schema {entry.schema}; this version reads {SCHEMA}")
        found.append(entry)
    return found


def accept(data: Dataset, folder: Path) -> Entry:
    """Add a run to the history.

    Raises
    ------
    BundleError
        when it is there already, is of several commits or machines, or of uncommitted code, or has no value that is kept.
    """
    manifests = [b.manifest for b in data.bundles]
    sessions = tuple(sorted({m.session for m in manifests}))
    for entry in read(folder):
        if again := set(entry.sessions).intersection(sessions):
            raise BundleError(f"session {sorted(again)[0]} is in the history already, since {entry.accepted}")
    commits = {m.environment["git_commit"] for m in manifests}
    machines = {machine.name(m.environment) for m in manifests}
    if len(commits) > 1 or len(machines) > 1:
        raise BundleError(f"a run of the history is of one commit and one machine, not of {len(commits)} and {len(machines)}")
    if any(m.environment["git_dirty"] for m in manifests):
        raise BundleError("these bundles are of code that was not committed: nobody could run it again")
    values = tuple(chosen(data))
    if not values:
        raise BundleError(
            "these bundles have no value that the history keeps: run TianJi in the convergence, scaling or transmission suite"
        )
    entry = Entry(
        accepted=datetime.datetime.now(datetime.UTC).date().isoformat(),
        commit=commits.pop(),
        machine=machines.pop(),
        sessions=sessions,
        values=values,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")
    return entry


def chosen(data: Dataset) -> Iterator[Value]:
    """The values that are kept of a run: few, of TianJi alone."""
    largest = max((row["nodes"] for row in data.rows if row["suite"] == "scaling" and row["nodes"]), default=1)
    fewest = min((row["explorers"] for row in data.rows if row["explorers"]), default=1)
    for row in data.rows:
        if row["system"] != REFERENCE or row["value"] is None:
            continue
        where = ""
        match row["suite"], row["metric"]:
            case "convergence", "time_to_threshold_s":
                where = f", {row['threshold_kind']}"
            case "convergence", "production_steps_per_s":
                pass
            case "scaling", "unique_consumption_samples_per_s" | "unique_consumption_speedup_ratio" if row["nodes"] in (
                1,
                largest,
            ):
                where = f", {row['nodes']} nodes"
            case "transmission", "goodput_bytes_per_s" if row["size_bytes"] in SIZES and row["explorers"] == fewest:
                where = f", {row['size_bytes'] >> 10} KiB"
            case _:
                continue
        own = [b for b in data.bundles if (b.manifest.suite, b.manifest.workload) == (row["suite"], row["workload"])]
        name = f"{row['suite']} {row['workload']}: {row['metric']}{where}"
        yield Value(name, row["unit"], row["value"], row["ci_low"], row["ci_high"], row["n"], _series(own[0]))


def _series(b: Bundle) -> str:
    """What values must have in common to be drawn as one line."""
    kept = [machine.name(b.manifest.environment), b.manifest.configuration["workload"]]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:DIGITS]


def table(entries: Sequence[Entry]) -> pd.DataFrame:
    """A line for each value of each accepted run, the newest first."""
    return pd.DataFrame(
        {
            "Accepted": entry.accepted,
            "Commit": (entry.commit or "-")[:DIGITS],
            "What": value.name,
            "Value": with_interval({"value": value.value, "ci_low": value.ci_low, "ci_high": value.ci_high}),
            "Unit": value.unit,
            "n": str(value.n),
            "Series": value.series,
        }
        for entry in reversed(entries)
        for value in entry.values
    )


def figure(entries: Sequence[Entry]) -> Figure | None:
    """A small panel for each value that was accepted more than once; None where there is none."""
    lines: dict[str, list[tuple[int, Value]]] = {}
    for place, entry in enumerate(entries):
        for value in entry.values:
            lines.setdefault(value.name, []).append((place, value))
    drawn = {name: points for name, points in lines.items() if len(points) > 1}
    if not drawn:
        return None
    rows = -(-len(drawn) // COLUMNS)
    made: Figure
    made, axes = plt.subplots(rows, COLUMNS, figsize=(9.2, 0.5 + 1.7 * rows), layout="constrained", squeeze=False)
    colour = look(REFERENCE).colour
    for axis, (name, points) in zip(axes.flat, drawn.items(), strict=False):
        for series in dict.fromkeys(value.series for _, value in points):
            own = [(place, value) for place, value in points if value.series == series]
            axis.plot([place for place, _ in own], [value.value for _, value in own], color=colour, marker="o", markersize=3.5)
            for place, value in own:
                if value.ci_low is not None:
                    axis.vlines(place, value.ci_low, value.ci_high, color=colour, linewidth=1.8, alpha=0.5)
        axis.set_title(name.replace(": ", "\n"), loc="left", fontsize=7.5)
        axis.set_ylim(bottom=0)
        axis.set_ylabel(points[0][1].unit, fontsize=7.5)
        places = range(len(entries))
        axis.set_xticks(places, [entries[place].accepted[5:] for place in places], rotation=60, fontsize=6.5)
    for axis in axes.flat[len(drawn) :]:
        axis.remove()
    return made


def finding(entries: Sequence[Entry]) -> list[str]:
    """What has changed between the last two runs of a series, the largest change first; in a sentence."""
    if not entries:
        return []
    changes: list[tuple[float, str]] = []
    for value in entries[-1].values:
        before = next(
            (v for entry in reversed(entries[:-1]) for v in entry.values if (v.name, v.series) == (value.name, value.series)),
            None,
        )
        if before is not None and before.value:
            ratio = value.value / before.value
            changes.append((abs(ratio - 1), f"{value.name} is {number(ratio)} times what it was"))
    told = [f"{len(entries)} run{'s' * (len(entries) > 1)} accepted, the last on {entries[-1].accepted}."]
    return told + [f"{text}." for _, text in sorted(changes, reverse=True)[:1]]
