"""What a part of a report is of: one workload of one suite, on one machine."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd

from reports.charts import Group, Panel
from reports.dataset import Dataset, Key
from reports.pairs import ORDER, first_runs
from reports.table import Row
from reports.tables import with_interval
from suites.records.bundle import Bundle
from suites.statistics.summary import AGAIN, label_of

DIVISIONS = {"division = open": "open division", "tuned = True": "tuned"}
"""What options that mark a division are called where people read them."""


TEXTS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
"""What is said beside tables and diagrams."""


class Shown(NamedTuple):
    """A table of a page."""

    title: str
    about: str
    frame: pd.DataFrame
    """Texts, a dash where there is none."""
    name: str
    """Of its file."""


def shown(kind: str, lines: Iterable[Mapping[str, str]], name: str = "") -> list[Shown]:
    """A table of lines from heads to texts, without columns that say nothing anywhere; none where it has no lines.

    Parameters
    ----------
    kind
        which of the texts of `words.toml` it has.
    name
        of its file; none given: the kind.
    """
    frame, (title, about) = pd.DataFrame(list(lines)), TEXTS["table"][kind]
    return [] if frame.empty else [Shown(title, about, frame.loc[:, (frame != "-").any()], name or kind)]


def group(kind: str, panels: Iterable[Panel]) -> list[Group]:
    """Diagrams that have something, with the texts of `words.toml`; none where nothing is drawn."""
    (title, about), kept = TEXTS["group"][kind], [panel for panel in panels if any(one.x for one in panel.curves)]
    return [Group(title, about, kept)] if kept else []


def slug(text: str) -> str:
    """As part of the name of a file, of a section and of a label."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


class View:
    """The rows, series and bundles of one workload, and how a reader should see it.

    Where a workload was measured on several machines, or for several values of a further axis, each has a view of its own.
    """

    suite: ClassVar[str]
    counts_nodes: ClassVar[bool] = False
    """Whether the suite varies the number of nodes."""

    def __init__(self, data: Dataset, key: Key, **scope: Any) -> None:
        self.data, self.key, self.workload = data, key, key.workload
        self.bundles: Sequence[Bundle] = data.groups[key]
        self._scope = key._asdict() | scope
        self.table = data.table.where(**self._scope | {"options": key.options or None})

    @classmethod
    def all(cls, data: Dataset) -> list[Self]:
        return [cls(data, key) for key in data.groups if key.suite == cls.suite]

    @property
    def groups(self) -> list[Group]:
        """Diagrams of its page."""
        return []

    @property
    def tables(self) -> list[Shown]:
        """Tables of its page."""
        return []

    @property
    def runs(self) -> Sequence[Bundle]:
        return self.bundles

    @property
    def description(self) -> dict[str, Any]:
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
    def slug(self) -> str:
        """What the names of its page and tables begin with."""
        own = slug(self.apart)
        # Names may differ in what no name of a file has.
        number = [key for key in self._alike if slug(self._apart(key)) == own].index(self.key)
        prefix = "" if self.suite == "convergence" else self.suite
        return "-".join(filter(None, (prefix, slug(self.stem), own, str(number + 1) if number else "")))

    @property
    def stem(self) -> str:
        """What it is of, for names of files."""
        return self.workload

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

    @cached_property
    def labels(self) -> list[str]:
        """Systems of which there is anything, in the order of reading; second runs have labels of their own."""
        return in_order(self.table.known("system"))

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
        return self.titles[label]

    def row(self, system: str, metric: str, **keys: Any) -> Row | None:
        """The row of this scalar, or None; its value may be null, where every run was censored."""
        return self.table.one(system=system, metric=metric, **keys)

    def find(self, system: str, metric: str, **keys: Any) -> Row | None:
        """The row of this scalar where it has a value."""
        row = self.row(system, metric, **keys)
        return None if row is None or row["value"] is None else row

    def cell(self, system: str, **scope: Any) -> Callable[..., str]:
        """From a metric to the text of a table's cell; `scope` and further keys say which row, and how it is written."""

        def text(metric: str, suffix: str = "", *, scale: float = 1.0, interval: bool = True, **keys: Any) -> str:
            row = self.row(system, metric, **keys)
            return with_interval(row if row is None or interval else row | {"ci_low": None}, suffix, scale)

        return partial(text, **scope)

    def points(self, series: str) -> pd.DataFrame:
        """The lines of a series that are of this view."""
        frame = self.data.series[series]
        for column, value in self._scope.items():
            if column in frame:
                frame = frame[frame[column] == value]
        return frame

    def deviations(self) -> dict[str, list[str]]:
        """Of each system, by its title, in what it deviates from the matched configuration."""
        found = {label_of(b): b.manifest.deviations for b in self.runs if not b.manifest.replica}
        return {self.title(label): found[label] for label in in_order(found)}


def in_order(labels: Iterable[str]) -> list[str]:
    """Systems in the order of reading; a second run follows the first, and those that are not known come last, by name."""
    places = {label: at for at, label in enumerate(ORDER)}
    return sorted(labels, key=lambda label: (places.get(label.removesuffix(AGAIN), len(ORDER)), label))
