"""Where TianJi loses: every cell in which its strict form is slower than another system or learns less often, and every tie.

Slower: the whole 95 % interval of the ratio is below 1. Tie: the interval holds 1. These are cells, not verdicts: with many of
them some lie on one side of 1 by chance. Where a side missed a return in some
block, the ratio of restricted means is held instead. That mean says little of a run that ends soon without the return, so
returns that TianJi reached less often are listed apart, without any test. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reports.bounds import Told, counted
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.pairs import REFERENCE, first_runs
from reports.reached import Missed, missed
from reports.scaling.view import Scaled
from reports.sections import views
from reports.staleness.view import Balanced
from reports.table import Row
from reports.tables import inverse, size_text
from reports.transmission.view import Traffic
from reports.view import View
from suites.scaling.analysis import COPIES
from suites.statistics.crossings import KINDS


class Contest(NamedTuple):
    """One ratio of TianJi to another system, above 1 where TianJi is faster."""

    view: View
    where: str
    """Number of nodes, or size of messages; empty where a workload has one place."""
    quantity: str
    rival: str
    """The other system's title."""
    row: Row

    @property
    def words(self) -> str:
        """The ratio with its interval."""
        return counted(self.row)

    @property
    def lost(self) -> bool:
        """Whether the whole interval is below 1."""
        return self.row["ci_high"] is not None and self.row["ci_high"] < 1

    @property
    def tied(self) -> bool:
        """Whether the interval holds 1."""
        return self.row["ci_low"] is not None and self.row["ci_low"] <= 1 <= self.row["ci_high"]


class Losses(NamedTuple):
    """What the first page says of all contests with an interval, and of missed returns."""

    lost: list[Contest]
    """The largest loss of each suite first."""
    tied: list[Contest]
    won: int
    """Number of those whose whole interval is above 1."""
    missed: list[Missed]
    """Returns that another system reached in a larger share of its runs."""

    @property
    def contests(self) -> int:
        """All that have an interval."""
        return len(self.lost) + len(self.tied) + self.won


def losses(data: Dataset) -> Losses:
    """Every contest of strict TianJi that has an interval."""
    found = [one for view in views(data) for one in _contests(view) if one.row["ci_low"] is not None]
    order = list(dict.fromkeys(one.view.suite for one in found))
    lost = sorted((one for one in found if one.lost), key=lambda one: (order.index(one.view.suite), one.row["value"]))
    tied = [one for one in found if one.tied]
    won = len(found) - len(lost) - len(tied)
    trained = [view for view in views(data) if isinstance(view, Trained | Balanced)]
    return Losses(lost, tied, won, [one for view in trained for one in missed(view) if one.ahead])


def _contests(view: View) -> Iterator[Contest]:
    match view:
        case Trained() | Balanced():
            yield from _of_training(view)
        case Scaled():
            yield from _of_nodes(view)
        case Traffic():
            yield from _of_messages(view)


def _of_training(view: Trained | Balanced) -> Iterator[Contest]:
    for label in first_runs(view.labels):
        for kind in KINDS if label != REFERENCE else ():
            if isinstance(view, Trained):
                told, cost = view.fast(REFERENCE, label, kind), view.costs(REFERENCE, label, kind)
            else:
                told, cost = view.fast(label, kind).inverse, inverse(view.costs(label, kind))
            for quantity, row in ((f"{_of(told)}seconds", told.leading), ("core-seconds", cost)):
                if row is not None and row["value"] is not None:
                    yield Contest(view, "", f"{quantity}, {kind} return", view.title(label), row)


def _of(told: Told) -> str:
    """What leads where a side missed the return in some block."""
    return "" if told.leading is told.row else "restricted mean of "


def _of_nodes(view: Scaled) -> Iterator[Contest]:
    for label in view.systems:
        for nodes in view.nodes if label != REFERENCE and not label.endswith(COPIES) else ():
            place = f"{nodes} node{'s' * (nodes != 1)}"
            if (row := view.over("unique_consumption_ratio", label, nodes)) is not None:
                yield Contest(view, place, "samples per second", view.title(label), row)
            for kind in KINDS:
                told = view.told(label, nodes, kind)
                if told.leading is not None:
                    yield Contest(view, place, f"{_of(told)}seconds, {kind} return", view.title(label), told.leading)


def _of_messages(view: Traffic) -> Iterator[Contest]:
    for label in view.competitors:
        for explorers, size in view.measured:
            place = f"{size_text(size)}, {explorers} explorer{'s' * (explorers != 1)}"
            if (row := view.at(REFERENCE, "goodput_ratio", size, explorers, label)) is not None:
                yield Contest(view, place, "goodput", view.title(label), row)
            if (row := inverse(view.at(REFERENCE, "latency_p50_ratio", size, explorers, label))) is not None:
                yield Contest(view, place, "median delay", view.title(label), row)
