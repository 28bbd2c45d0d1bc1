"""How many runs of each system reached a return, and which systems reached it more often than TianJi.

A ratio of times says little of runs that never arrive, so these counts are told beside it. No test is made. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reports.convergence.view import Trained
from reports.pairs import REFERENCE, first_runs
from reports.staleness.view import Balanced
from suites.statistics.crossings import KINDS


class Runs(NamedTuple):
    """Runs of one system."""

    title: str
    reached: int
    of: int

    @property
    def words(self) -> str:
        """Such as `1 of 5`."""
        return f"{self.reached} of {self.of}"

    def above(self, other: Runs) -> bool:
        """Whether a larger share of these runs reached the return."""
        return self.reached * other.of > other.reached * self.of


class Missed(NamedTuple):
    """A return that some run of TianJi did not reach, on a workload where other systems ran too."""

    view: Trained | Balanced
    kind: str
    """Definition of the return."""
    ours: Runs
    """Of strict TianJi."""
    others: list[Runs]

    @property
    def ahead(self) -> list[Runs]:
        """The systems that reached it in a larger share of their runs."""
        return [one for one in self.others if one.above(self.ours)]


def missed(view: Trained | Balanced) -> Iterator[Missed]:
    """The returns that some run of TianJi missed; without second runs of a system."""
    for kind in KINDS:
        ours = _runs(view, REFERENCE, kind)
        others = [_runs(view, label, kind) for label in first_runs(view.labels) if label != REFERENCE]
        known = [one for one in others if one is not None]
        if ours is not None and ours.reached < ours.of and known:
            yield Missed(view, kind, ours, known)


def _runs(view: Trained | Balanced, label: str, kind: str) -> Runs | None:
    row = view.find(label, "success_rate", threshold_kind=kind)
    return None if row is None else Runs(view.title(label), round(row["value"] * row["n"]), row["n"])
