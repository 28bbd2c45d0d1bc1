"""One workload of the price suite at one learning rate, looked up, and what all its learning rates say together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reports.table import Row
from reports.tables import with_interval
from reports.view import View
from suites.price.analysis import REFERENCE

KIND = "evaluated"
"""Definition of the return that statements are about. Episodes of training are of policies that are already old."""


class Point(NamedTuple):
    """Steps to the return at one lag and learning rate, over those without lag."""

    lag: int
    learning_rate: float
    row: Row

    @property
    def product(self) -> float:
        """Lag times learning rate, by which theory says that the price is decided."""
        return float(f"{self.lag * self.learning_rate:.6g}")

    def __str__(self) -> str:
        return f"lag {self.lag} at {self.learning_rate:g} takes {with_interval(self.row, 'x')}"


class Priced(View):
    """Runs of one workload at one learning rate, under each lag."""

    suite = "price"
    prefix = "price-"
    parts = ("steps",)
    order = tuple(f"tianji-admitted-in-order-{lag}" for lag in (0, 1, 2, 4))
    enough = 30
    """Least number of paired seeds of a statement about steps."""

    @property
    def learning_rate(self) -> float:
        """That of its runs, at the start."""
        return float(self.bundles[0].manifest.options["ppo.learning_rate"])

    def lag(self, label: str) -> int:
        """Age of its samples in rounds."""
        return int(label.rpartition("-")[2])

    def cost(self, label: str, kind: str) -> Row | None:
        """Steps to a return over those without lag, at the same seeds."""
        return self.row(REFERENCE, "steps_to_threshold_ratio", threshold_kind=kind, baseline=label)

    def prices(self) -> Iterator[Point]:
        """Every lag that has a ratio."""
        for label in self.shown:
            row = self.cost(label, KIND)
            if row is not None and row["value"] is not None:
                yield Point(self.lag(label), self.learning_rate, row)

    @property
    def fellows(self) -> list[Priced]:
        """Views of the same workload on the same machine, one a learning rate."""
        alike = [view for view in self.all(self.data) if view.key[:3] == self.key[:3]]
        return sorted(alike, key=lambda view: view.learning_rate)

    @property
    def leads(self) -> bool:
        """Whether it speaks for all learning rates."""
        return self.fellows[0].key == self.key

    @property
    def statements(self) -> list[str]:
        """What all learning rates say together."""
        return statements([point for view in self.fellows for point in view.prices()], self.enough)


def statements(points: Iterable[Point], enough: int) -> list[str]:
    """Whether lag times learning rate decides what staleness costs, in sentences.

    Points with fewer than `enough` paired seeds take no part. Of two points of one product whose intervals do not overlap,
    something else decides as well.
    """
    points = list(points)
    able = [point for point in points if point.row["n"] >= enough]
    few = sorted({point.row["n"] for point in points} - {point.row["n"] for point in able})
    told = [f"n = {' and '.join(map(str, few))}: no statement (at least {enough} paired seeds)."] if few else []
    alike = [
        (one, other)
        for one, other in itertools.combinations(sorted(able, key=lambda point: (point.product, point.lag)), 2)
        if one.product == other.product
    ]
    if not alike:
        return told
    apart = max(alike, key=_gap)
    if _gap(apart) > 1:
        told.append(f"Lag times learning rate alone does not decide: at {apart[0].product:g}, {apart[0]} and {apart[1]}.")
    else:
        told.append(
            f"Settings with the same lag times learning rate are not shown to differ: the intervals of all {len(alike)} pairs "
            "overlap."
        )
    return told


def _gap(pair: tuple[Point, Point]) -> float:
    """Lower end of the higher interval over the upper end of the lower one: above 1 they do not overlap."""
    low, high = sorted((point.row for point in pair), key=lambda row: float(row["value"]))
    return float(high["ci_low"] / low["ci_high"])
