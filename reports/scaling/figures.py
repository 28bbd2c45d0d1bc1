"""Figures of the scaling suite, each a function from a setting to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.dataset import Dataset
from reports.looks import DASHED, GREY, INK
from reports.marks import legend, level, node_axis
from reports.scaling import panels
from reports.scaling.lookup import Scaled, settings
from suites.scaling.ratios import SELF

MEGA = 1e6
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


def _page(count: int = 1, height: float = 3.8, **more: Any) -> tuple[Figure, list[Axes]]:
    """A figure of a page's width with panels beside each other."""
    figure, axes = plt.subplots(1, count, figsize=(9.2, height), layout="constrained", squeeze=False, **more)
    return figure, list(axes[0])


def _counted(axis: Axes, scaled: Scaled) -> None:
    """Say in an axis's title how many blocks there are."""
    axis.set_title(f"{axis.get_title(loc='left')} (n = {scaled.blocks})", loc="left")


def throughput(scaled: Scaled) -> Figure:
    """Unique consumption against nodes, with copies as ceilings and the fitted law; beside it as a multiple of one node's."""
    figure, (left, right) = _page(2, 4.2, width_ratios=(5, 4))
    panels.throughput(left, scaled, scaled.shown)
    panels.laws(left, scaled)
    left.set_title("Throughput", loc="left")
    _counted(left, scaled)
    speedups = {label: scaled.line(label, "unique_consumption_speedup_ratio", SELF) for label in scaled.systems}
    for label in (label for label, rows in speedups.items() if rows):
        own = {"nodes": 1, "value": 1.0, "ci_low": None, "ci_high": None}
        panels.by_nodes(right, scaled, label, [own, *speedups[label]])
    if any(speedups.values()):
        ends = np.array([1, scaled.most])
        right.plot(ends, ends, color=INK, linewidth=0.8, linestyle=DASHED, label="as many times as nodes")
        node_axis(right, scaled.nodes)
        right.set_ylim(bottom=0)
        right.set_ylabel("times its own on one node")
        right.set_title("Speed-up", loc="left")
    else:
        right.remove()
    legend(figure, (left, right))
    return figure


def efficiency(scaled: Scaled) -> Figure:
    """Speed-up over the number of nodes, and throughput over that of as many copies, where either was measured."""
    figure, axes = _page(len(scaled.efficiencies), sharey=True)
    panels.efficiencies(axes, scaled)
    _counted(axes[0], scaled)
    legend(figure, axes)
    return figure


def convergence(scaled: Scaled) -> Figure:
    """Seconds to each threshold against nodes; an open triangle where a run ended without reaching it."""
    figure, axes = _page(2, 4.0, sharey=True)
    panels.crossings(axes, scaled)
    _counted(axes[0], scaled)
    legend(figure, axes)
    return figure


def wire(scaled: Scaled) -> Figure:
    """Bytes on links: what a node sends in the mean, and the one direction of one link that carries most."""
    figure, axes = _page(2, sharey=True)
    link = scaled.regime.get("link_bits_per_s")
    parts = (
        ("wire_sent_bytes_per_s", "Sent by a node, mean"),
        ("wire_busiest_bytes_per_s", "The link and direction that carries most"),
    )
    rows = [row for label in scaled.systems for metric, _ in parts for row in scaled.line(label, metric)]
    small = max(row["value"] for row in rows) < MEGA
    unit, scale = ("kB/s", 1e-3) if small else ("MB/s", 1 / MEGA)
    for axis, (metric, title) in zip(axes, parts, strict=True):
        for label in scaled.systems:
            panels.by_nodes(axis, scaled, label, scaled.line(label, metric), scale)
        node_axis(axis, scaled.nodes)
        axis.set_title(title, loc="left")
    _counted(axes[0], scaled)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel(f"on the wire, {unit}")
    if link is not None:
        _link(axes, link / 8 * scale, f"rate of a link: {link / 8 / MEGA:,.3g} MB/s")
    legend(figure, axes)
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
    figure, (axis,) = _page(height=3.6)
    for label in scaled.shown:
        panels.by_nodes(axis, scaled, label, scaled.line(label, "learner_busy_share"), 100)
    node_axis(axis, scaled.nodes)
    axis.set_ylim(0, max(100, axis.get_ylim()[1]))
    axis.set_ylabel("updates, % of the measured time")
    axis.set_title("Learners, mean where there are several", loc="left")
    _counted(axis, scaled)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return figure
