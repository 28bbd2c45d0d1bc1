"""One workload of the convergence suite, looked up."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pandas as pd

from reports import bounds
from reports.pairs import (
    REFERENCE,
    RELAXED,
    SAME_CODE,
    SYNCHRONOUS,
    synchronous,
    with_themselves,
)
from reports.table import Row
from reports.tables import inverse
from reports.view import View
from suites.convergence.analysis import TOTAL
from suites.statistics.crossings import KINDS
from suites.statistics.summary import label_of

QUANTITIES = ("targets", "advantages", "loss", "gradient", "weights")
"""Of the certificate."""


class Trained(View):
    """Runs that trained one workload."""

    suite = "convergence"
    parts = ("ratios", "threshold", "resources", "certificate")
    order = (
        "tianji",
        "tianji-relaxed",
        "sync",
        "sync-again",
        "sync-one",
        "sync-one-again",
        "xingtian",
        "rllib",
        "rllib-old",
        "rllib-appo",
        "rllib-impala",
        "sample-factory",
        "torchrl",
        "sb3",
        "sbx",
    )

    @cached_property
    def labels(self) -> list[str]:
        """All systems that ran, those whose every run failed among them."""
        return self.in_order({label_of(b) for b in self.bundles})

    @property
    def peers(self) -> list[str]:
        """Whom TianJi is compared with."""
        return [label for label in self.shown if label != REFERENCE]

    @property
    def stopped(self) -> bool:
        """Whether runs ended when they had reached their goal."""
        return any(b.manifest.configuration.get("stop_at_goal", False) for b in self.bundles)

    @property
    def seeds(self) -> list[int]:
        """Of its runs."""
        return sorted({b.manifest.seed for b in self.bundles})

    def timed(self, kind: str) -> dict[str, Row]:
        """Row of the time to a threshold, by system; its value is null if no run reached it."""
        rows = {label: self.row(label, "time_to_threshold_s", threshold_kind=kind) for label in self.labels}
        return {label: row for label, row in rows.items() if row is not None}

    def fast(self, first: str, second: str, kind: str) -> bounds.Told:
        """How many times as fast the first reaches a threshold, as it may be told."""
        return bounds.told(lambda metric: self.row(first, metric, threshold_kind=kind, baseline=second))

    def compiles(self, *labels: str) -> bool:
        """Whether any of these systems compiles before its first step."""
        return any(self.row(label, "compile_s") is not None for label in labels)

    def total(self, first: str, second: str, kind: str) -> bounds.Told:
        """How many times as fast the first reaches a threshold if compilation counts; nothing where neither compiles."""
        return bounds.told(lambda metric: self.row(first, f"{TOTAL}{metric}", threshold_kind=kind, baseline=second))

    def met(self, first: str, second: str) -> dict[str, Row]:
        """By definition of the threshold, the ratio of times of two systems, which may have no value."""
        rows = {kind: self.row(first, bounds.METRIC, threshold_kind=kind, baseline=second) for kind in KINDS}
        return {kind: row for kind, row in rows.items() if row is not None}

    def blocks(self, *pairs: tuple[str, str]) -> str:
        """How many blocks the ratios of these pairs are of, `5` or `4/5`; empty where none of them met."""
        counts = {row["n"] + row["censored"] for pair in pairs for row in self.met(*pair).values()}
        return "/".join(map(str, sorted(counts)))

    @property
    def comparisons(self) -> list[tuple[str, str, str]]:
        """What a pair compares, and the two.

        In all: TianJi over a peer. Engineering: the synchronous system of the same code over a peer of other code. The rest
        compares systems of the same code. Relaxing is the gain of asynchronous over synchronous training. Placement is the same
        discipline with other roles in a process.
        """
        peers = [label for label in self.peers if label not in SYNCHRONOUS]
        pairs = [("in all", REFERENCE, peer) for peer in peers if peer != RELAXED]
        if (base := self.synchronous) is not None:
            pairs += [("placement" if peer in SAME_CODE else "engineering", base, peer) for peer in peers if peer != RELAXED]
        pairs += [(self.gained, REFERENCE, waiting) for waiting in SYNCHRONOUS]
        pairs += [("relaxing", RELAXED, REFERENCE)]
        pairs += [("noise floor", *pair) for pair in with_themselves(self.labels)]
        return [pair for pair in pairs if self.met(*pair[1:])]

    @property
    def synchronous(self) -> str | None:
        """The same code where everybody waits, as far as it ran."""
        return synchronous(self.labels)

    def steps(self, label: str, kind: str) -> Row | None:
        """Steps that a system needs to a return, over those of the same-code synchronous system: the algorithm's reference."""
        base, metric = self.synchronous, "steps_to_threshold_ratio"
        if base is None or label == base:
            return None
        if label in (REFERENCE, RELAXED):
            return inverse(self.row(label, metric, threshold_kind=kind, baseline=base))
        return self.row(base, metric, threshold_kind=kind, baseline=label)

    @property
    def gained(self) -> str:
        """What TianJi's time is beside that of the same code where everybody waits: on policy it waits as much."""
        return "placement" if self.description["algo"] == "ppo" else "relaxing"

    def costs(self, first: str, second: str, kind: str) -> Row | None:
        """How many times fewer core-seconds the first takes to a threshold."""
        return self.row(first, "core_seconds_to_threshold_ratio", threshold_kind=kind, baseline=second)

    @property
    def certified(self) -> dict[str, dict[str, str]]:
        """By system and quantity, whether that equals the reference to 1e-5, and the largest difference."""
        frame = self.data.series["certificate"]
        told = {}
        for label in self.labels:
            rows = frame[frame["system"] == label]
            own = rows[rows["workload"] == self.workload].set_index("quantity")
            if len(own) or rows["reason"].notna().any():
                missing = "not shown" if rows["reason"].notna().any() else "-"
                told[label] = {name: _equal(own.loc[name]) if name in own.index else missing for name in QUANTITIES}
        known = [name for name in QUANTITIES if any(texts[name] != "-" for texts in told.values())]
        return {label: {name: texts[name] for name in known} for label, texts in told.items()}


def _equal(found: Any) -> str:
    if pd.isna(found["error"]):
        return "not shown"
    return f"{'equal' if found['equal'] else 'differs'} ({found['error']:.0e})"
