"""One workload of the transmission suite, looked up."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from reports import families
from reports.pairs import REFERENCE
from reports.table import Row
from reports.tables import inverse
from reports.view import View
from suites.transmission.analysis import CEILINGS


class Traffic(View):
    """Messages of one workload through every pipe."""

    suite = "transmission"
    parts = ("ratio", "room", "goodput", "cost")
    order = ("tianji", "tianji-curve", "xingtian", "ray-store", "mp-queue", "pyzmq", *CEILINGS)

    @property
    def ceiling(self) -> str:
        """What does the same work with nothing in between."""
        return str(self.description["ceiling"])

    @cached_property
    def explorers(self) -> list[int]:
        """Numbers of explorers with which anything was measured."""
        return self.table.known("explorers")

    @property
    def asked(self) -> list[int]:
        """Numbers of explorers that were asked for."""
        extents = [b.manifest.configuration["extent"] for b in self.bundles]
        return sorted({n for extent in extents for n in extent["explorers"]})

    @cached_property
    def measured(self) -> list[tuple[int, int]]:
        """(explorers, bytes of a message) that were measured."""
        return sorted({(row["explorers"], row["size_bytes"]) for row in self.table.rows})

    def sizes(self, explorers: int) -> list[int]:
        """Sizes that were measured with so many explorers."""
        return [size for n, size in self.measured if n == explorers]

    def at(self, system: str, metric: str, size: int, explorers: int, baseline: str | None = None) -> Row | None:
        """The row of this scalar, or None."""
        return self.find(system, metric, size_bytes=size, explorers=explorers, baseline=baseline)

    def ratios(self, baseline: str) -> list[Row]:
        """TianJi's goodput over another's, for all sizes and numbers of explorers."""
        found = [self.at(REFERENCE, "goodput_ratio", size, n, baseline) for n, size in self.measured]
        return [row for row in found if row is not None]

    def range(self, baseline: str) -> tuple[Row, Row] | tuple[None, None]:
        """The least and the greatest of these, with intervals that hold for whichever they are."""
        found = sorted(self.ratios(baseline), key=_value)
        return (families.extreme(found[0], len(found)), families.extreme(found[-1], len(found))) if found else (None, None)

    @property
    def nearest(self) -> Row | None:
        """The least of its ratios to other systems, with an interval that holds for whichever it is."""
        found = [row for label in self.competitors for row in self.ratios(label)]
        return families.extreme(min(found, key=_value), len(found)) if found else None

    def room(self, label: str, size: int, explorers: int) -> Row | None:
        """The ceiling's goodput over a pipe's: the inverse of its share, interval and all."""
        return inverse(self.at(label, "goodput_ratio", size, explorers, self.ceiling))

    def rooms(self, size: int, explorers: int) -> bool:
        """Whether that is known of any."""
        return any(self.room(label, size, explorers) for label in self.competitors)

    def title(self, label: str) -> str:
        """As a reader should see it; ceilings say that they are."""
        return f"{self.titles[label]} (ceiling)" if label in CEILINGS else self.titles[label]

    @property
    def competitors(self) -> list[str]:
        """Systems that TianJi is compared with."""
        return [label for label in self.shown if label not in CEILINGS and not label.startswith(REFERENCE)]

    @property
    def delay_title(self) -> str:
        """What its delays are."""
        return "round trip" if self.description["direction"] == "samples" else "until all have the vector"

    def deviations(self) -> list[dict[str, Any]]:
        """None: pipes have no configuration to match."""
        return []


def _value(row: Row) -> float:
    return float(row["value"])
