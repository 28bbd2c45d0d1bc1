"""One setting of the scaling suite: looked up, drawn, and as a table; and what was predicted of more nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

from reports import bounds
from reports.charts import Axis, Curve, Group, Panel, of_rows
from reports.dataset import Dataset, Key
from reports.looks import BLUE, GREEN, GREY, INK, ORANGE, SKY, VERMILION
from reports.pairs import REFERENCE
from reports.table import Row
from reports.tables import with_interval
from reports.view import Shown, View, group, in_order, shown
from suites.records.bundle import Bundle
from suites.records.forecasts import Forecasts, Point
from suites.scaling.analysis import COPIES, SUITE, Setting, setting_of
from suites.scaling.ratios import HEADLINE, SELF, copies_of, impossible

ALL = "All systems"
KIND = "training"
"""Of the returns of its table."""
COLOURS = {"strict": (VERMILION, ORANGE, INK), "relaxed": (BLUE, SKY, GREEN)}
"""Of predictions by discipline, from the slowest links to the fastest."""
TOPOLOGIES = {"groups": "a learner a node", "one learner": "one learner"}


class Scaled(View):
    """Runs of one workload on some numbers of nodes, which share a testbed and a mode of scaling."""

    suite = SUITE
    counts_nodes = True

    def __init__(self, data: Dataset, key: Key, setting: Setting) -> None:
        super().__init__(data, key, testbed=setting.testbed, scaling=setting.scaling)
        self.setting = setting

    @classmethod
    def all(cls, data: Dataset) -> list[Self]:
        return [
            cls(data, key, setting)
            for key in data.groups
            if key.suite == SUITE
            for setting in sorted({Setting(key.workload, r["testbed"], r["scaling"]) for r in View(data, key).table.rows})
        ]

    @property
    def stem(self) -> str:
        return self.setting.slug

    @property
    def called(self) -> str:
        """With testbed and mode of scaling, where a reader sees it."""
        return f"{self.name} ({self.setting.scaling}{'' if self.setting.testbed == 'netns' else f', {self.setting.testbed}'})"

    @cached_property
    def usable(self) -> list[Bundle]:
        """Completed runs that count, those on the fewest nodes first."""
        unusable = [id(b) for b, _ in self.data.unusable]
        own = (b for b in self.bundles if b.manifest.status == "completed" and id(b) not in unusable)
        return sorted((b for b in own if setting_of(b) == self.setting), key=lambda b: b.manifest.nodes)

    @property
    def runs(self) -> Sequence[Bundle]:
        return [b for b in self.bundles if (b.manifest.testbed, b.manifest.scaling) == self.setting[1:]]

    @property
    def description(self) -> dict[str, Any]:
        """The workload as it is on the fewest nodes."""
        return dict(self.usable[0].manifest.configuration["workload"])

    @cached_property
    def labels(self) -> list[str]:
        return sorted(in_order(self.table.known("system")), key=lambda label: label.endswith(COPIES))

    @property
    def systems(self) -> list[str]:
        """Those that communicate, without second runs."""
        return [label for label in self.shown if not label.endswith(COPIES)]

    @cached_property
    def nodes(self) -> list[int]:
        return self.table.known("nodes")

    @property
    def most(self) -> int:
        return self.nodes[-1] if self.nodes else 1

    def title(self, label: str) -> str:
        """As a reader should see it; copies say that they are."""
        known = self.titles[label]
        return f"{known}, copies" if label.endswith(COPIES) and "copies" not in known else known

    def line(self, system: str, metric: str, **keys: Any) -> list[Row]:
        """Rows of one quantity by number of nodes."""
        return [row for nodes in self.nodes if (row := self.find(system, metric, nodes=nodes, **keys)) is not None]

    def speedup(self, system: str, nodes: int) -> Row | None:
        """Of unique consumption over its own on one node."""
        return self.find(system, "unique_consumption_speedup_ratio", nodes=nodes, baseline=SELF)

    def share(self, system: str, nodes: int) -> Row | None:
        """Of what as many non-communicating copies reach."""
        copies = copies_of(system, self.labels)
        return None if copies is None else self.find(system, "copies_share_ratio", nodes=nodes, baseline=copies)

    def over(self, metric: str, baseline: str, nodes: int, kind: str | None = None) -> Row | None:
        return self.find(REFERENCE, metric, nodes=nodes, baseline=baseline, threshold_kind=kind)

    def told(self, label: str, nodes: int, kind: str) -> bounds.Told:
        return bounds.told(lambda metric: self.over(metric, label, nodes, kind))

    @property
    def groups(self) -> list[Group]:
        rows = {label: self.line(label, HEADLINE) for label in self.shown}
        measured = [of_rows(label, self.title(label), "nodes", own) for label, own in rows.items() if own]
        axes = Axis("nodes"), Axis("samples trained on a second, each once")
        panel = Panel(self.called, *axes, [*self._laws(), *measured] if measured else [])
        return group("nodes", [panel, *map(self._predicted, TOPOLOGIES)])

    def _laws(self) -> Iterator[Curve]:
        frame = self.points("scaling-curves")
        frame = frame[frame["usl"].notna()]
        for place, (_, own) in enumerate(frame.groupby("system", sort=True)):
            x, y = ([float(one) for one in own.sort_values("nodes")[name]] for name in ("nodes", "usl"))
            yield Curve(name="fitted law", x=[*x], y=[*y], colour=GREY, line=":", legend=place == 0)

    def _predicted(self, topology: str) -> Panel:
        own = (self.setting.workload, self.setting.testbed)
        found = [line for one in self.data.forecasts if (one.experiment, one.testbed) == own for line in lines(one)]
        found = [line for line in found if line.topology == topology]
        rates = sorted({line.gbit for line in found})
        curves = [
            Curve(
                name=f"predicted: {line.discipline}, {line.gbit:g} Gbit/s",
                x=[float(point.nodes) for point in line.points],
                y=[point.samples_per_s / point.nodes for point in line.points],
                colour=COLOURS.get(line.discipline, (INK,) * 3)[min(rates.index(line.gbit), 2)],
                line="--",
            )
            for line in found
        ]
        axes = Axis("nodes", log=True), Axis("samples/s of each node")
        return Panel(f"{self.called}: predicted, not measured; {TOPOLOGIES[topology]}", *axes, curves)

    @property
    def tables(self) -> list[Shown]:
        return shown("nodes", self._lines())

    def _lines(self) -> Iterator[dict[str, str]]:
        for nodes, label in itertools.product(self.nodes, self.labels):
            if (unique := self.row(label, HEADLINE, nodes=nodes)) is not None:
                gain, cell = self.speedup(label, nodes) if nodes > 1 else None, self.cell(label, nodes=nodes)
                yield {
                    "Workload": self.called,
                    "Nodes": str(nodes),
                    "System": self.title(label),
                    "n": str(unique["n"]),
                    "Samples/s": with_interval(unique),
                    "Gain": with_interval(gain, "x") + " (!)" * bool(gain and impossible(gain)),
                    "Share": with_interval(self.share(label, nodes)) if nodes > 1 else "-",
                    "TianJi over it": with_interval(self.over("unique_consumption_ratio", label, nodes), "x"),
                    "Seconds, training": cell("time_to_threshold_s", threshold_kind=KIND),
                    "TianJi's speed": "-" if label == REFERENCE else self.told(label, nodes, KIND).words,
                    "Learner busy": cell("learner_busy_share", interval=False),
                    "kB/s a node": cell("wire_sent_bytes_per_s", scale=1e-3, interval=False),
                }

    def deviations(self) -> dict[str, list[str]]:
        """What all systems say stands first; of lines that differ in numbers alone, that of the most nodes."""
        found: dict[str, dict[str, str]] = {}
        for m in sorted((b.manifest for b in self.runs), key=lambda m: m.nodes):
            if not m.replica:
                own = found.setdefault(self.title(m.system), {})
                own.update({re.sub(r"\d+", "#", line): line for line in m.deviations})
        shared = set.intersection(*map(set, found.values())) if len(found) > 1 else set()
        told = {ALL: [line for text, line in next(iter(found.values())).items() if text in shared]} if shared else {}
        return told | {title: [line for text, line in own.items() if text not in shared] for title, own in found.items()}


class Line(NamedTuple):
    """Predicted points of one topology, discipline and bandwidth, with the fewest nodes first."""

    topology: str
    discipline: str
    gbit: float
    points: Sequence[Point]


def lines(forecasts: Forecasts) -> list[Line]:
    """The lines of a forecast."""
    own: dict[tuple[str, str, float], list[Point]] = {}
    for point in sorted(forecasts.points, key=lambda one: (one.gbit, one.nodes)):
        own.setdefault((point.topology, point.discipline, point.gbit), []).append(point)
    return [Line(*key, points) for key, points in sorted(own.items())]
