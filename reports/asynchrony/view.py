"""All cells of the asynchrony suite on one machine, looked up, with the predictions that were stated before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from reports.asynchrony import chosen, splits
from reports.asynchrony.chosen import Judged
from reports.asynchrony.splits import Compared
from reports.dataset import Dataset, Key
from reports.table import Row
from reports.view import View
from suites.asynchrony import analysis, sweep
from suites.asynchrony.analysis import Cell, Outcome, Score
from suites.asynchrony.sweep import Setting
from suites.records.bundle import Bundle
from suites.records.predictions import TIE, Forecast, Predictions

RUNGS = {
    "barrier": (sweep.BARRIER,),
    "overlap": ("tianji-exactly-one-round", "tianji-admitted-in-order-1"),
    "event-driven": ("tianji-quota-free", "tianji-free"),
    "bounded": ("tianji-admitted-1", sweep.RELAXED),
    "grouped": (sweep.GROUPED,),
}
"""The ladder: what each discipline lets go of."""


class Rung(NamedTuple):
    """One discipline on the ladder in one cell."""

    name: str
    system: str
    gain: Row | None
    """Throughput over the barrier's; None for the barrier."""
    foretold: Forecast | None


class Mapped(View):
    """Runs of every cell on one machine."""

    suite = "asynchrony"
    parts = ("cells", "rungs", "forecasts", "splits", "chosen", "returns")
    order = sweep.SYSTEMS

    def __init__(self, data: Dataset, key: Key, **scope: Any) -> None:
        super().__init__(data, key, **scope)
        self.stem = self.suite
        self.keys = [other for other in data.groups if (other.suite, other.machine) == (key.suite, key.machine)]
        self.bundles = [b for other in self.keys for b in data.groups[other]]
        self._scope = {"suite": key.suite, "machine": key.machine}
        self.table = data.table.where(**self._scope)

    @classmethod
    def all(cls, data: Dataset) -> list[Mapped]:
        """One view a machine."""
        first = {key.machine: key for key in reversed(data.groups) if key.suite == cls.suite}
        return [cls(data, key) for _, key in sorted(first.items())]

    @property
    def subject(self) -> str:
        return self.key.machine

    def workloads_of(self, runs: Sequence[Bundle]) -> list[str]:
        return sorted({sweep.plain(b.manifest.workload) for b in runs})

    @property
    def name(self) -> str:
        return f"{self.suite} ({self.key.machine})"

    def discipline(self, label: str) -> str:
        """What a system is called among others that differ in nothing else."""
        return "barrier" if label == sweep.BARRIER else label.removeprefix("tianji-")

    @cached_property
    def cells(self) -> list[Cell]:
        """Cells of which the throughput was measured under the barrier, in the order of the table."""
        place = {cell.workload: number for number, cell in enumerate(sweep.CELLS)}
        names = sorted({key.workload for key in self.keys}, key=lambda name: (place.get(name, len(place)), name))
        return [cell for name in names if _mapped(name) and (cell := self._cell(name)) is not None]

    def _cell(self, workload: str) -> Cell | None:
        value = {
            metric: row["value"]
            for metric in ("rho", "fragment_max_over_mean")
            if (row := self.find(sweep.BARRIER, metric, workload=workload)) is not None
        }
        outcomes = tuple(one for label in self.shown if (one := self._outcome(workload, label)) is not None)
        if len(value) < 2 or not any(one.system == sweep.BARRIER for one in outcomes):
            return None
        shares = [row["value"] for label in self.labels if (row := self.find(label, "machine_share", workload=workload))]
        made = next(b for key in self.keys if key.workload == workload for b in self.data.groups[key])
        described = made.manifest.configuration["workload"]
        return Cell(
            workload=workload,
            actors=described["actors"],
            rho=value["rho"],
            m=value["fragment_max_over_mean"],
            share=max(shares, default=0.0),
            control=bool(described["simulator"].get("computes")),
            outcomes=outcomes,
        )

    def gain(self, workload: str, label: str) -> Row | None:
        """Throughput over the barrier's."""
        return self.find(label, "throughput_ratio", workload=workload, baseline=sweep.BARRIER)

    def _outcome(self, workload: str, label: str) -> Outcome | None:
        age, gain = self.find(label, "age_mean_rounds", workload=workload), self.gain(workload, label)
        is_barrier = label == sweep.BARRIER
        if age is None or (gain is None and not is_barrier):
            return None
        behind = self.table.where(workload=workload, system=label, metric="over_fastest_ratio").rows
        reach = None if not behind else behind[0]["value"] if behind[0]["ci_high"] is None else behind[0]["ci_high"]
        ratio, low = (1.0, 1.0) if gain is None else (gain["value"], gain["ci_low"])
        return Outcome(label, ratio, low, reach, age["value"])

    def cost(self, workload: str, label: str, metric: str) -> Row | None:
        """Seconds or steps to the evaluated return over the barrier's, at the same seeds."""
        keys = {"workload": workload, "threshold_kind": "evaluated", "baseline": label}
        return None if label == sweep.BARRIER else self.row(sweep.BARRIER, metric, **keys)

    @cached_property
    def _stated(self) -> tuple[Predictions | None, str]:
        apart = splits.NAMES.keys() | chosen.NAMES.keys()
        found = [b for b in self.bundles if b.manifest.workload not in apart]
        throughput = [b for b in found if _mapped(b.manifest.workload)]
        return analysis.stated_before(throughput or found, self.data.stated) if found else (None, "")

    @cached_property
    def _returns(self) -> Predictions | None:
        own = [b for b in self.bundles if b.manifest.workload.endswith(sweep.TO_RETURN)]
        return analysis.stated_before(own, self.data.stated)[0] if own else None

    def foretold_return(self, workload: str, label: str) -> str:
        """Predicted time to the return over the barrier's; a dash where there is none."""
        told = None if self._returns is None else self._returns.of(workload.removesuffix(sweep.TO_RETURN)).get(label)
        value = None if told is None or label == sweep.BARRIER else told.return_ratio
        return "-" if value is None else f"{value:.2f}x"

    @property
    def fixed(self) -> list[Cell]:
        """Cells that were fixed before any session, in which the ladder is shown."""
        names = [cell.workload for cell in sweep.CONFIRMED]
        return [cell for cell in self.cells if cell.workload in names]

    def rungs(self, cell: Cell) -> list[Rung]:
        """The ladder in one cell, as far as it was measured.

        Groups are measured in a session of their own, beside a barrier of their own.
        """
        found = []
        for name, systems in RUNGS.items():
            for system in systems:
                workload, predictions = cell.workload, self.predictions
                if system == sweep.GROUPED:
                    workload += sweep.LADDER
                    own = self._beside_groups(cell)
                    predictions = analysis.stated_before(own, self.data.stated)[0] if own else None
                told = None if predictions is None else predictions.of(cell.workload).get(system)
                found.append(Rung(name, system, self.gain(workload, system), told))
        return [one for one in found if one.gain is not None or one.system == sweep.BARRIER]

    def _beside_groups(self, cell: Cell) -> list[Bundle]:
        return [b for b in self.bundles if b.manifest.workload == cell.workload + sweep.LADDER]

    def over_one_learner(self, cell: Cell) -> Row | None:
        """Throughput of the groups over that of relaxed with one learner, within blocks; None where either is missing."""
        rates = analysis.rates(self._beside_groups(cell))
        if not {sweep.GROUPED, sweep.RELAXED} <= rates.keys():
            return None
        ratio, name = analysis.over(rates[sweep.GROUPED], rates[sweep.RELAXED]), cell.workload + sweep.LADDER
        return analysis.row(name, sweep.GROUPED, "over_one_learner_ratio", "ratio", ratio, baseline=sweep.RELAXED)

    @property
    def _split(self) -> list[Bundle]:
        return [b for b in self.bundles if b.manifest.workload in splits.NAMES]

    @cached_property
    def splits(self) -> list[Compared]:
        """How a budget of cores is split best, by what was measured and by what was predicted."""
        own = self._split
        return splits.of(own, analysis.stated_before(own, self.data.stated)[0]) if own else []

    @cached_property
    def chosen(self) -> list[Judged]:
        """How good the choices of `auto` are."""
        own = [b for b in self.bundles if b.manifest.workload in chosen.NAMES]
        found = {
            (name, label): row["value"]
            for name in {b.manifest.workload for b in own}
            for label in sweep.CANDIDATES
            if (row := self.find(label, "age_mean_rounds", workload=name)) is not None
        }
        return chosen.of(own, found)

    def split_rate(self, one: Compared, ranks: int) -> Row | None:
        """Samples a second of simulators with so many cores each."""
        (cell,) = (cell for cell in sweep.SPLITS if cell.split == sweep.Split(ranks, one.serial))
        return self.find(one.system, "consumption_steps_per_s", workload=cell.workload)

    def split_of(self, cell: Setting | None) -> str:
        """Simulators and cores of each, in words."""
        return "-" if cell is None or cell.split is None else f"{cell.actors} x {cell.split.ranks}"

    @property
    def predictions(self) -> Predictions | None:
        """Those that were stated before the first run, which alone are compared with."""
        return self._stated[0]

    @property
    def refusal(self) -> str:
        """Why nothing is compared; empty where it is."""
        return self._stated[1]

    @cached_property
    def score(self) -> Score | None:
        """How the predictions did."""
        return None if self.predictions is None else analysis.score(self.cells, self.predictions)

    @cached_property
    def closed_forms(self) -> list[tuple[str, int, int, float]]:
        """How the closed forms did in held-out cells: discipline, cells within a tenth, of how many, and the largest error."""
        errors: dict[str, list[float]] = {}
        for cell in self.cells if self.predictions is not None else ():
            if cell.contended or cell.control or self.role(cell) == "calibrates":
                continue
            told = self.predictions.of(cell.workload) if self.predictions is not None else {}
            for one in cell.outcomes:
                if one.system in told and one.system != sweep.BARRIER:
                    errors.setdefault(one.system, []).append(abs(told[one.system].closed_ratio / one.ratio - 1))
        return [(self.discipline(name), sum(e <= TIE for e in own), len(own), max(own)) for name, own in errors.items()]

    @property
    def calibration(self) -> float | None:
        """Measured over predicted, in the cells that calibrate."""
        return None if self.predictions is None else analysis.calibration(self.cells, self.predictions)

    def predicted(self, cell: Cell) -> str:
        """The discipline that was predicted to win a cell, in words; a dash where nothing was."""
        if self.predictions is None or not self.predictions.of(cell.workload):
            return "-"
        return self.discipline(analysis.predicted_winner(self.predictions, cell))

    def missed(self, cell: Cell, one: Outcome) -> str:
        """What was predicted wrongly of a discipline in a held-out cell."""
        misses = () if self.score is None else self.score.misses
        return ", ".join(miss.what for miss in misses if (miss.workload, miss.system) == (cell.workload, one.system)) or "-"

    def role(self, cell: Cell) -> str:
        """What a cell is for."""
        if cell.contended:
            return "contended"
        if cell.control:
            return "control"
        if self.predictions is not None and cell.workload in self.predictions.calibrating:
            return "calibrates"
        return "tie" if cell.tie else "counts" if cell.tie is False else "no interval"

    @cached_property
    def by_delays(self) -> dict[str, list[Cell]]:
        """Cells in which simulators wait and that are not contended, by the kind of their delays."""
        kinds = {cell.workload: cell.delays for cell in sweep.CELLS}
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if not cell.contended and not cell.control and cell.workload in kinds:
                found.setdefault(kinds[cell.workload], []).append(cell)
        return found

    @property
    def returning(self) -> list[str]:
        """Workloads whose runs went on to the return."""
        return sorted({key.workload for key in self.keys if key.workload.endswith(sweep.TO_RETURN)})


def _mapped(workload: str) -> bool:
    """Whether a workload is a cell of the map."""
    return workload not in splits.NAMES.keys() | chosen.NAMES.keys() and not workload.endswith(sweep.SUFFIXES)
