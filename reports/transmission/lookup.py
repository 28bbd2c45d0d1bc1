"""One workload of the transmission suite: its rows by what they are of, and how a reader should see sizes and seconds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.dataset import REFERENCE, Dataset
from reports.tables import inverse, number
from suites.statistics.summary import AGAIN
from suites.transmission.analysis import CEILINGS

ORDER = ("tianji", "tianji-curve", "xingtian", "ray-store", "mp-queue", "pyzmq", *CEILINGS)


def size_text(size_bytes: int) -> str:
    """`64 KiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes} B"


def seconds_text(seconds: float) -> str:
    """Three digits in the unit that fits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{number(seconds / unit)} {name}"
    return f"{number(seconds / 1e-9)} ns"


class Traffic:
    """One workload of the suite, looked up."""

    def __init__(self, data: Dataset, workload: str) -> None:
        self.data, self.id, self.description = data, workload, data.traffic[workload]
        rows = [r for r in data.rows if r["suite"] == "transmission" and r["workload"] == workload]
        self._rows = {(r["system"], r["metric"], r["size_bytes"], r["explorers"], r["baseline"]): r for r in rows}
        systems = {r["system"] for r in rows}
        self.labels = sorted(systems, key=lambda label: (ORDER.index(label) if label in ORDER else len(ORDER), label))
        self.shown = [label for label in self.labels if not label.endswith(AGAIN)]
        self.explorers = sorted({r["explorers"] for r in rows})
        self.ceiling: str = self.description["ceiling"]

    @property
    def fewest(self) -> str:
        """`1 explorer`: the fewest with which anything was measured."""
        n = self.explorers[0]
        return f"{n} explorer{'s' * (n > 1)}"

    def sizes(self, explorers: int) -> list[int]:
        """Sizes that were measured with so many explorers."""
        return sorted({size for _, _, size, n, _ in self._rows if n == explorers})

    def find(self, system: str, metric: str, size: int, explorers: int, baseline: str | None = None) -> dict[str, Any] | None:
        """The row of this scalar, or None."""
        row = self._rows.get((system, metric, size, explorers, baseline))
        return None if row is None or row["value"] is None else row

    def delays(self, explorers: int) -> pd.DataFrame:
        """Percentiles of delays with so many explorers."""
        frame = self.data.series["delays"]
        return frame[(frame["workload"] == self.id) & (frame["explorers"] == explorers)]

    def title(self, label: str) -> str:
        """As a reader should see it; ceilings say that they are."""
        title = self.data.titles[f"transmission:{label}"]
        return f"{title} (ceiling)" if label in CEILINGS else title

    def competitors(self) -> list[str]:
        """Systems that TianJi is compared with."""
        return [label for label in self.shown if label not in CEILINGS and not label.startswith(REFERENCE)]

    def delay_title(self) -> str:
        """What its delays are."""
        return "round trip" if self.description["direction"] == "samples" else "until all have the vector"


def room(traffic: Traffic, label: str, size: int, explorers: int) -> dict[str, Any] | None:
    """The ceiling's goodput over a pipe's: the inverse of its share, interval and all."""
    return inverse(traffic.find(label, "goodput_ratio", size, explorers, traffic.ceiling))
