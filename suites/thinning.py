"""Thinned sessions: everything that a report's figures and tables are made of, and less of the rest.

A thinned run names the run that it was made of in `derived_from`, by the digest of that one as it was sealed.

Times are rounded to `GRAIN_NS`, and those of what is told after a run to `GRAIN_AFTER_NS`. Other numbers that are not whole
have `DIGITS` binary digits.

Progress and use of processor and memory are totals, told over and over. They stay where a figure interpolates between them.

Where no training curve is drawn, episodes stay of which a return is the mean. Runs measured for throughput alone have none.

Histograms of single pieces of work stay in the suite `scaling`: machines are calibrated by them. Snapshots lose the name of
their file, which no sealed session has.

Sessions of the suite `transmission` have nothing of this kind, and stay as they are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from suites.disciplines import analysis as disciplines
from suites.records import archive
from suites.records.bundle import Bundle, BundleError
from suites.records.events import (
    Counter,
    Episode,
    Evaluation,
    Event,
    FirstStep,
    Histogram,
    NodeUsage,
    Process,
    Progress,
    Snapshot,
    Usage,
)
from suites.scaling import analysis as scaling
from suites.statistics.crossings import learning
from suites.statistics.curves import WINDOW, crossing

GRAIN_NS = 1 << 16
"""65.5 microseconds. The low bytes are nothing then, which packs well."""
GRAIN_AFTER_NS, GRAIN_OF_PRICE_NS = 1 << 30, 1 << 24
AFTER = (Process, Counter, Histogram, Evaluation)
DIGITS = 24
"""About seven decimal ones."""
GONE = "gone"
TOOK = "_took_"
"""In the names of histograms of what pieces of work took."""
DRAWN = ("convergence", "staleness")
"""Suites whose training curves are drawn."""
THROUGHPUT = (*archive.THROUGHPUT, "disciplines")
"""Suites of which returns are told only where policies were evaluated."""
WHOLE = "transmission"
PRICE = "price"
"""Its runs are in lockstep, so their seconds are no system's: they are judged by steps to a return alone."""
E = TypeVar("E", bound=Event)


def write(file: Path, out: Path) -> int:
    """Write a sealed session thinned into a new file, and return the number of its runs.

    Raises
    ------
    BundleError
        where the file is no sealed session, or has nothing to thin, or the new one exists.
    """
    bundles = archive.read(file)
    if any(b.manifest.suite == WHOLE for b in bundles):
        raise BundleError(f"{file}: a session of the suite {WHOLE} has nothing to thin")
    if all(event.ns % GRAIN_NS == 0 for b in bundles for event in b.events):
        raise BundleError(f"{file}: is thinned already")
    digests = archive.digests(file)
    return archive.write([thinned(b, digests[b.path.name]) for b in bundles], out, archive.about(file))


def thinned(b: Bundle, digest: str) -> Bundle:
    """A run without that of which no figure is made.

    Parameters
    ----------
    digest
        of the run as it was sealed.
    """
    kept = {id(event) for event in _kept(b)}
    # Rounded times tie, and whoever sorts by them then takes the order of the file.
    events = sorted((event for event in b.events if id(event) in kept), key=lambda event: event.ns)
    manifest = msgspec.structs.replace(b.manifest, derived_from=digest)
    grain = GRAIN_OF_PRICE_NS if b.manifest.suite == PRICE else GRAIN_NS
    return msgspec.structs.replace(b, manifest=manifest, events=[_rounded(event, grain) for event in events])


def _rounded(event: E, grain: int) -> E:
    grain = GRAIN_AFTER_NS if isinstance(event, AFTER) else grain
    if isinstance(event, Snapshot):
        # No sealed session has the policies.
        event = msgspec.structs.replace(event, file=GONE)
    values = {name: _short(value) for name in event.__struct_fields__ if _real(value := getattr(event, name))}
    return msgspec.structs.replace(event, ns=grain * round(event.ns / grain), **values)


