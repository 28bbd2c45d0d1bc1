"""One setting of the scaling suite: its rows by what they are of, and how a reader should see systems and regimes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.dataset import NODE_SYSTEMS, REFERENCE, Dataset
from suites.scaling.analysis import COPIES, SUITE, Setting
from suites.scaling.ratios import HEADLINE, SELF, copies_of
from suites.statistics.summary import AGAIN

PREFIX = f"{SUITE}-"
"""Of the names of its figures and tables: its workloads may be those of other suites."""
REGIMES = {"cpu-bound": "CPU-bound", "latency-bound": "latency-bound", "link-bound": "link-bound"}
PEER = "xingtian"
"""The system of the published comparison."""


def place(label: str) -> tuple[int, int, str]:
    """What systems are sorted by: those that communicate first, TianJi before others."""
    at = NODE_SYSTEMS.index(label) if label in NODE_SYSTEMS else len(NODE_SYSTEMS)
    return label.endswith(COPIES), at, label


def settings(data: Dataset) -> list[Setting]:
    """Those of which there is anything to show."""
    measured = {Setting(r["workload"], r["testbed"], r["scaling"]) for r in data.rows if r["suite"] == SUITE}
    return sorted(measured)


class Scaled:
    """One setting, looked up."""

    def __init__(self, data: Dataset, setting: Setting) -> None:
        self.data, self.setting = data, setting
        self.description = data.scaled[setting]
        rows = [r for r in data.rows if r["suite"] == SUITE and (r["workload"], r["testbed"], r["scaling"]) == tuple(setting)]
        self._rows = {(r["system"], r["metric"], r["nodes"], r["baseline"], r["threshold_kind"]): r for r in rows}
        self.labels = sorted({r["system"] for r in rows}, key=place)
        self.shown = [label for label in self.labels if not label.endswith(AGAIN)]
        self.systems = [label for label in self.shown if not label.endswith(COPIES)]
        self.copies = [label for label in self.shown if label.endswith(COPIES)]
        self.nodes = sorted({r["nodes"] for r in rows if r["nodes"] is not None})
        self.most = self.nodes[-1] if self.nodes else 1
        self.regime: dict[str, Any] = self.description["regime"]

    @property
    def name(self) -> str:
        """What the names of its figures and tables begin with."""
        return f"{PREFIX}{self.setting.slug}"

    def title(self, label: str) -> str:
        """As a reader should see it; copies say that they are."""
        known = self.data.titles[f"{SUITE}:{label}"]
        return f"{known}, copies" if label.endswith(COPIES) and "copies" not in known else known

    def find(
        self, system: str, metric: str, nodes: int | None, baseline: str | None = None, kind: str | None = None
    ) -> dict[str, Any] | None:
        """The row of this scalar, or None where there is no value."""
        row = self._rows.get((system, metric, nodes, baseline, kind))
        return None if row is None or row["value"] is None else row

    def row(self, system: str, metric: str, nodes: int | None, kind: str | None = None) -> dict[str, Any] | None:
        """The same with rows that have no value: every run may be censored."""
        return self._rows.get((system, metric, nodes, None, kind))

    def line(self, system: str, metric: str, baseline: str | None = None, kind: str | None = None) -> list[dict[str, Any]]:
        """Rows of one quantity by number of nodes."""
        return [row for nodes in self.nodes if (row := self.find(system, metric, nodes, baseline, kind)) is not None]

    def speedup(self, system: str, nodes: int) -> dict[str, Any] | None:
        """Of unique consumption over its own on one node."""
        return self.find(system, "unique_consumption_speedup_ratio", nodes, SELF)

    def share(self, system: str, nodes: int) -> dict[str, Any] | None:
        """Of what as many non-communicating copies reach."""
        copies = copies_of(system, self.labels)
        return None if copies is None else self.find(system, "copies_share_ratio", nodes, copies)

    @property
    def efficiencies(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Rows by system of what is left of either ideal that was measured: of its own on `one node` times nodes, and of as
        many `copies` that do not communicate."""
        own = {label: self.line(label, "unique_consumption_efficiency_ratio", SELF) for label in self.systems}
        shares = {label: [row for n in self.nodes if (row := self.share(label, n))] for label in self.systems}
        return {ideal: lines for ideal, lines in (("one node", own), ("copies", shares)) if any(lines.values())}

    @property
    def fits(self) -> dict[str, pd.Series]:
        """By system its fitted law: `single`, `sigma` and `kappa` (suites.statistics.usl)."""
        frame = self.points("scaling-laws")
        return {str(fit["system"]): fit for _, fit in frame[frame["sigma"].notna()].iterrows()}

    def over(self, metric: str, baseline: str, nodes: int, kind: str | None = None) -> dict[str, Any] | None:
        """TianJi's ratio to another system."""
        return self.find(REFERENCE, metric, nodes, baseline, kind)

    def points(self, series: str) -> pd.DataFrame:
        """Lines of a series that are of this setting."""
        frame = self.data.series[series]
        of_it = pd.Series(True, index=frame.index)
        for column, value in self.setting._asdict().items():
            of_it &= frame[column] == value
        return frame[of_it]

    @property
    def trained(self) -> bool:
        """Whether runs trained to a threshold."""
        return any(metric == "time_to_threshold_s" for _, metric, _, _, _ in self._rows)

    @property
    def blocks(self) -> str:
        """`5 blocks`; `4 to 5 blocks` where some lack a run."""
        counts = {r["n"] for r in self._rows.values() if r["metric"] == HEADLINE and not r["system"].endswith(AGAIN)}
        if not counts:
            return "no blocks"
        least, most = min(counts), max(counts)
        return f"{least if least == most else f'{least} to {most}'} block{'s' * (most > 1)}"
