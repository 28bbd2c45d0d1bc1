"""Messages of one workload of the transmission suite through every pipe: looked up, drawn, and as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

from reports.charts import Axis, Group, Panel, of_rows
from reports.pairs import REFERENCE
from reports.table import Row
from reports.tables import counted, seconds_text, size_text, with_interval
from reports.view import Shown, View, group, shown
from suites.transmission.analysis import CEILINGS, OVER_SIZES

MEGA = 1e-6


class Traffic(View):
    """Runs of one workload."""

    suite = "transmission"

    @property
    def ceiling(self) -> str:
        """What does the same work with nothing in between."""
        return str(self.description["ceiling"])

    @cached_property
    def explorers(self) -> list[int]:
        return self.table.known("explorers")

    @cached_property
    def measured(self) -> list[tuple[int, int]]:
        """(explorers, bytes of a message) that were measured."""
        return sorted({(row["explorers"], row["size_bytes"]) for row in self.table.rows if row["size_bytes"] is not None})

    def sizes(self, explorers: int) -> list[int]:
        return [size for n, size in self.measured if n == explorers]

    def at(self, system: str, metric: str, size: int, explorers: int, baseline: str | None = None) -> Row | None:
        return self.find(system, metric, size_bytes=size, explorers=explorers, baseline=baseline)

    def ratios(self, baseline: str) -> list[Row]:
        """TianJi's goodput over another's, for all sizes and numbers of explorers."""
        found = [self.at(REFERENCE, "goodput_ratio", size, n, baseline) for n, size in self.measured]
        return [row for row in found if row is not None]

    def over_sizes(self, baseline: str) -> list[Row]:
        """Means over sizes of TianJi's goodput over another's, by number of explorers."""
        found = (self.find(REFERENCE, OVER_SIZES, explorers=n, baseline=baseline) for n in self.explorers)
        return [row for row in found if row is not None]

    def title(self, label: str) -> str:
        """As a reader should see it; ceilings say that they are."""
        return f"{self.titles[label]} (ceiling)" if label in CEILINGS else self.titles[label]

    @property
    def competitors(self) -> list[str]:
        return [label for label in self.shown if label not in CEILINGS and not label.startswith(REFERENCE)]

    def panels(self, explorers: int) -> list[Panel]:
        rows = {
            label: [row for size in self.sizes(explorers) if (row := self._goodput(label, size, explorers))]
            for label in self.shown
        }
        curves = [of_rows(label, self.title(label), "size_bytes", own, MEGA) for label, own in rows.items() if own]
        axes = Axis("bytes of a message", log=True), Axis("goodput, MB/s", log=True)
        return [Panel(f"{self.name}, {counted(explorers, 'explorer')}", *axes, curves)] if curves else []

    def _goodput(self, label: str, size: int, explorers: int) -> Row | None:
        return self.at(label, "goodput_bytes_per_s", size, explorers)

    @property
    def groups(self) -> list[Group]:
        return group("messages", (panel for n in self.explorers for panel in self.panels(n)))

    @property
    def tables(self) -> list[Shown]:
        return shown("messages", self._lines())

    def _lines(self) -> Iterator[dict[str, str]]:
        for (explorers, size), label in itertools.product(self.measured, self.shown):
            if (row := self._goodput(label, size, explorers)) is not None:
                delay, scope = self.at(label, "latency_p50_s", size, explorers), {"size_bytes": size, "explorers": explorers}
                yield {
                    "Workload": self.name,
                    "Explorers": str(explorers),
                    "Size": size_text(size),
                    "Pipe": self.title(label),
                    "n": str(row["n"]),
                    "MB/s": with_interval(row, scale=MEGA),
                    "Of the ceiling": with_interval(self.at(label, "goodput_ratio", size, explorers, self.ceiling)),
                    "TianJi over it": with_interval(self.at(REFERENCE, "goodput_ratio", size, explorers, label), "x"),
                    "Delay": "-" if delay is None else seconds_text(delay["value"]),
                    "CPU s/GB": self.cell(label, **scope)("cpu_s_per_gb", interval=False),
                }
