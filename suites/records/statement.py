"""The stated plan of a session, `plan.json`: what it is to show, and how much will be measured, written before the first run.

A session is sealed with it. A report reads from it how often its author meant to look at results, and which runs were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from suites.records import limits
from suites.records.bundle import Bundle, BundleError
from suites.records.limits import Amount, Count, Name, Text
from suites.records.predictions import Predictions

FILE = "plan.json"
SCHEMA = "tianji-bench/plan/1"
NONE = "no plan recorded"
MOST_LOOKS = 100


class Statement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was meant to be measured."""

    schema: str = SCHEMA
    session: Name
    written: Text
    """When, in universal time: `2026-01-31T12:00:00Z`."""
    claim: Text | None = None
    """What it is for: a claim of the ledger, or a question in words."""
    suite: Name
    profile: Name
    systems: tuple[Name, ...]
    workloads: tuple[Name, ...]
    seeds: tuple[Count, ...]
    """Of blocks: one each."""
    looks: Annotated[int, Meta(ge=1, le=MOST_LOOKS)] = 1
    """How often results are looked at before measuring ends: each look is a chance to stop at a lucky moment."""
    busy: bool = False
    """Whether it began although the machine was not idle."""
    load_1min: Amount | None = None
    noise_floor: Amount | None = None
    predictions: Predictions | None = None
    """What was predicted of its cells."""
    stopped: Text | None = None
    """Why it ended before its plan was done, as said when it was sealed. None: it is whole."""

    @property
    def words(self) -> str:
        """As a report says it."""
        what = f"for {self.claim!r}" if self.claim else "for no claim"
        blocks, looks = (f"{n} {noun}{'s' * (n != 1)}" for n, noun in ((len(self.seeds), "block"), (self.looks, "look")))
        busy = ", begun on a busy machine" if self.busy else ""
        stopped = f"; stopped before it was done: {self.stopped}" if self.stopped else ""
        return f"stated {self.written}, {what}: {blocks} of {', '.join(self.systems)}, {looks}{busy}{stopped}"


def read(data: bytes, place: Path) -> Statement:
    """Decode a stated plan.

    Raises
    ------
    BundleError
        where it is damaged or of another schema.
    """
    try:
        found = msgspec.json.decode(data, type=Statement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{place}: damaged: {error}") from None
    if found.schema != SCHEMA:
        raise BundleError(f"{place}: has schema {found.schema}; this version reads {SCHEMA}")
    return found


def in_folder(folder: Path) -> Statement | None:
    """The stated plan in a session's folder; None where it was begun without one."""
    path = folder / FILE
    return read(limits.contents(path), path) if path.is_file() else None


def beyond(bundles: Iterable[Bundle], stated: Mapping[str, Statement]) -> list[Bundle]:
    """Runs of blocks that their own session's plan does not name: they were added, and are not pooled.

    Every session of a plan counts, and so does one without a plan: nothing is dropped for what it found. What several sessions
    say is told with an error that is divided by their number (`reports.estimate`).
    """
    return [b for b in bundles if b.manifest.session in stated and b.manifest.seed not in stated[b.manifest.session].seeds]


def repeated(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Runs of blocks that ran again, because the machine changed during them (`machine.changed`): the last ones count.

    A planned block has a seed of its own within its session and setting, so two blocks of one seed are one block twice.
    """
    last: dict[tuple[object, ...], int] = {}
    every = list(bundles)
    for b in every:
        last[_block(b)] = max(b.manifest.block, last.get(_block(b), 0))
    return [b for b in every if b.manifest.block < last[_block(b)]]


def _block(b: Bundle) -> tuple[object, ...]:
    m = b.manifest
    axes = tuple(sorted((name, repr(value)) for name, value in m.options.items()))
    return m.session, m.suite, m.workload, m.nodes, m.testbed, m.scaling, m.explorers, m.size_bytes, axes, m.seed


def looks(bundles: Iterable[Bundle], stated: Mapping[str, Statement]) -> int:
    """How often the results of these runs were to be looked at: the most that any of their plans states; 1 without a plan."""
    return max((stated[b.manifest.session].looks for b in bundles if b.manifest.session in stated), default=1)
