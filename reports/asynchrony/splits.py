"""How a budget of cores is split between simulators: what was measured, and what was predicted to be best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.table import Row
from suites.asynchrony import analysis, sweep
from suites.asynchrony.analysis import Block
from suites.asynchrony.sweep import Setting
from suites.records.bundle import Bundle
from suites.records.predictions import Predictions
from suites.statistics.intervals import paired_ratio

NAMES = {cell.workload: cell for cell in sweep.SPLITS}
"""Cells by workload."""

Rates = Mapping[str, Mapping[Block, float]]


@dataclass(frozen=True)
class Compared:
    """One discipline and one serial share, over all splits."""

    serial: float
    system: str
    best: Setting
    """The split of most samples a second."""
    chosen: Setting | None
    """The split that was predicted to be best; None: nothing was predicted."""
    worth: Row | None
    """Samples a second of the chosen split over the best one's, within blocks."""


def of(bundles: Sequence[Bundle], predictions: Predictions | None) -> list[Compared]:
    """Compare what was measured with what was predicted, for each serial share and discipline."""
    measured: dict[str, Rates] = {name: analysis.rates([b for b in bundles if b.manifest.workload == name]) for name in NAMES}
    found = []
    for serial in sweep.SERIAL:
        cells = [cell for cell in sweep.SPLITS if cell.split is not None and cell.split.serial == serial]
        for system in sweep.PROFILES["split"].systems:
            rates = {cell: own for cell in cells if (own := measured[cell.workload].get(system))}
            if rates:
                found.append(_compared(serial, system, rates, predictions))
    return found


def _compared(
    serial: float, system: str, rates: Mapping[Setting, Mapping[Block, float]], predictions: Predictions | None
) -> Compared:
    best = max(rates, key=lambda cell: sum(rates[cell].values()) / len(rates[cell]))
    told = {cell: predictions.of(cell.workload).get(system) for cell in rates} if predictions is not None else {}
    foretold = {cell: one.steps_per_s for cell, one in told.items() if one is not None}
    if not foretold:
        return Compared(serial, system, best, None, None)
    chosen = max(foretold, key=lambda cell: foretold[cell])
    blocks = sorted(rates[chosen].keys() & rates[best].keys())
    pair = [rates[chosen][block] for block in blocks], [rates[best][block] for block in blocks]
    worth = analysis.row(chosen.workload, system, "over_best_split_ratio", "ratio", paired_ratio(*pair), baseline=system)
    return Compared(serial, system, best, chosen, worth)
