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

NAMES = {cell.workload: cell for cell in sweep.SPLITS}
"""Cells by workload."""

Rates = Mapping[str, Mapping[Block, float]]
"""Samples a second by system and block."""
ByCell = Mapping[Setting, Mapping[Block, float]]
"""Samples a second of one system by cell and block."""


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
    gain: Row | None
    """Samples a second of the best split over the barrier's best one, within blocks; None: it is the barrier."""


def of(bundles: Sequence[Bundle], predictions: Predictions | None) -> list[Compared]:
    """Compare what was measured with what was predicted, for each serial share and discipline."""
    measured: dict[str, Rates] = {name: analysis.rates([b for b in bundles if b.manifest.workload == name]) for name in NAMES}
    found: list[Compared] = []
    for serial in sweep.SERIAL:
        cells = [cell for cell in sweep.SPLITS if cell.split is not None and cell.split.serial == serial]
        own = {
            system: {cell: rates for cell in cells if (rates := measured[cell.workload].get(system))}
            for system in sweep.PROFILES["split"].systems
        }
        found += [_compared(serial, system, own, predictions) for system, at in own.items() if at]
    return found


def _best(rates: ByCell) -> Setting:
    """The split of most samples a second, in the mean over blocks."""
    return max(rates, key=lambda cell: sum(rates[cell].values()) / len(rates[cell]))


def _compared(serial: float, system: str, measured: Mapping[str, ByCell], predictions: Predictions | None) -> Compared:
    rates, barrier = measured[system], measured[sweep.BARRIER]
    best = _best(rates)
    gain = None
    if system != sweep.BARRIER and barrier:
        ratio = analysis.over(rates[best], barrier[_best(barrier)])
        gain = analysis.row(best.workload, system, "over_best_barrier_ratio", "ratio", ratio, baseline=sweep.BARRIER)
    told = {cell: predictions.of(cell.workload).get(system) for cell in rates} if predictions is not None else {}
    foretold = {cell: one.steps_per_s for cell, one in told.items() if one is not None}
    if not foretold:
        return Compared(serial, system, best, None, None, gain)
    chosen = max(foretold, key=lambda cell: foretold[cell])
    ratio = analysis.over(rates[chosen], rates[best])
    worth = analysis.row(chosen.workload, system, "over_best_split_ratio", "ratio", ratio, baseline=system)
    return Compared(serial, system, best, chosen, worth, gain)
