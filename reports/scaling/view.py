"""One setting of the scaling suite, looked up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import pandas as pd

from reports import bounds
from reports.dataset import Dataset, Key
from reports.pairs import NODE_SYSTEMS, REFERENCE
from reports.scaling.bends import Line, lines
from reports.scaling.deviations import gathered, told_once
from reports.table import Row
from reports.tables import how_many, with_interval
from reports.view import View
from suites.records.bundle import Bundle
from suites.scaling.analysis import COPIES, SUITE, Setting, setting_of
from suites.scaling.ratios import HEADLINE, SELF, copies_of, impossible
from suites.statistics.crossings import KINDS
from suites.statistics.usl import Coefficients

LAW = ("single", "sigma", "kappa")
"""Coefficients of the law of scalability."""


class Scaled(View):
    """Runs of one workload on some numbers of nodes, which share a testbed and a mode of scaling."""

    suite = SUITE
    prefix = f"{SUITE}-"
    order = NODE_SYSTEMS
    parts = ("most", "speedup", "nodes", "times", "laws", "traffic", "checks", "setup", "beyond")
    sparse = True
    counts_nodes = True

    def __init__(self, data: Dataset, key: Key, setting: Setting) -> None:
        super().__init__(data, key, testbed=setting.testbed, scaling=setting.scaling)
        self.setting = setting
        self.stem = f"{self.prefix}{setting.slug}"

    @classmethod
    def all(cls, data: Dataset) -> list[Self]:
        """Every setting of which there is anything to show, sorted."""
        return [
            cls(data, key, setting)
            for key in data.groups
            if key.suite == SUITE
            for setting in sorted({Setting(key.workload, r["testbed"], r["scaling"]) for r in View(data, key).table.rows})
        ]

    @cached_property
    def usable(self) -> list[Bundle]:
        """Completed runs that count, those on the fewest nodes first."""
        unusable = [id(b) for b, _ in self.data.unusable]
        own = (b for b in self.bundles if b.manifest.status == "completed" and id(b) not in unusable)
        return sorted((b for b in own if setting_of(b) == self.setting), key=lambda b: b.manifest.nodes)

    @property
    def runs(self) -> Sequence[Bundle]:
        """Runs on this testbed in this mode of scaling, with failed ones."""
        return [b for b in self.bundles if (b.manifest.testbed, b.manifest.scaling) == self.setting[1:]]

    @property
    def description(self) -> dict[str, Any]:
        """The workload as it is on the fewest nodes."""
        return dict(self.usable[0].manifest.configuration["workload"])

    @property
    def regime(self) -> dict[str, Any]:
        """What binds: budgets of nodes and rates of links."""
        return dict(self.usable[0].manifest.configuration.get("regime", {}))

    @property
    def environments(self) -> dict[int, int]:
        """How many there are by number of nodes; each of several copies has what one node has."""
        together = (b.manifest for b in self.usable if not b.manifest.system.endswith(COPIES))
        return {m.nodes: m.configuration["workload"]["environments"] for m in together}

    @property
    def varies(self) -> list[str]:
        """What of a workload is not the same on all numbers of nodes: should a batch be among it, that shows."""
        every = [b.manifest.configuration["workload"] for b in self.usable]
        return sorted({key for one in every for key in one if one[key] != self.description.get(key)})

    @cached_property
    def labels(self) -> list[str]:
        """Those that communicate come first."""
        found = self.in_order(self.table.known("system"))
        return sorted(found, key=lambda label: label.endswith(COPIES))

    @property
    def systems(self) -> list[str]:
        """Those that communicate, without second runs."""
        return [label for label in self.shown if not label.endswith(COPIES)]

    @cached_property
    def nodes(self) -> list[int]:
        """Numbers of nodes."""
        return self.table.known("nodes")

    @property
    def most(self) -> int:
        """The largest of them."""
        return self.nodes[-1] if self.nodes else 1

    def title(self, label: str) -> str:
        """As a reader should see it; copies say that they are."""
        known = self.titles[label]
        return f"{known}, copies" if label.endswith(COPIES) and "copies" not in known else known

    def line(self, system: str, metric: str, **keys: Any) -> list[Row]:
        """Rows of one quantity by number of nodes."""
        return [row for nodes in self.nodes if (row := self.find(system, metric, nodes=nodes, **keys)) is not None]

    def on_most(self, metric: str, **keys: Any) -> list[tuple[str, Row]]:
        """Title and row of each system of which this is known on the most nodes."""
        found = ((self.title(label), self.find(label, metric, nodes=self.most, **keys)) for label in self.systems)
        return [(title, row) for title, row in found if row is not None]

    def speedup(self, system: str, nodes: int) -> Row | None:
        """Of unique consumption over its own on one node."""
        return self.find(system, "unique_consumption_speedup_ratio", nodes=nodes, baseline=SELF)

    def told_speedup(self, system: str, nodes: int) -> str:
        """The same as text; one that cannot be is said to be a fault of measurement."""
        row = self.speedup(system, nodes)
        return with_interval(row, "x") + (f" (above {nodes}: the one-node cell was slow)" if row and impossible(row) else "")

    def share(self, system: str, nodes: int) -> Row | None:
        """Of what as many non-communicating copies reach."""
        copies = copies_of(system, self.labels)
        return None if copies is None else self.find(system, "copies_share_ratio", nodes=nodes, baseline=copies)

    def over(self, metric: str, baseline: str, nodes: int, kind: str | None = None) -> Row | None:
        """TianJi's ratio to another system."""
        return self.find(REFERENCE, metric, nodes=nodes, baseline=baseline, threshold_kind=kind)

    def told(self, label: str, nodes: int, kind: str) -> bounds.Told:
        """TianJi's ratio of times to another system, or a bound."""
        return bounds.told(lambda metric: self.over(metric, label, nodes, kind))

    def fast(self, label: str, nodes: int, kind: str) -> str:
        """The same as text."""
        return self.told(label, nodes, kind).words

    def faster(self, label: str) -> dict[str, str]:
        """The same on the most nodes by definition of the threshold, where there is anything to tell."""
        found = {kind: self.fast(label, self.most, kind) for kind in KINDS}
        return {kind: words for kind, words in found.items() if words not in (bounds.NOTHING, bounds.NEITHER)}

    @property
    def laws(self) -> dict[str, Row]:
        """By system its fitted law: rows of `single`, `sigma` and `kappa` (suites.statistics.usl), or why there is none."""
        frame = self.points("scaling-laws")
        found: dict[str, Row] = {}
        for _, law in frame.astype(object).where(frame.notna(), None).iterrows():
            parts = {name: {"value": law[name], "ci_low": law[f"{name}_low"], "ci_high": law[f"{name}_high"]} for name in LAW}
            found[str(law["system"])] = {name: law[name] for name in ("blocks", "peak_nodes", "reason")} | parts
        return {label: found[label] for label in self.systems if label in found}

    @property
    def fits(self) -> dict[str, Coefficients]:
        """By system its fitted law, where there is one."""
        known = {label: law for label, law in self.laws.items() if law["sigma"]["value"] is not None}
        return {label: Coefficients(*(law[name]["value"] for name in LAW)) for label, law in known.items()}

    def each(self, metric: str, **keys: Any) -> list[tuple[int, str, Row]]:
        """Number of nodes, system and row of one quantity, in the order of reading; its value may be null."""
        found = ((n, label, self.row(label, metric, nodes=n, **keys)) for n in self.nodes for label in self.labels)
        return [(n, label, row) for n, label, row in found if row is not None]

    @property
    def measured(self) -> list[tuple[int, str, Row]]:
        """The same of throughput."""
        return self.each(HEADLINE)

    @property
    def checks(self) -> list[tuple[int, int, pd.DataFrame]]:
        """Number of nodes, of runs, and what was measured before them on each node."""
        found = self.points("scaling-checks").groupby("nodes", sort=True)
        return [(int(n), len(own[["system", "session", "block"]].drop_duplicates()), own) for n, own in found]  # type: ignore[arg-type]

    @property
    def predicted(self) -> list[Line]:
        """What was simulated of this experiment on such a testbed. It is in no table with measured values."""
        own = (self.setting.workload, self.setting.testbed)
        return [line for one in self.data.forecasts if (one.experiment, one.testbed) == own for line in lines(one)]

    @property
    def trained(self) -> bool:
        """Whether runs trained to a threshold."""
        return "time_to_threshold_s" in self.table.known("metric")

    def deviations(self) -> list[dict[str, Any]]:
        """Once for all systems and numbers of nodes that say the same."""
        runs: dict[str, list[tuple[int, list[str]]]] = {}
        for m in (b.manifest for b in self.bundles):
            if not m.replica and (m.testbed, m.scaling) == self.setting[1:]:
                runs.setdefault(m.system, []).append((m.nodes, m.deviations))
        return told_once({self.title(label): gathered(runs[label]) for label in self.shown if label in runs})

    @property
    def blocks(self) -> str:
        """`5 blocks`; `4 to 5 blocks` where some lack a run."""
        counts = {row["n"] for _, label, row in self.measured if label in self.shown}
        return f"{how_many(counts)} block{'s' * (max(counts) > 1)}" if counts else "no blocks"
