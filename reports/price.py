"""What old samples cost, of the suite price: steps to a return over those without lag, by lag times learning rate."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from reports.charts import Axis, Curve, Group, Panel, rounded
from reports.dataset import Dataset
from reports.looks import BLUE, GREEN, ORANGE, SKY, VERMILION
from reports.table import Row
from reports.tables import with_interval
from reports.view import Shown, View, group, shown
from suites.convergence.analysis import Run, understand
from suites.price.analysis import REFERENCE as UNLAGGED
from suites.price.analysis import pair_up, price

KIND = "evaluated"
"""Return of the price. Episodes of training are of policies that are already old."""
RATES, LINES = (BLUE, SKY, ORANGE, VERMILION, GREEN), ("-", "--", "-.", ":")
"""Colours and lines of the learning rates of a workload, from the lowest."""


class Priced(View):
    """Runs of one workload at one learning rate, under each lag."""

    suite = "price"

    @cached_property
    def every(self) -> list[Priced]:
        """All views of the suite, sorted by learning rate within a workload and machine."""
        return sorted(Priced.all(self.data), key=lambda view: (view.workload, view.key.machine, view.learning_rate))

    @property
    def groups(self) -> list[Group]:
        """A diagram of all learning rates of its workload and machine; the view of the lowest one has it."""
        alike = [view for view in self.every if view.key[:3] == self.key[:3]]
        axes = Axis("lag in rounds x learning rate", log=True), Axis("steps to the return, over those without lag", log=True)
        curves = [view.curve(place) for place, view in enumerate(alike)]
        panel = Panel(self.workload, *axes, [one for one in curves if one.x], target=1.0)
        return group("price", [panel]) if alike[0].key == self.key else []

    @property
    def tables(self) -> list[Shown]:
        """One table of the whole suite; the first view has it."""
        lines = (view._line(label) for view in self.every for label in view.shown)
        return shown("price", lines) if self.every[0].key == self.key else []

    @property
    def learning_rate(self) -> float:
        return float(self.bundles[0].manifest.options["ppo.learning_rate"])

    def lag(self, label: str) -> int:
        """Age of its samples in rounds."""
        return int(label.rpartition("-")[2])

    def cost(self, label: str, kind: str) -> Row | None:
        """Steps to a return over those without lag, at the same seeds."""
        return self.row(UNLAGGED, "steps_to_threshold_ratio", threshold_kind=kind, baseline=label)

    def curve(self, place: int) -> Curve:
        found = [(self.lag(label), row) for label in self.shown if (row := self.cost(label, KIND)) and row["value"]]
        points = [(lag, row) for lag, row in found if lag]
        known = ("low", "high") if all(row["ci_low"] is not None for _, row in points) else ()
        ends: dict[str, Any] = {key: rounded([row[f"ci_{key}"] for _, row in points]) for key in known}
        return Curve(
            name=f"learning rate {self.learning_rate:g}",
            x=rounded([lag * self.learning_rate for lag, _ in points]),
            y=[*rounded([row["value"] for _, row in points])],
            colour=RATES[place % len(RATES)],
            line=LINES[place % len(LINES)],
            marker="os^Dv"[place % 5],
            **ends,
        )

    def _line(self, label: str) -> dict[str, str]:
        cost, cell = self.cost(label, KIND), self.cell(label, threshold_kind=KIND)
        return {
            "Workload": self.workload,
            "Learning rate": f"{self.learning_rate:g}",
            "Lag": str(self.lag(label)),
            "Pairs": str(cost["n"]) if cost else "-",
            "Steps": cell("steps_to_threshold"),
            "Over lag 0's": with_interval(cost, "x"),
            "Over lag 0's, training": with_interval(self.cost(label, "training"), "x"),
            "Reached": cell("success_rate"),
        }


def fitted_prices(data: Dataset, first: int | None = None) -> list[tuple[str, ...]]:
    """Of each workload machine, price, interval, blocks, pairs, and pairs of which one run missed the return.

    A price is one number: how much more steps a round of age costs at the workload's learning rate.

    Parameters
    ----------
    first
        so many blocks of each session alone, from the first one; None: all.
    """
    runs: dict[tuple[str, str], list[Run]] = {}
    unusable = {bundle.path for bundle, _ in data.unusable}
    for view in Priced.all(data):
        used = (b for b in view.bundles if first is None or b.manifest.block < first)
        own = (b for b in used if b.manifest.status == "completed" and b.path not in unusable)
        runs.setdefault((view.workload, view.key.machine), []).extend(map(understand, own))
    found: list[tuple[str, ...]] = []
    for what, every in runs.items():
        pairs, missed = pair_up(every, KIND)
        fitted = price(pairs)
        if fitted.value is not None:
            interval = "-" if fitted.low is None else f"{fitted.low:.3f} to {fitted.high:.3f}"
            found.append((*what, f"{fitted.value:.3f}", interval, str(fitted.n), str(len(pairs)), str(missed)))
    return found
