"""Figures of the scaling suite, each a function from a setting to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.dataset import Dataset
from reports.looks import DASHED, GREY, INK, look
from reports.marks import apart, intervals, level, node_axis, plain_log
from reports.scaling.lookup import Scaled, settings
from suites.crossings import KINDS
from suites.scaling.comparison import HEADLINE, SELF
from suites.usl import Coefficients

MEGA = 1e6
APART = 0.06
"""Nodes by which systems stand apart, so that no interval hides another."""
SPREAD = 0.22
"""Nodes over which single runs of a system stand side by side."""
IDEALS = {"one node": "Of its own on one node, times nodes", "copies": "Of as many copies that do not communicate"}
VISIBLE = 0.05
"""Share of a link from which on its rate is drawn: below, a line of it would press all others to the ground."""


def figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of the suite by file name."""
    made: dict[str, Figure] = {}
    for setting in settings(data):
        scaled = Scaled(data, setting)
        made[f"{scaled.name}-throughput"] = throughput(scaled)
        if scaled.efficiencies:
            made[f"{scaled.name}-efficiency"] = efficiency(scaled)
        if scaled.trained:
            made[f"{scaled.name}-convergence"] = convergence(scaled)
        if any(scaled.line(label, "wire_sent_bytes_per_s") for label in scaled.systems):
            made[f"{scaled.name}-wire"] = wire(scaled)
        if any(scaled.line(label, "learner_busy_share") for label in scaled.systems):
            made[f"{scaled.name}-busy"] = busy(scaled)
    return made


def _draw(axis: Axes, scaled: Scaled, label: str, rows: Sequence[dict[str, Any]], scale: float = 1.0) -> None:
    intervals(axis, label, scaled.title(label), "nodes", rows, scale, apart(scaled.systems, label, APART))


def _legend(figure: Figure, *axes: Axes) -> None:
    """One for all axes, each name once, above them."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    figure.legend(list(named.values()), list(named), loc="outside upper center", ncols=min(4, max(1, len(named))))


def throughput(scaled: Scaled) -> Figure:
    """Unique consumption against nodes, with copies as ceilings and the fitted law; beside it as a multiple of one node's."""
    figure: Figure
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.2), layout="constrained", width_ratios=(5, 4))
    single = any(scaled.speedup(label, n) for label in scaled.systems for n in scaled.nodes)
    for label in (*scaled.systems, *scaled.copies):
        rows = scaled.line(label, HEADLINE)
        _draw(left, scaled, label, rows, 1e-3)
        _law(left, scaled, label)
        if label in scaled.systems:
            speedups = scaled.line(label, "unique_consumption_speedup_ratio", SELF)
            if speedups:
                own = {"nodes": 1, "value": 1.0, "ci_low": None, "ci_high": None}
                _draw(right, scaled, label, [own, *speedups])
    node_axis(left, scaled.nodes)
    left.set_ylim(bottom=0)
    left.set_ylabel("unique consumption, thousand samples/s")
    left.set_title(f"Throughput (n = {scaled.blocks})", loc="left")
    if single:
        ends = np.array([1, scaled.most])
        right.plot(ends, ends, color=INK, linewidth=0.8, linestyle=DASHED, label="as many times as nodes")
        node_axis(right, scaled.nodes)
        right.set_ylim(bottom=0)
        right.set_ylabel("times its own on one node")
        right.set_title("Speed-up", loc="left")
    else:
        right.remove()
    _legend(figure, left, right)
    return figure


def _law(axis: Axes, scaled: Scaled, label: str) -> None:
    """The fitted law, drawn thin."""
    fits = scaled.points("scaling-laws")
    own = fits[(fits["system"] == label) & fits["sigma"].notna()]
    if own.empty:
        return
    law = own.iloc[0]
    places = np.linspace(1, scaled.most, 100)
    values = Coefficients(law["single"], law["sigma"], law["kappa"]).throughput(places)
    axis.plot(places, values * 1e-3, color=look(label).colour, linewidth=0.6, alpha=0.9, zorder=1)


def efficiency(scaled: Scaled) -> Figure:
    """Speed-up over the number of nodes, and throughput over that of as many copies, where either was measured."""
    panels = scaled.efficiencies
    figure: Figure
    figure, axes = plt.subplots(1, len(panels), figsize=(9.2, 3.8), sharey=True, layout="constrained", squeeze=False)
    for axis, (ideal, lines) in zip(axes[0], panels.items(), strict=True):
        for label, rows in lines.items():
            _draw(axis, scaled, label, rows, 100)
        level(axis, 100)
        node_axis(axis, scaled.nodes)
        axis.set_title(f"{IDEALS[ideal]} (n = {scaled.blocks})" if axis is axes[0][0] else IDEALS[ideal], loc="left")
    axes[0][0].set_ylim(0, max(112, axes[0][0].get_ylim()[1]))
    axes[0][0].set_ylabel("unique consumption, %")
    _legend(figure, *axes[0])
    return figure


