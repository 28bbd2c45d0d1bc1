"""What a section of a report is of: one workload of one suite, on one machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import pandas as pd

from reports.dataset import Dataset, Key
from reports.pairs import first_runs
from reports.table import Row
from reports.tables import with_interval
from reports.words import Words
from suites.records.bundle import Bundle
from suites.statistics.summary import label_of


class View:
    """The rows, series and bundles of one workload, and how a reader should see it.

    Where a workload was measured on several machines, or for several values of a further axis, each has a view of its own.
    """

    suite: ClassVar[str]
    prefix: ClassVar[str] = ""
    """Of the names of its figures and tables, where its workloads may be those of other suites."""
    order: ClassVar[Sequence[str]]
    """Of systems."""

    def __init__(self, data: Dataset, key: Key, **scope: Any) -> None:
        self.data, self.key, self.workload = data, key, key.workload
        self.bundles: Sequence[Bundle] = data.groups[key]
        self._scope = key._asdict() | scope
        self.table = data.table.where(**self._scope | {"options": key.options or None})

    @classmethod
    def all(cls, data: Dataset) -> list[Self]:
        """Every view of the suite, sorted."""
        return [cls(data, key) for key in data.groups if key.suite == cls.suite]

    @property
    def description(self) -> dict[str, Any]:
        """The complete workload."""
        found: dict[str, Any] = self.bundles[-1].manifest.configuration["workload"]
        return found

    @cached_property
    def apart(self) -> str:
        """What tells this view from others of the same workload: its machine, where there are several, and options."""
        machines = {key.machine for key in self.data.groups if key[:2] == self.key[:2]}
        return ", ".join(filter(None, (self.key.machine if len(machines) > 1 else "", self.key.options)))

    @property
    def subject(self) -> str:
        """The workload's title, and what tells it apart."""
        title = self.description["title"]
        return f"{title} ({self.apart})" if self.apart else title

    @property
    def name(self) -> str:
        """The workload's id, and what tells it apart."""
        return f"{self.workload} ({self.apart})" if self.apart else self.workload

    @property
    def slug(self) -> str:
        """What the names of its figures and tables begin with."""
        apart = re.sub(r"[^a-z0-9]+", "-", self.apart.lower()).strip("-")
        return "-".join(filter(None, (f"{self.prefix}{self._kind}", apart)))

    @property
    def _kind(self) -> str:
        """What its slug has of the workload."""
        return self.workload

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
        """By label, what a system is called."""
        return {label_of(b): title_of(b) for b in self.bundles}

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

    def cells(
        self, system: str, metrics: Mapping[str, str], suffix: str = "", scale: float = 1.0, **keys: Any
    ) -> dict[str, str]:
        """Cells of a table: by the head of a column, the scalar of this metric with its interval."""
        return {head: with_interval(self.row(system, metric, **keys), suffix, scale) for head, metric in metrics.items()}

    @cached_property
    def words(self) -> Words:
        """What the suite's template says of it."""
        return Words(f"{self.suite}.j2", self)

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


def title_of(b: Bundle) -> str:
    """What a run's system is called."""
    return f"{b.manifest.system_title}, second run" if b.manifest.replica else b.manifest.system_title
