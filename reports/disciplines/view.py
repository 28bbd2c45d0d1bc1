"""One workload of the disciplines suite, looked up."""

from __future__ import annotations

from reports import bounds
from reports.table import Row
from reports.view import View
from suites.disciplines.analysis import strict_system

FAMILY = "tianji-admitted-"
"""The systems that differ in one number, eta, by the beginning of their ids."""


class Ruled(View):
    """Runs of one workload under each discipline."""

    suite = "disciplines"
    prefix = "disciplines-"
    parts = ("throughput", "returns", "seconds", "waiting")
    order = (
        "tianji-strict",
        "tianji",
        "tianji-reactor",
        "tianji-stream",
        "tianji-quota-free",
        "tianji-exactly-one-round",
        "tianji-admitted-in-order-1",
        *(f"{FAMILY}{eta}" for eta in (0, 1, 2, 4, 8)),
        "tianji-admitted-interruptible-1",
        "tianji-relaxed",
        "tianji-one-sided",
        "tianji-free",
        "tianji-unbalanced",
        "tianji-periodic",
    )
    enough = 0.9
    """Share of its bound that every discipline should reach."""

    def discipline(self, label: str) -> str:
        """What a system is called among others that differ in nothing else."""
        if label in ("tianji-strict", "tianji") and label == self.strict:
            return "strict"
        return "relaxed" if label == "tianji" else self.title(label).removeprefix("TianJi, ")

    @property
    def strict(self) -> str:
        """The system that waits for everybody: strict, or with a replay the reactor. Throughput is shown over its."""
        return strict_system(self.description)

    @property
    def relaxed(self) -> str:
        """The relaxed system, which is the default where `strict` is not."""
        return "tianji-relaxed" if self.strict == "tianji" else "tianji"

    def gain(self, label: str) -> Row | None:
        """Throughput over the strict system's."""
        return self.row(label, "throughput_ratio", baseline=self.strict)

    @property
    def judged(self) -> list[str]:
        """Systems whose snapshots were played."""
        return [label for label in self.shown if self.row(label, "steps_to_threshold", threshold_kind="evaluated")]

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps to a return over the strict system's, within blocks."""
        return self._over_strict("steps_to_threshold_ratio", label, kind)

    def seconds(self, label: str, kind: str) -> bounds.Told:
        """Seconds to a return over the strict system's."""
        return bounds.told(lambda metric: self._over_strict(metric, label, kind))

    def _over_strict(self, metric: str, label: str, kind: str) -> Row | None:
        # A row's ratio is that of the baseline to the system.
        return None if label == self.strict else self.row(self.strict, metric, threshold_kind=kind, baseline=label)

    @property
    def below(self) -> list[str]:
        """Disciplines that are shown to stay below `enough` of their bound, and those without an interval that do."""
        rows = [(label, self.find(label, "share_of_bound")) for label in self.shown]
        return [
            self.discipline(label)
            for label, row in rows
            if row and (row["value"] if row["ci_high"] is None else row["ci_high"]) < self.enough
        ]

    @property
    def least(self) -> Row | None:
        """The lowest share of a bound."""
        rows = [row for label in self.shown if (row := self.find(label, "share_of_bound"))]
        return min(rows, key=lambda row: float(row["value"]), default=None)