def _real(value: Any) -> bool:
    """Whether there are numbers in it that may be no whole ones."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
    return any(isinstance(one, float) for one in inner)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_short(one) for one in value]
    if not isinstance(value, float) or value.is_integer():
        return value
    digits, power = math.frexp(value)
    return math.ldexp(round(math.ldexp(digits, DIGITS)), power - DIGITS)


def _kept(b: Bundle) -> Iterator[Event]:
    moments = sorted(_moments(b))
    told = b.of(Usage)
    yield from _around(told, moments, lambda event: None)
    # One of them tells of the most memory.
    yield from sorted(told, key=lambda event: event.rss_bytes)[-1:]
    yield from _around(b.of(NodeUsage), moments, lambda event: event.node)
    yield from _around(b.of(Progress), moments, lambda event: (event.role, *event.counts))
    yield from _episodes(b)
    told_of_work = b.manifest.suite == scaling.SUITE
    yield from (event for event in b.of(Histogram) if told_of_work or TOOK not in event.name)
    others = (event for event in b.events if not isinstance(event, Usage | NodeUsage | Progress | Episode | Histogram))
    yield from others


def _moments(b: Bundle) -> Iterator[int]:
    """Where something is interpolated, or a window begins or ends, in nanoseconds."""
    starts = [event.ns for event in b.of(FirstStep)]
    if not starts:
        return
    began = min(starts)
    last = {event.role: event.ns for event in sorted(b.of(Progress), key=lambda event: event.ns)}
    kinds: dict[str, int] = {}
    for role, ns in last.items():
        kind = role.partition(" ")[0]
        kinds[kind] = max(ns, kinds.get(kind, 0))
    ends = {*kinds.values(), *sorted(last.values())[:1]}
    yield from (began, *ends)
    for end in ends:
        yield began + round(disciplines.WARM_UP_SHARE * (end - began))
        for measured in (end - began, 1e9 * b.manifest.phases_s.get("measured", 0.0)):
            yield began + int(max(scaling.WARM_UP_S * 1e9, scaling.WARM_UP_SHARE * measured))
    if _learnt(b):
        crossings = learning(b).crossings.values()
        yield from (began + round(1e9 * one.seconds) for one in crossings if one is not None)


def _learnt(b: Bundle) -> bool:
    """Whether returns are told of it."""
    judged = bool(b.of(Evaluation)) or (bool(b.of(Episode)) and b.manifest.suite not in THROUGHPUT)
    return b.manifest.status == "completed" and bool(b.of(Snapshot)) and judged


def _around(events: Iterable[E], moments: Sequence[int], key: Callable[[E], Hashable]) -> Iterator[E]:
    """The first and last event of each key, and the neighbours of each moment."""
    groups: dict[Hashable, list[E]] = {}
    for event in events:
        groups.setdefault(key(event), []).append(event)
    for own in groups.values():
        own.sort(key=lambda event: event.ns)
        at = [event.ns for event in own]
        places = {0, len(own) - 1}
        for moment in moments:
            place = bisect_left(at, moment)
            places.update(range(max(0, place - 1), min(len(own), place + 2)))
        yield from (own[place] for place in sorted(places))


def _episodes(b: Bundle) -> Iterator[Episode]:
    episodes = b.of(Episode)
    if b.manifest.suite in DRAWN or not _learnt(b):
        yield from episodes if b.manifest.suite not in THROUGHPUT else ()
        return
    workload = b.manifest.configuration["workload"]
    counted = sorted((event for event in episodes if event.steps <= workload["budget_steps"]), key=lambda event: event.ns)
    at = crossing([event.episode_return for event in counted], workload["thresholds"]["training"])
    if at is not None:
        yield from counted[max(0, at + 1 - WINDOW) : at + 1]
    yield from counted[-1 if b.manifest.suite == PRICE else -WINDOW :]
