"""Figures of the scaling suite, each a function from a setting to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.dataset import Dataset
from reports.looks import look
from reports.scaling.lookup import Scaled, settings
from suites.crossings import KINDS
from suites.scaling.analysis import COPIES
from suites.scaling.comparison import HEADLINE, SELF, copies_of
from suites.usl import Coefficients

MEGA = 1e6
APART = 0.06
"""Nodes by which systems stand apart, so that no interval hides another."""
SPREAD = 0.22
"""Nodes over which single runs of a system stand side by side."""
TICKS = (1, 1.5, 2, 3, 5, 7)
"""Of each decade of an axis of seconds."""
VISIBLE = 0.05
"""Share of a link from which on its rate is drawn: below, a line of it would press all others to the ground."""


def figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of the suite by file name."""
    made: dict[str, Figure] = {}
    for setting in settings(data):
        scaled = Scaled(data, setting)
        made[f"{scaled.name}-throughput"] = throughput(scaled)
        if any(scaled.speedup(label, n) or scaled.share(label, n) for label in scaled.systems for n in scaled.nodes):
            made[f"{scaled.name}-efficiency"] = efficiency(scaled)
        if scaled.trained:
            made[f"{scaled.name}-convergence"] = convergence(scaled)
        if any(scaled.line(label, "wire_sent_bytes_per_s") for label in scaled.systems):
            made[f"{scaled.name}-wire"] = wire(scaled)
        if any(scaled.line(label, "learner_busy_share") for label in scaled.systems):
            made[f"{scaled.name}-busy"] = busy(scaled)
    return made


def _apart(scaled: Scaled, label: str) -> float:
    """How far to the right of its number of nodes a system stands."""
    drawn = scaled.systems
    return APART * (drawn.index(label) - (len(drawn) - 1) / 2) if label in drawn else 0.0


def _draw(axis: Axes, scaled: Scaled, label: str, rows: Sequence[dict[str, Any]], scale: float = 1.0) -> None:
    if not rows:
        return
    colour, line, marker = look(label)
    places = np.array([row["nodes"] for row in rows]) + _apart(scaled, label)
    values = np.array([row["value"] for row in rows]) * scale
    axis.plot(
        places,
        values,
        color=colour,
        linestyle=line,
        marker=marker or None,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        label=scaled.title(label),
        zorder=2 if label.endswith(COPIES) else 3,
    )
    bounded = [(at, row) for at, row in zip(places, rows, strict=True) if row["ci_low"] is not None]
    if bounded:
        axis.vlines(
            [at for at, _ in bounded],
            [row["ci_low"] * scale for _, row in bounded],
            [row["ci_high"] * scale for _, row in bounded],
            color=colour,
            linewidth=2.2,
            alpha=0.5,
        )


def _node_axis(axis: Axes, scaled: Scaled) -> None:
    axis.set_xticks(scaled.nodes, [str(n) for n in scaled.nodes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(min(scaled.nodes) - 0.4, scaled.most + 0.4)
    axis.set_xlabel("nodes")


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
    _node_axis(left, scaled)
    left.set_ylim(bottom=0)
    left.set_ylabel("unique consumption, thousand samples/s")
    left.set_title(f"Throughput (n = {scaled.blocks})", loc="left")
    if single:
        ends = np.array([1, scaled.most])
        right.plot(ends, ends, color="#111", linewidth=0.8, linestyle=(0, (4, 3)), label="as many times as nodes")
        _node_axis(right, scaled)
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
    shares = {
        label: [row for n in scaled.nodes if (row := scaled.share(label, n))]
        for label in scaled.systems
        if copies_of(label, scaled.labels)
    }
    own = {label: scaled.line(label, "unique_consumption_efficiency_ratio", SELF) for label in scaled.systems}
    panels = [("Of its own on one node, times nodes", own), ("Of as many copies that do not communicate", shares)]
    panels = [(title, lines) for title, lines in panels if any(lines.values())]
    figure: Figure
    figure, axes = plt.subplots(1, len(panels), figsize=(9.2, 3.8), sharey=True, layout="constrained", squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels, strict=True):
        for label, rows in lines.items():
            _draw(axis, scaled, label, rows, 100)
        axis.axhline(100, color="#111", linewidth=0.8, linestyle=(0, (4, 3)))
        _node_axis(axis, scaled)
        axis.set_title(f"{title} (n = {scaled.blocks})" if axis is axes[0][0] else title, loc="left")
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
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _node_axis(axis, scaled)
        counted = f" (n = {scaled.blocks})" if axis is axes[0] else ""
        axis.set_title(f"{kind.capitalize()} return reaches {thresholds[kind]:g}{counted}", loc="left")
    low, high = axes[0].get_ylim()
    ticks = [tick for decade in (0.1, 1, 10, 100, 1000) for tick in decade * np.array(TICKS) if low <= tick <= high]
    if len(ticks) > 1:
        axes[0].set_yticks(ticks)
    axes[0].yaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("seconds to the threshold (log scale)")
    axes[1].plot([], [], marker="^", markerfacecolor="none", color="#57534e", linestyle="", label="not reached until then")
    axes[1].plot([], [], marker=".", color="#57534e", linestyle="", label="one run")
    _legend(figure, *axes)
    return figure


def _runs(axis: Axes, scaled: Scaled, label: str, runs: pd.DataFrame) -> None:
    """Single runs, side by side around their mean."""
    colour = look(label).colour
    by_nodes = runs.groupby("nodes")
    turn = (by_nodes.cumcount() + 0.5) / by_nodes["nodes"].transform("size")
    places = runs["nodes"] + _apart(scaled, label) + SPREAD * (turn - 0.5)
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
        _node_axis(axis, scaled)
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
        axes[0].annotate(f"{text}, above the figure", (0.02, 0.94), xycoords="axes fraction", fontsize=8, color="#57534e")
        return
    axes[0].set_ylim(top=max(top, rate * 1.1))
    for axis in axes:
        axis.axhline(rate, color="#111", linewidth=0.8, linestyle=(0, (4, 3)))
        corner = (0.02, rate)
        axis.annotate(text, corner, xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", fontsize=8)


def busy(scaled: Scaled) -> Figure:
    """Which share of its time a learner spends on updates."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 3.6), layout="constrained")
    for label in (*scaled.systems, *scaled.copies):
        _draw(axis, scaled, label, scaled.line(label, "learner_busy_share"), 100)
    _node_axis(axis, scaled)
    axis.set_ylim(0, max(100, axis.get_ylim()[1]))
    axis.set_ylabel("updates, % of the measured time")
    axis.set_title(f"Learners, mean where there are several (n = {scaled.blocks})", loc="left")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return figure
