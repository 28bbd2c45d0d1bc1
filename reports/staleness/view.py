"""One workload of the staleness suite, looked up."""

from __future__ import annotations

from reports import bounds
from reports.pairs import REFERENCE
from reports.table import Row
from reports.tables import inverse
from reports.view import View


class Balanced(View):
    """Runs of one workload with the balance two-sided, one-sided and off."""

    suite = "staleness"
    prefix = "staleness-"
    parts = ("balance", "returns", "waiting")
    non_inferiority = 1.10
    """Upper bound of the ratio of steps up to which relaxed training counts as not worse."""
    order = ("tianji", "tianji-relaxed", "tianji-one-sided", "tianji-unbalanced", "tianji-as-published")

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps that a system needs to a threshold, over the reference's."""
        return self.row(REFERENCE, "steps_to_threshold_ratio", threshold_kind=kind, baseline=label)

    def costs(self, label: str, kind: str) -> Row | None:
        """How many times fewer core-seconds a system takes to a threshold than the reference."""
        return inverse(self.row(REFERENCE, "core_seconds_to_threshold_ratio", threshold_kind=kind, baseline=label))

    def fast(self, label: str, kind: str) -> bounds.Told:
        """How many times as fast a system reaches a threshold as the reference."""
        return bounds.told(lambda metric: self.row(REFERENCE, metric, threshold_kind=kind, baseline=label)).inverse
