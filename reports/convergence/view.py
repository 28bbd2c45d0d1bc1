"""One workload of the convergence suite, looked up."""

from __future__ import annotations

from functools import cached_property

from reports import bounds
from reports.pairs import REFERENCE
from reports.table import Row
from reports.view import View
from suites.statistics.crossings import KINDS
from suites.statistics.summary import label_of


class Trained(View):
    """Runs that trained one workload."""

    suite = "convergence"
    order = ("tianji", "tianji-relaxed", "sync", "sync-again", "xingtian", "rllib", "sb3")

    @cached_property
    def labels(self) -> list[str]:
        """All systems that ran, those whose every run failed among them."""
        return self.in_order({label_of(b) for b in self.bundles})

    @property
    def peers(self) -> list[str]:
        """Whom TianJi is compared with."""
        return [label for label in self.shown if label != REFERENCE]

    @property
    def stopped(self) -> bool:
        """Whether runs ended when they had reached their goal."""
        return any(b.manifest.configuration.get("stop_at_goal", False) for b in self.bundles)

    @property
    def seeds(self) -> list[int]:
        """Of its runs."""
        return sorted({b.manifest.seed for b in self.bundles})

    def timed(self, kind: str) -> dict[str, Row]:
        """By system, what is known of its time to a threshold; its value is null where no run got there."""
        rows = {label: self.row(label, "time_to_threshold_s", threshold_kind=kind) for label in self.shown}
        return {label: row for label, row in rows.items() if row is not None}

    def fast(self, first: str, second: str, kind: str) -> bounds.Told:
        """How many times as fast the first reaches a threshold, as it may be told."""
        return bounds.told(lambda metric: self.row(first, metric, threshold_kind=kind, baseline=second))

    def met(self, first: str, second: str) -> dict[str, Row]:
        """By definition of the threshold, the ratio of times of two systems, which may have no value."""
        rows = {kind: self.row(first, bounds.METRIC, threshold_kind=kind, baseline=second) for kind in KINDS}
        return {kind: row for kind, row in rows.items() if row is not None}

    def blocks(self, *pairs: tuple[str, str]) -> str:
        """How many blocks the ratios of these pairs are of, `5` or `4/5`; empty where none of them met."""
        counts = {row["n"] + row["censored"] for pair in pairs for row in self.met(*pair).values()}
        return "/".join(map(str, sorted(counts)))
