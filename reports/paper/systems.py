"""Plates of what systems can do: throughput on several nodes, the fitted law, and how fast data moves."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from reports.dataset import Dataset
from reports.marks import legend
from reports.paper.plates import COLUMNS, Plate, how_many, new
from reports.scaling import panels
from reports.scaling.lookup import Scaled, settings
from reports.scaling.tables import laws, speedups
from reports.scaling.tables import times as times_to_threshold
from reports.scaling.text import title
from reports.transmission import panels as by_size
from reports.transmission.lookup import Traffic
from reports.transmission.tables import ratio_table

BARS = "Bars are 95 % intervals"
MEANINGS = {
    "one node": "speed-up over the number of nodes",
    "copies": "throughput over that of as many copies that do not communicate",
}
"""Of what efficiency is a share of, in a caption."""


def plates(data: Dataset) -> Iterator[Plate]:
    """Every plate that the scaling and transmission suites have data for."""
    for setting in settings(data):
        scaled = Scaled(data, setting)
        yield throughput(scaled)
        if scaled.efficiencies:
            yield efficiency(scaled)
        if scaled.fits:
            yield law(scaled)
        if scaled.trained:
            yield convergence(scaled)
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if traffic.labels:
            yield goodput(traffic)
            if traffic.ceiling in traffic.labels:
                yield shares(traffic)


def throughput(scaled: Scaled) -> Plate:
    """Unique consumption against nodes; copies are ceilings."""
    figure, axes = new(2.4)
    drawn = panels.throughput(axes[0], scaled, scaled.shown)
    legend(figure, axes, COLUMNS)
    caption = f"{title(scaled)}: samples trained on a second, each counted once ({scaled.blocks}). {BARS}."
    return Plate(f"{scaled.name}-throughput", figure, caption, pd.DataFrame(drawn), speedups(scaled))


def efficiency(scaled: Scaled) -> Plate:
    """Speed-up over nodes, and share of as many copies, where either was measured."""
    figure, axes = new(2.3, len(scaled.efficiencies), sharey=True)
    drawn = panels.efficiencies(axes, scaled)
    legend(figure, axes, COLUMNS)
    meant = "; ".join(f"{panels.IDEALS[ideal].lower()}: {MEANINGS[ideal]}" for ideal in scaled.efficiencies)
    caption = f"{title(scaled)}: efficiency ({scaled.blocks}), {meant}. {BARS}, ratios within blocks."
    return Plate(f"{scaled.name}-efficiency", figure, caption, pd.DataFrame(drawn))


def law(scaled: Scaled) -> Plate:
    """Data and the fitted Universal Scalability Law."""
    figure, axes = new(2.3)
    drawn = panels.throughput(axes[0], scaled, list(scaled.fits), joined=False) + panels.laws(axes[0], scaled)
    legend(figure, axes, COLUMNS)
    told = "; ".join(
        f"{scaled.title(label)}: sigma {fit['sigma']:.2g}, kappa {fit['kappa']:.2g}" for label, fit in scaled.fits.items()
    )
    caption = (
        f"{title(scaled)}: the Universal Scalability Law, fitted ({scaled.blocks}). {told}. Lines are fits, "
        f"marks interquartile means. {BARS}."
    )
    return Plate(f"{scaled.name}-law", figure, caption, pd.DataFrame(drawn), laws(scaled))


def convergence(scaled: Scaled) -> Plate:
    """Seconds to either threshold against nodes; open triangles are runs that did not get there."""
    figure, axes = new(2.5, 2, sharey=True)
    drawn = panels.crossings(axes, scaled)
    legend(figure, axes, COLUMNS)
    caption = (
        f"{title(scaled)}: time to either threshold ({scaled.blocks}). {BARS} of interquartile means; small dots are runs, "
        "open triangles runs that ended without getting there."
    )
    return Plate(f"{scaled.name}-convergence", figure, caption, pd.DataFrame(drawn), times_to_threshold(scaled))


def goodput(traffic: Traffic) -> Plate:
    """Goodput against size; ceilings without markers."""
    figure, axes = new(2.6)
    drawn = by_size.goodput(axes[0], traffic)
    legend(figure, axes, COLUMNS)
    caption = (
        f"{traffic.description['title']}, {traffic.fewest}: payload read a second "
        f"(n = {how_many(mark['n'] for mark in drawn)}). Ceilings have no marks. {BARS} of interquartile means."
    )
    return Plate(f"{traffic.id}-goodput", figure, caption, pd.DataFrame(drawn), ratio_table(traffic))


def shares(traffic: Traffic) -> Plate:
    """Goodput as a share of the ceiling."""
    figure, axes = new(2.4)
    drawn = by_size.shares(axes[0], traffic)
    legend(figure, axes, COLUMNS)
    caption = (
        f"{traffic.description['title']}, {traffic.fewest}: goodput as a share of what the machine does with "
        f"nothing in between, measured in the same blocks (n = {how_many(mark['n'] for mark in drawn)}). {BARS}, ratios within "
        "blocks."
    )
    return Plate(f"{traffic.id}-share", figure, caption, pd.DataFrame(drawn))
