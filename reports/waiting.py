"""What not waiting gains and costs: the suites asynchrony (the map) and disciplines, looked up, drawn, and as tables."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from reports.charts import Axis, Curve, Group, Panel, rounded, stacked
from reports.dataset import Dataset, Key
from reports.looks import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from reports.table import Row
from reports.tables import number, with_interval
from reports.view import Shown, View, group, shown
from suites.asynchrony import analysis, sweep
from suites.asynchrony.analysis import Cell, Outcome, Score
from suites.disciplines.analysis import strict_system
from suites.records.bundle import Bundle
from suites.records.predictions import Predictions

MARKS = {
    "barrier": ("o", VERMILION), "strict": ("o", VERMILION), "quota-free": ("^", GREEN), "exactly-one-round": ("s", BLUE),
    "admitted-in-order-1": ("v", SKY), "admitted-1": ("P", PURPLE), "relaxed": ("D", ORANGE), "free": ("X", INK),
    "reactor": ("h", SKY), "stream": ("<", BLUE), "one-sided": ("d", GREY), "unbalanced": ("*", PURPLE),
    "periodic": (">", GREEN),
}  # fmt: skip
"""Marker and colour of each discipline."""
DOES = {
    "actor works": ("#009e73", ""),
    "actor waits for weights": ("#b5b5b5", ""),
    "actor waits for credit": ("#c9c9c9", ""),
    "learner works": (VERMILION, ""),
    "learner waits for samples": ("#9a9a9a", ""),
    "learner waits for barrier": ("#dddddd", ""),
}
"""What a role does, with its colour; waiting is grey."""
CAUSES = {"actor": ("weights", "credit"), "learner": ("samples", "barrier")}
"""What each role waits for."""
KIND = "evaluated"
"""Return to which times are told."""
APART = {cell.workload for cell in (*sweep.SPLITS, *sweep.FRESH)}
"""Cells that are not on the map."""
SIDE = {"tail": 0.88, "straggler": 1.14}
"""By what cells of these delays are moved sideways, because others have the same rho and M."""


def _roles(view: View, names: Mapping[str, str], of: str, **keys: Any) -> Panel:
    """What actors and learner did, in percent of their time, a bar for each role under each discipline.

    Parameters
    ----------
    names
        by system, what its discipline is called.
    """

    def parts() -> Iterator[tuple[str, str, float]]:
        for (label, name), (role, causes) in itertools.product(names.items(), CAUSES.items()):
            rows = {cause: view.find(label, f"{role}_waits_for_{cause}_share", **keys) for cause in causes}
            if any(rows.values()):
                waits = {f"{role} waits for {cause}": row["value"] if row else 0.0 for cause, row in rows.items()}
                for doing, share in {f"{role} works": 1 - sum(waits.values()), **waits}.items():
                    yield f"{name}: {role}{'s' * (role == 'actor')}", doing, 100 * share

    return stacked(f"time of actors and learner: {of}", "% of the time", parts(), DOES)


def _mark(name: str, x: float, row: Row, text: str) -> Curve:
    marker, colour = MARKS.get(name, ("o", GREY))
    ends: dict[str, Any] = {} if row["ci_low"] is None else {key: rounded([row[f"ci_{key}"]]) for key in ("low", "high")}
    at: dict[str, Any] = {"x": rounded([x]), "y": [*rounded([row["value"]])]}
    return Curve(name=name, **at, colour=colour, line="", marker=marker, text=[text] if text else None, **ends)


class Mapped(View):
    """Runs of every cell of the asynchrony suite on one machine."""

    suite = "asynchrony"

    def __init__(self, data: Dataset, key: Key, **scope: Any) -> None:
        super().__init__(data, key, **scope)
        self.keys = [other for other in data.groups if (other.suite, other.machine) == (key.suite, key.machine)]
        self.bundles = [b for other in self.keys for b in data.groups[other]]
        self._scope = {"suite": key.suite, "machine": key.machine}
        self.table = data.table.where(**self._scope)

    @classmethod
    def all(cls, data: Dataset) -> list[Mapped]:
        first = {key.machine: key for key in reversed(data.groups) if key.suite == cls.suite}
        return [cls(data, key) for _, key in sorted(first.items())]

    @property
    def stem(self) -> str:
        return self.key.machine

    def workloads_of(self, runs: Sequence[Bundle]) -> list[str]:
        """Cells, without what a profile adds to their names."""
        return sorted({sweep.plain(b.manifest.workload) for b in runs})

    @property
    def name(self) -> str:
        return self.key.machine

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
        return self.find(label, "throughput_ratio", workload=workload, baseline=sweep.BARRIER)

    def _behind(self, workload: str, label: str) -> Row | None:
        """Throughput over that of the fastest."""
        return next(iter(self.table.where(workload=workload, system=label, metric="over_fastest_ratio").rows), None)

    def _outcome(self, workload: str, label: str) -> Outcome | None:
        age, gain = self.find(label, "age_mean_rounds", workload=workload), self.gain(workload, label)
        is_barrier = label == sweep.BARRIER
        if age is None or (gain is None and not is_barrier):
            return None
        behind = self._behind(workload, label)
        reach = None if behind is None else behind["value"] if behind["ci_high"] is None else behind["ci_high"]
        ratio, low = (1.0, 1.0) if gain is None else (gain["value"], gain["ci_low"])
        return Outcome(label, ratio, low, reach, age["value"])

    @cached_property
    def _stated(self) -> tuple[Predictions | None, str]:
        found = [b for b in self.bundles if b.manifest.workload not in APART]
        throughput = [b for b in found if _mapped(b.manifest.workload)]
        return analysis.stated_before(throughput or found, self.data.stated) if found else (None, "")

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
        return None if self.predictions is None else analysis.score(self.cells, self.predictions)

    def predicted(self, cell: Cell) -> str:
        """The discipline that was predicted to win a cell, in words; a dash where nothing was."""
        if self.predictions is None or not self.predictions.of(cell.workload):
            return "-"
        return self.discipline(analysis.predicted_winner(self.predictions, cell))

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
    def sentences(self) -> list[str]:
        """How predictions did."""
        score, told = self.score, [self.refusal] if self.refusal else []
        if score and score.of:
            told.append(
                f"Of {score.of} held-out cells that are no ties, the winner was predicted exactly in {score.winners}; the rule "
                f"that wins most often wins {score.always}."
            )
        if score and score.ratios:
            told.append(f"Of {score.ratios} predicted ratios in them, {score.within} lie within 10 % of the measured one.")
        return told

    def panels(self, fewest: int = 1) -> list[Panel]:
        """The map: a diagram for each number of actors, with the winner of each cell and its gain over the barrier.

        Parameters
        ----------
        fewest
            cells of a diagram at least.
        """
        found = []
        for actors in sorted({cell.actors for cell in self.cells}):
            cells = [cell for cell in self.cells if cell.actors == actors]
            axes = Axis("how slow sampling is (rho)", log=True), Axis("how uneven actors are (M)", log=True)
            if len(cells) >= fewest:
                found.append(Panel(f"{actors} actors", *axes, [self._won(cell) for cell in cells]))
        return found

    def _won(self, cell: Cell) -> Curve:
        name = self.discipline(cell.winner.system)
        delays = next((one.delays for one in sweep.CELLS if one.workload == cell.workload), "")
        row = {"value": cell.m, "ci_low": None}
        return _mark(name, cell.rho * SIDE.get(delays, 1.0), row, f"{cell.winner.ratio:.2f}x" + " contended" * cell.contended)

    @property
    def groups(self) -> list[Group]:
        fixed = [one for one in self.cells if any(one.workload == cell.workload for cell in sweep.CONFIRMED)]
        names = {label: self.discipline(label) for label in (sweep.BARRIER, sweep.RELAXED) if label in self.shown}
        best = sorted(fixed, key=lambda one: -one.winner.ratio)[:1]
        roles = [_roles(self, names, cell.workload, workload=cell.workload) for cell in best]
        panels = sorted(self.panels(), key=lambda panel: -len(panel.curves))
        return [*group("roles", roles), *group("map", panels)]

    @property
    def tables(self) -> list[Shown]:
        found = [*shown("winners", map(self._winner, self.cells)), *shown("returns", self._returns())]
        return [*found, *shown("rules-by-cell", self._rules())]

    def _winner(self, cell: Cell) -> dict[str, str]:
        return {
            "Cell": cell.workload,
            "Actors": str(cell.actors),
            "rho": number(cell.rho),
            "M": number(cell.m),
            "Winner": self.discipline(cell.winner.system),
            "Gain": with_interval(self.gain(cell.workload, cell.winner.system), "x"),
            "Predicted winner": self.predicted(cell),
            "Age, rounds": number(cell.winner.age_rounds),
            "Role": self.role(cell),
        }

    def _runs(self, *, to_return: bool) -> Iterator[tuple[str, str]]:
        names = sorted({key.workload for key in self.keys if key.workload.endswith(sweep.TO_RETURN) is to_return})
        return itertools.product(names, self.shown)

    def _rules(self) -> Iterator[dict[str, str]]:
        for workload, label in self._runs(to_return=False):
            cell = self.cell(label, workload=workload)
            if self.find(label, "consumption_steps_per_s", workload=workload):
                told = self.predictions.of(workload) if self.predictions else {}
                yield {
                    "Cell": workload,
                    "Rule": self.discipline(label),
                    "Samples/s": cell("consumption_steps_per_s"),
                    "Gain": with_interval(self.gain(workload, label), "x"),
                    "Over the fastest": with_interval(self._behind(workload, label), "x"),
                    "Age, rounds": cell("age_mean_rounds", interval=False),
                    "Predicted": f"{told[label].ratio:.2f}" if label in told else "-",
                    "Chose": ", ".join(self._chosen(workload, label)) or "-",
                }

    def _chosen(self, workload: str, label: str) -> list[str]:
        """Rules that the runs of `auto` chose, the most frequent first."""
        own = [b for b in self.bundles if (b.manifest.workload, b.manifest.system) == (workload, label)]
        rules = [one.rule for b in own if (one := analysis.choice(b)) is not None]
        return [rule for rule, _ in Counter(rules).most_common()]

    def _returns(self) -> Iterator[dict[str, str]]:
        for workload, label in self._runs(to_return=True):
            keys = {"workload": workload, "threshold_kind": KIND}
            if (row := self.row(label, "success_rate", **keys)) is not None:
                cell, over = self.cell(label, **keys), self.cell(sweep.BARRIER, **keys, baseline=label)
                yield {
                    "Cell": workload,
                    "Rule": self.discipline(label),
                    "Reached": f"{round((row['value'] or 0) * row['n'])}/{row['n']}",
                    "Seconds": cell("time_to_threshold_s"),
                    "Over the barrier's": over("time_to_threshold_ratio", "x"),
                    "Steps": cell("steps_to_threshold"),
                    "Over the barrier's steps": over("steps_to_threshold_ratio", "x"),
                }


def _mapped(workload: str) -> bool:
    return workload not in APART and not workload.endswith(sweep.SUFFIXES)


class Ruled(View):
    """Runs of one workload under each discipline."""

    suite = "disciplines"

    @property
    def strict(self) -> str:
        """The system that waits for everybody: strict, or with a replay the reactor. Throughput is shown over its."""
        return strict_system(self.description)

    def discipline(self, label: str) -> str:
        """What a system is called among others that differ in nothing else."""
        if label in ("tianji-strict", "tianji") and label == self.strict:
            return "strict"
        return "relaxed" if label == "tianji" else self.title(label).removeprefix("TianJi, ")

    def gain(self, label: str) -> Row | None:
        return self.row(label, "throughput_ratio", baseline=self.strict)

    def _marks(self) -> Iterator[Curve]:
        for label in self.shown:
            age = self.find(label, "age_mean_rounds")
            gain = {"value": 1.0, "ci_low": None} if label == self.strict else self.gain(label)
            if age is not None and gain is not None and gain["value"] is not None:
                known = label.removeprefix("tianji-")
                name = known if known in MARKS else self.discipline(label)
                yield _mark(name, age["value"], gain, "" if name in MARKS else name)

    @property
    def groups(self) -> list[Group]:
        labels = [label for label in (self.strict, "tianji-relaxed", "tianji") if label in self.shown][:2]
        axes = Axis("mean age of samples, rounds"), Axis("samples/s over waiting for everybody")
        frontier = Panel(f"samples over age: {self.name}", *axes, list(self._marks()), target=1.0)
        return group("rules", [frontier, _roles(self, {label: self.discipline(label) for label in labels}, self.name)])

    @property
    def tables(self) -> list[Shown]:
        return shown("rules", map(self._line, self.shown))

    def _line(self, label: str) -> dict[str, str]:
        cell, keys = self.cell(label), {"threshold_kind": "training", "baseline": label}
        over = {what: self.row(self.strict, f"{what}_to_threshold_ratio", **keys) for what in ("time", "steps")}
        return {
            "Workload": self.name,
            "Rule": self.discipline(label),
            "Samples/s": cell("consumption_steps_per_s"),
            "Gain": with_interval(self.gain(label), "x"),
            "Of its bound": cell("share_of_bound"),
            "Age, rounds": cell("age_mean_rounds", interval=False),
            "Time to the return": with_interval(over["time"], "x"),
            "Steps to the return": with_interval(over["steps"], "x"),
        }
