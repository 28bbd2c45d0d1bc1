"""How good the choices of `auto` are: its throughput over that of the best rule it could choose, in cells of their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reports.table import Row
from suites.asynchrony import analysis, sweep
from suites.asynchrony.analysis import Block
from suites.asynchrony.sweep import Setting
from suites.records.bundle import Bundle
from suites.records.predictions import TIE
from suites.statistics.intervals import paired_ratio

NAMES = {cell.workload: cell for cell in sweep.FRESH}
"""Cells by workload."""
STRICT = "strict"
"""The rule of the barrier."""


@dataclass(frozen=True)
class Judged:
    """One form of `auto` in one cell."""

    cell: Setting
    system: str
    price: float
    """Price of staleness by which it chose: the logarithm of the factor in steps for each round of age."""
    chose: tuple[str, ...]
    """Rules that its runs chose, the most frequent first."""
    best: str
    """The system of the best rule."""
    worth: Row
    """Its samples a second over those of the best rule, within blocks. With a price each is divided by the factor in steps."""

    @property
    def good(self) -> bool:
        """Whether it is within a tenth of the best."""
        return bool(self.worth["value"] >= 1 - TIE)


def of(bundles: Sequence[Bundle], ages: Mapping[tuple[str, str], float]) -> list[Judged]:
    """Judge every form of `auto` in every cell that was measured.

    Parameters
    ----------
    ages
        mean age of samples in rounds, by workload and system.
    """
    found = []
    for name, cell in NAMES.items():
        own = [b for b in bundles if b.manifest.workload == name]
        for system in sweep.AUTO:
            chosen = {block: one for b in own if b.manifest.system == system for block, one in [_choice(b)] if one is not None}
            if chosen and (judged := _judged(cell, system, chosen, analysis.rates(own), ages)) is not None:
                found.append(judged)
    return found


def _choice(b: Bundle) -> tuple[Block, analysis.Choice | None]:
    return (b.manifest.session, b.manifest.block), analysis.choice(b)


def _judged(
    cell: Setting,
    system: str,
    chosen: Mapping[Block, analysis.Choice],
    rates: Mapping[str, Mapping[Block, float]],
    ages: Mapping[tuple[str, str], float],
) -> Judged | None:
    price = fmean(one.price for one in chosen.values())

    def worth(label: str, rate: float) -> float:
        return rate * math.exp(-price * ages[cell.workload, label])

    rules = {
        label: {block: worth(label, rate) for block, rate in rates[label].items()}
        for label in sweep.CANDIDATES
        if label in rates
    }
    blocks = sorted(set(chosen) & set(rates.get(system, {})).intersection(*rules.values()))
    if not blocks or not rules:
        return None
    best = max(rules, key=lambda label: sum(rules[label][block] for block in blocks))
    # Its age is that of the rule it chose, without the rounds of the barrier at the beginning.
    ratio = paired_ratio(
        [worth(label_of(chosen[block].rule), rates[system][block]) for block in blocks],
        [rules[best][block] for block in blocks],
        [session for session, _ in blocks],
    )
    often = Counter(one.rule for one in chosen.values()).most_common()
    row = analysis.row(cell.workload, system, "over_best_rule_ratio", "ratio", ratio, baseline=best)
    return Judged(cell, system, price, tuple(rule for rule, _ in often), best, row)


def label_of(rule: str) -> str:
    """The system of a rule."""
    return sweep.BARRIER if rule == STRICT else f"tianji-{rule}"
