"""What figures of the scaling suite are made of, on a page and in a paper alike; each returns what it drew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reports.looks import GREY, look
from reports.marks import Mark, apart, intervals, level, node_axis, plain_log
from reports.scaling.lookup import Scaled
from suites.scaling.ratios import HEADLINE
from suites.statistics.crossings import KINDS
from suites.statistics.usl import Coefficients

APART = 0.06
"""Nodes by which systems stand apart, so that no interval hides another."""
SPREAD = 0.22
"""Nodes over which single runs of a system stand side by side."""
IDEALS = {"one node": "Of its own one node", "copies": "Of as many copies"}
"""What efficiency is a share of."""
ABOVE_ALL = 112
"""Percent up to which shares are drawn at least: what nothing is lost of is not the edge."""


def by_nodes(
    axis: Axes, scaled: Scaled, label: str, rows: Sequence[dict[str, Any]], scale: float = 1.0, *, joined: bool = True
) -> list[Mark]:
    """A system's rows against nodes."""
    shift = apart(scaled.shown, label, APART)
    return intervals(axis, label, scaled.title(label), "nodes", rows, scale, shift, joined=joined)


def throughput(axis: Axes, scaled: Scaled, labels: Sequence[str], *, joined: bool = True) -> list[Mark]:
    """Unique consumption against nodes."""
    drawn = []
    for label in labels:
        drawn += by_nodes(axis, scaled, label, scaled.line(label, HEADLINE), 1e-3, joined=joined)
    node_axis(axis, scaled.nodes)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("unique consumption, 1,000 samples/s")
    return drawn


def laws(axis: Axes, scaled: Scaled) -> list[Mark]:
    """The Universal Scalability Law as fitted to each system that has one, thin lines over its throughput."""
    places = np.linspace(1, scaled.most, 100)
    drawn = []
    for label, fit in scaled.fits.items():
        values = Coefficients(fit["single"], fit["sigma"], fit["kappa"]).throughput(places)
        axis.plot(places, values * 1e-3, color=look(label).colour, linestyle=look(label).line, linewidth=0.6, zorder=1)
        drawn += [{"system": label, "nodes": at, "law": value} for at, value in zip(places, values, strict=True)]
    return drawn


def efficiencies(axes: Sequence[Axes], scaled: Scaled) -> list[Mark]:
    """Speed-up over the number of nodes, and throughput over that of as many copies: an axis for each that was measured."""
    drawn = []
    for axis, (ideal, lines) in zip(axes, scaled.efficiencies.items(), strict=True):
        for label, rows in lines.items():
            drawn += by_nodes(axis, scaled, label, rows, 100)
        level(axis, 100)
        axis.set_title(IDEALS[ideal], loc="left")
        node_axis(axis, scaled.nodes)
    axes[0].set_ylim(0, max(ABOVE_ALL, axes[0].get_ylim()[1]))
    axes[0].set_ylabel("unique consumption, %")
    return drawn


def crossings(axes: Sequence[Axes], scaled: Scaled) -> list[Mark]:
    """Seconds to either threshold against nodes, an axis each; an open triangle where a run ended without reaching it."""
    frame = scaled.points("scaling-crossings")
    thresholds = scaled.description["workload"]["thresholds"]
    drawn: list[Mark] = []
    for axis, kind in zip(axes, KINDS, strict=True):
        for label in scaled.systems:
            rows = by_nodes(axis, scaled, label, scaled.line(label, "time_to_threshold_s", None, kind))
            runs = _runs(axis, scaled, label, frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)])
            drawn += [{"kind": kind, **mark} for mark in (*rows, *runs)]
        axis.set_title(f"{kind.capitalize()} ≥ {thresholds[kind]:g}", loc="left")
        plain_log(axis.yaxis)
        node_axis(axis, scaled.nodes)
    axes[0].set_ylabel("seconds to the threshold (log scale)")
    axes[0].plot([], [], marker="^", markerfacecolor="none", color=GREY, linestyle="", label="not reached until then")
    axes[0].plot([], [], marker=".", color=GREY, linestyle="", label="one run")
    return drawn


def _runs(axis: Axes, scaled: Scaled, label: str, runs: pd.DataFrame) -> list[Mark]:
    """Single runs, side by side around their mean."""
    colour = look(label).colour
    by_size = runs.groupby("nodes")
    turn = (by_size.cumcount() + 0.5) / by_size["nodes"].transform("size")
    places = runs["nodes"] + apart(scaled.shown, label, APART) + SPREAD * (turn - 0.5)
    reached = runs["seconds"].notna()
    axis.plot(places[reached], runs["seconds"][reached], marker=".", markersize=3, color=colour, alpha=0.55, linestyle="")
    late: dict[str, Any] = {
        "marker": "^",
        "markersize": 4.5,
        "markerfacecolor": "none",
        "color": colour,
        "linestyle": "",
        "zorder": 4,
    }
    axis.plot(places[~reached], runs["measured_s"][~reached], **late)
    ends = runs["seconds"].where(reached, runs["measured_s"])
    return [
        {"system": label, "nodes": nodes, "metric": "run_s" if there else "censored_s", "value": value}
        for nodes, there, value in zip(runs["nodes"], reached, ends, strict=True)
    ]
