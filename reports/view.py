"""What a section of a report is of: one workload of one suite, on one machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import pandas as pd

from reports.dataset import Dataset, Key
from reports.pairs import first_runs
from reports.table import Row
from reports.tables import number, with_interval
from reports.words import Words
from suites.records.bundle import Bundle
from suites.statistics.crossings import KINDS
from suites.statistics.summary import label_of

DIVISIONS = {"division = open": "open division", "tuned = True": "tuned"}
"""What options that mark a division are called where people read them."""


def _slug(text: str) -> str:
    """As part of the name of a file, of a section and of a label."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


class View:
    """The rows, series and bundles of one workload, and how a reader should see it.

    Where a workload was measured on several machines, or for several values of a further axis, each has a view of its own.
    """

    suite: ClassVar[str]
    prefix: ClassVar[str] = ""
    """Of the names of its figures and tables, where its workloads may be those of other suites."""
    order: ClassVar[Sequence[str]]
    """Of systems."""
    parts: ClassVar[Sequence[str]]
    """Tables of a page in the order of reading."""
    sparse: ClassVar[bool] = False
    """Whether columns that say nothing anywhere are left out."""
    counts_nodes: ClassVar[bool] = False
    """Whether the suite varies the number of nodes."""

    def __init__(self, data: Dataset, key: Key, **scope: Any) -> None:
        self.data, self.key, self.workload = data, key, key.workload
        self.stem = f"{self.prefix}{key.workload}"
        self.bundles: Sequence[Bundle] = data.groups[key]
        self._scope = key._asdict() | scope
        self.table = data.table.where(**self._scope | {"options": key.options or None})

    @classmethod
    def all(cls, data: Dataset) -> list[Self]:
        """Every view of the suite, sorted."""
        return [cls(data, key) for key in data.groups if key.suite == cls.suite]

    @property
    def runs(self) -> Sequence[Bundle]:
        """Its runs, with failed ones."""
        return self.bundles

    @property
    def description(self) -> dict[str, Any]:
        """The complete workload."""
        return dict(self.bundles[-1].manifest.configuration["workload"])

    @cached_property
    def apart(self) -> str:
        """What tells this view from others of the same workload: its machine, where there are several, and options."""
        return self._apart(self.key)

    def _apart(self, key: Key) -> str:
        several = len({other.machine for other in self._alike}) > 1
        options = ", ".join(DIVISIONS.get(option, option) for option in key.options.split(", "))
        # A bar would end a table's cell.
        return ", ".join(filter(None, (key.machine if several else "", options))).replace("|", "/")

    @cached_property
    def _alike(self) -> list[Key]:
        """Those of the same workload."""
        return [key for key in self.data.groups if key[:2] == self.key[:2]]

    @property
    def subject(self) -> str:
        """The workload's title, and what tells it apart."""
        title = self.description["title"]
        return f"{title} ({self.apart})" if self.apart else title

    @property
    def name(self) -> str:
        """The workload's id, and what tells it apart."""
        return f"{self.workload} ({self.apart})" if self.apart else self.workload

    def workloads_of(self, runs: Sequence[Bundle]) -> list[str]:
        """Workloads to be named to `run`, to measure these runs of one session again."""
        return [self.workload]

    @property
    def slug(self) -> str:
        """What the names of its figures and tables begin with."""
        own = _slug(self.apart)
        # Names may differ in what no name of a file has.
        number = [key for key in self._alike if _slug(self._apart(key)) == own].index(self.key)
        return "-".join(filter(None, (_slug(self.stem), own, str(number + 1) if number else "")))

    @classmethod
    def in_order(cls, labels: Iterable[str]) -> list[str]:
        """Systems in the suite's order of reading; those that it does not name come last, by name."""
        return sorted(labels, key=lambda label: (cls.order.index(label) if label in cls.order else len(cls.order), label))

    @cached_property
    def labels(self) -> list[str]:
        """Systems of which there is anything; second runs have labels of their own."""
        return self.in_order(self.table.known("system"))

    @cached_property
    def shown(self) -> list[str]:
        """The same without second runs."""
        return first_runs(self.labels)

    @cached_property
    def titles(self) -> dict[str, str]:
        """By label, what a system is called; a bar would end a table's cell."""
        titles = {label_of(b): b.manifest.system_title + ", second run" * b.manifest.replica for b in self.bundles}
        return {label: title.replace("|", "/") for label, title in titles.items()}

    def title(self, label: str) -> str:
        """As a reader should see a system."""
        return self.titles[label]

    def row(self, system: str, metric: str, **keys: Any) -> Row | None:
        """The row of this scalar, or None; its value may be null, where every run was censored."""
        return self.table.one(system=system, metric=metric, **keys)

    def find(self, system: str, metric: str, **keys: Any) -> Row | None:
        """The row of this scalar where it has a value."""
        row = self.row(system, metric, **keys)
        return None if row is None or row["value"] is None else row

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps that a system needs to a return, over those of its algorithm's reference; None where there is none."""
        return None

    def fewer(self, label: str) -> dict[str, Row]:
        """By definition of the return, that ratio where the whole interval is below 1: the system may be another algorithm.

        No adjustment for several looks: it would hide some, and a wrong suspicion costs a reader little.
        """
        rows = {kind: self.steps(label, kind) for kind in KINDS}
        return {kind: row for kind, row in rows.items() if row and row["ci_high"] is not None and row["ci_high"] < 1}

    def suspected(self, label: str) -> str:
        """The system's title; one that needs significantly fewer steps says so before its seconds are told."""
        told = ", ".join(f"{kind} {number(row['value'])}x the steps" for kind, row in self.fewer(label).items())
        return f"{self.title(label)} (another algorithm? {told})" if told else self.title(label)

    def cell(self, system: str, **scope: Any) -> Callable[..., str]:
        """From a metric to the text of a table's cell; `scope` and further keys say which row, and how it is written."""

        def text(metric: str, suffix: str = "", *, scale: float = 1.0, interval: bool = True, **keys: Any) -> str:
            row = self.row(system, metric, **keys)
            return with_interval(row if row is None or interval else row | {"ci_low": None}, suffix, scale)

        return partial(text, **scope)

    @cached_property
    def words(self) -> Words:
        """What the suite's template says of it."""
        return Words(f"{self.suite}.j2", self)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the template that says anything, by kind, in the order of reading."""
        made = {kind: self.frame(kind) for kind in self.parts if f"table_{kind}" in self.words}
        return {kind: frame for kind, frame in made.items() if not frame.empty}

    def frame(self, kind: str) -> pd.DataFrame:
        """A table as text: after its title and caption, the template has the heads of columns, and then its lines."""
        heads, *lines = (line.split(" | ") for line in self.words.lines(f"table_{kind}")[2:])
        frame = pd.DataFrame(lines, columns=heads)
        return frame.loc[:, (frame != "-").any()] if self.sparse and lines else frame

    @cached_property
    def findings(self) -> list[str]:
        """What came of it, in sentences."""
        return self.words.lines("findings")

    def points(self, series: str) -> pd.DataFrame:
        """The lines of a series that are of this view."""
        frame = self.data.series[series]
        for column, value in self._scope.items():
            if column in frame:
                frame = frame[frame[column] == value]
        return frame

    def deviations(self) -> list[dict[str, Any]]:
        """Of each system, in what it deviates from the matched configuration."""
        found = {label_of(b): b.manifest.deviations for b in self.bundles if not b.manifest.replica}
        return [{"system": self.title(label), "lines": found[label]} for label in self.in_order(found)]