def convergence(scaled: Scaled) -> Figure:
    """Seconds to each threshold against nodes; an open triangle where a run ended without reaching it."""
    frame = scaled.points("scaling-crossings")
    figure: Figure
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 4.0), sharey=True, layout="constrained")
    thresholds = scaled.description["workload"]["thresholds"]
    for axis, kind in zip(axes, reversed(KINDS), strict=True):
        for label in scaled.systems:
            _draw(axis, scaled, label, scaled.line(label, "time_to_threshold_s", None, kind))
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            _runs(axis, scaled, label, runs)
        plain_log(axis.yaxis)
        node_axis(axis, scaled.nodes)
        counted = f" (n = {scaled.blocks})" if axis is axes[0] else ""
        axis.set_title(f"{kind.capitalize()} return reaches {thresholds[kind]:g}{counted}", loc="left")
    axes[0].set_ylabel("seconds to the threshold (log scale)")
    axes[1].plot([], [], marker="^", markerfacecolor="none", color=GREY, linestyle="", label="not reached until then")
    axes[1].plot([], [], marker=".", color=GREY, linestyle="", label="one run")
    _legend(figure, *axes)
    return figure


def _runs(axis: Axes, scaled: Scaled, label: str, runs: pd.DataFrame) -> None:
    """Single runs, side by side around their mean."""
    colour = look(label).colour
    by_nodes = runs.groupby("nodes")
    turn = (by_nodes.cumcount() + 0.5) / by_nodes["nodes"].transform("size")
    places = runs["nodes"] + apart(scaled.systems, label, APART) + SPREAD * (turn - 0.5)
    reached = runs["seconds"].notna()
    axis.plot(places[reached], runs["seconds"][reached], marker=".", markersize=3, color=colour, alpha=0.55, linestyle="")
    axis.plot(
        places[~reached],
        runs["measured_s"][~reached],
        marker="^",
        markersize=5,
        markerfacecolor="none",
        color=colour,
        linestyle="",
        zorder=4,
    )


def wire(scaled: Scaled) -> Figure:
    """Bytes on links: what a node sends in the mean, and the one direction of one link that carries most."""
    figure: Figure
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.8), sharey=True, layout="constrained")
    link = scaled.regime.get("link_bits_per_s")
    parts = (
        ("wire_sent_bytes_per_s", f"Sent by a node, mean (n = {scaled.blocks})"),
        ("wire_busiest_bytes_per_s", "The link and direction that carries most"),
    )
    rows = [row for label in scaled.systems for metric, _ in parts for row in scaled.line(label, metric)]
    small = max(row["value"] for row in rows) < MEGA
    unit, scale = ("kB/s", 1e-3) if small else ("MB/s", 1 / MEGA)
    for axis, (metric, title) in zip(axes, parts, strict=True):
        for label in scaled.systems:
            _draw(axis, scaled, label, scaled.line(label, metric), scale)
        node_axis(axis, scaled.nodes)
        axis.set_title(title, loc="left")
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel(f"on the wire, {unit}")
    if link is not None:
        _link(axes, link / 8 * scale, f"rate of a link: {link / 8 / MEGA:,.3g} MB/s")
    _legend(figure, *axes)
    return figure


def _link(axes: Sequence[Axes], rate: float, text: str) -> None:
    """A line at a link's rate, or a word where that is far above everything."""
    top = axes[0].get_ylim()[1]
    if top < VISIBLE * rate:
        axes[0].annotate(f"{text}, above the figure", (0.02, 0.94), xycoords="axes fraction", fontsize=8, color=GREY)
        return
    axes[0].set_ylim(top=max(top, rate * 1.1))
    for axis in axes:
        level(axis, rate)
        corner = (0.02, rate)
        axis.annotate(text, corner, xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", fontsize=8)


def busy(scaled: Scaled) -> Figure:
    """Which share of its time a learner spends on updates."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 3.6), layout="constrained")
    for label in (*scaled.systems, *scaled.copies):
        _draw(axis, scaled, label, scaled.line(label, "learner_busy_share"), 100)
    node_axis(axis, scaled.nodes)
    axis.set_ylim(0, max(100, axis.get_ylim()[1]))
    axis.set_ylabel("updates, % of the measured time")
    axis.set_title(f"Learners, mean where there are several (n = {scaled.blocks})", loc="left")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return figure
