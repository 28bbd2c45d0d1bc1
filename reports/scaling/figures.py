"""Figures of the scaling suite, each from a setting and a style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from reports.looks import DASHED, GREY, INK, look
from reports.marks import Mark, apart, intervals, legend, level, plain_log
from reports.scaling.view import Scaled
from reports.styles import Drawing, Plot, Style, drawing
from reports.table import Row
from suites.scaling.ratios import HEADLINE, SELF
from suites.statistics.crossings import KINDS

MEGA = 1e6
VISIBLE = 0.05
"""Share of a link from which on its rate is drawn: below, a line of it would press all others to the ground."""
APART = 0.06
"""Nodes by which systems stand apart, so that no interval hides another."""
SPREAD = 0.22
"""Nodes over which single runs of a system stand side by side."""
IDEALS = {"one node": "Of its own one node", "copies": "Of as many copies"}
"""What efficiency is a share of."""
ABOVE_ALL = 112
"""Percent up to which shares are drawn at least: what nothing is lost of is not the edge."""
WIRE = {
    "wire_sent_bytes_per_s": "Sent by a node, mean",
    "wire_busiest_bytes_per_s": "The link and direction that carries most",
}


def throughput(scaled: Scaled, style: Style) -> Drawing:
    """Unique consumption against nodes; copies are ceilings. On a page also the fitted law, and speed-ups beside it."""
    figure, axes = style.axes((4.2, 2.4), style.pick(2, 1), width_ratios=style.pick((5, 4), (1,)))
    marks = _throughput(axes[0], scaled, scaled.shown)
    if style.name == "page":
        marks += _laws(axes[0], scaled)
        _titled(axes[0], scaled, style, "Throughput")
        _speedups(axes[1], scaled)
    legend(figure, axes, style.legend_columns)
    return drawing(figure, marks, scaled.blocks)


def _speedups(axis: Axes, scaled: Scaled) -> None:
    """Unique consumption as a multiple of one node's; the axis goes where there is none."""
    lines = {label: scaled.line(label, "unique_consumption_speedup_ratio", baseline=SELF) for label in scaled.systems}
    if not any(lines.values()):
        axis.remove()
        return
    one: Row = {"nodes": 1, "value": 1.0, "ci_low": None, "ci_high": None}
    for label, rows in lines.items():
        _by_nodes(axis, scaled, label, [one, *rows] if rows else [])
    ends = np.array([1, scaled.most])
    axis.plot(ends, ends, color=INK, linewidth=0.8, linestyle=DASHED, label="as many times as nodes")
    _node_axis(axis, scaled.nodes)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("times its own on one node")
    axis.set_title("Speed-up", loc="left")


def law(scaled: Scaled, style: Style) -> Drawing | None:
    """Data and the fitted Universal Scalability Law."""
    if not scaled.fits:
        return None
    figure, axes = style.axes((2.3, 2.3))
    marks = _throughput(axes[0], scaled, list(scaled.fits), joined=False) + _laws(axes[0], scaled)
    legend(figure, axes, style.legend_columns)
    return drawing(figure, marks, scaled.blocks)


def efficiency(scaled: Scaled, style: Style) -> Drawing | None:
    """Speed-up over the number of nodes, and throughput over that of as many copies: an axis for each that was measured."""
    if not scaled.efficiencies:
        return None
    figure, axes = style.axes((3.8, 2.3), len(scaled.efficiencies), sharey=True)
    marks = []
    for axis, (ideal, lines) in zip(axes, scaled.efficiencies.items(), strict=True):
        for label, rows in lines.items():
            marks += _by_nodes(axis, scaled, label, rows, 100)
        level(axis, 100)
        axis.set_title(IDEALS[ideal], loc="left")
        _node_axis(axis, scaled.nodes)
    axes[0].set_ylim(0, max(ABOVE_ALL, axes[0].get_ylim()[1]))
    axes[0].set_ylabel("unique consumption, %")
    _titled(axes[0], scaled, style)
    legend(figure, axes, style.legend_columns)
    return drawing(figure, marks, scaled.blocks)


def convergence(scaled: Scaled, style: Style) -> Drawing | None:
    """Seconds to either threshold against nodes, an axis each; an open triangle where a run ended without reaching it."""
    if not scaled.trained:
        return None
    figure, axes = style.axes((4.0, 2.5), 2, sharey=True)
    frame = scaled.points("scaling-crossings")
    marks: list[Mark] = []
    for axis, kind in zip(axes, KINDS, strict=True):
        for label in scaled.systems:
            rows = _by_nodes(axis, scaled, label, scaled.line(label, "time_to_threshold_s", threshold_kind=kind))
            runs = _runs(axis, scaled, label, frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)])
            marks += [{"kind": kind, **mark} for mark in (*rows, *runs)]
        axis.set_title(f"{kind.capitalize()} ≥ {scaled.description['thresholds'][kind]:g}", loc="left")
        plain_log(axis.yaxis)
        _node_axis(axis, scaled.nodes)
    axes[0].set_ylabel("seconds to the threshold (log scale)")
    axes[0].plot([], [], marker="^", markerfacecolor="none", color=GREY, linestyle="", label="not reached until then")
    axes[0].plot([], [], marker=".", color=GREY, linestyle="", label="one run")
    _titled(axes[0], scaled, style)
    legend(figure, axes, style.legend_columns)
    return drawing(figure, marks, scaled.blocks)


def _runs(axis: Axes, scaled: Scaled, label: str, runs: pd.DataFrame) -> list[Mark]:
    """Single runs, side by side around their mean."""
    colour = look(label).colour
    by_size = runs.groupby("nodes")
    turn = (by_size.cumcount() + 0.5) / by_size["nodes"].transform("size")
    places = runs["nodes"] + apart(scaled.shown, label, APART) + SPREAD * (turn - 0.5)
    reached = runs["seconds"].notna()
    axis.plot(places[reached], runs["seconds"][reached], marker=".", markersize=3, color=colour, alpha=0.55, linestyle="")
    late: dict[str, Any] = {"marker": "^", "markersize": 4.5, "markerfacecolor": "none", "linestyle": "", "zorder": 4}
    axis.plot(places[~reached], runs["measured_s"][~reached], color=colour, **late)
    ends = runs["seconds"].where(reached, runs["measured_s"])
    return [
        {"system": label, "nodes": nodes, "metric": "run_s" if there else "censored_s", "value": value}
        for nodes, there, value in zip(runs["nodes"], reached, ends, strict=True)
    ]


def wire(scaled: Scaled, style: Style) -> Drawing | None:
    """Bytes on links: what a node sends in the mean, and the one direction of one link that carries most."""
    rows = {(metric, label): scaled.line(label, metric) for metric in WIRE for label in scaled.systems}
    if not any(rows[next(iter(WIRE)), label] for label in scaled.systems):
        return None
    figure, axes = style.axes((3.8, 3.8), 2, sharey=True)
    small = max(row["value"] for line in rows.values() for row in line) < MEGA
    unit, scale = ("kB/s", 1e-3) if small else ("MB/s", 1 / MEGA)
    for axis, (metric, title) in zip(axes, WIRE.items(), strict=True):
        for label in scaled.systems:
            _by_nodes(axis, scaled, label, rows[metric, label], scale)
        _node_axis(axis, scaled.nodes)
        axis.set_title(title, loc="left")
    _titled(axes[0], scaled, style)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel(f"on the wire, {unit}")
    link = scaled.regime.get("link_bits_per_s")
    if link is not None:
        _link(axes, link / 8 * scale, f"rate of a link: {link / 8 / MEGA:,.3g} MB/s")
    legend(figure, axes, style.legend_columns)
    return drawing(figure)


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


def busy(scaled: Scaled, style: Style) -> Drawing | None:
    """Which share of its time a learner spends on updates."""
    rows = {label: scaled.line(label, "learner_busy_share") for label in scaled.shown}
    if not any(rows[label] for label in scaled.systems):
        return None
    figure, (axis,) = style.axes((3.6, 3.6))
    for label, line in rows.items():
        _by_nodes(axis, scaled, label, line, 100)
    _node_axis(axis, scaled.nodes)
    axis.set_ylim(0, max(100, axis.get_ylim()[1]))
    axis.set_ylabel("updates, % of the measured time")
    _titled(axis, scaled, style, "Learners, mean where there are several")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return drawing(figure)


def _by_nodes(
    axis: Axes, scaled: Scaled, label: str, rows: Sequence[Row], scale: float = 1.0, *, joined: bool = True
) -> list[Mark]:
    """A system's rows against nodes."""
    shift = apart(scaled.shown, label, APART)
    return intervals(axis, label, scaled.title(label), "nodes", rows, scale, shift, joined=joined)


def _throughput(axis: Axes, scaled: Scaled, labels: Sequence[str], *, joined: bool = True) -> list[Mark]:
    """Unique consumption against nodes."""
    marks = []
    for label in labels:
        marks += _by_nodes(axis, scaled, label, scaled.line(label, HEADLINE), 1e-3, joined=joined)
    _node_axis(axis, scaled.nodes)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("unique consumption, 1,000 samples/s")
    return marks


def _laws(axis: Axes, scaled: Scaled) -> list[Mark]:
    """The Universal Scalability Law as fitted to each system that has one, thin lines over its throughput."""
    places = np.linspace(1, scaled.most, 100)
    marks: list[Mark] = []
    for label, fit in scaled.fits.items():
        values = fit.throughput(places)
        axis.plot(places, values * 1e-3, color=look(label).colour, linestyle=look(label).line, linewidth=0.6, zorder=1)
        marks += [{"system": label, "nodes": at, "law": value} for at, value in zip(places, values, strict=True)]
    return marks


def _node_axis(axis: Axes, nodes: Sequence[int]) -> None:
    """Numbers of nodes, each named."""
    axis.set_xticks(nodes, [str(n) for n in nodes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(min(nodes) - 0.5, max(nodes) + 0.5)
    axis.set_xlabel("nodes")


def _titled(axis: Axes, scaled: Scaled, style: Style, title: str | None = None) -> None:
    """Say on a page in an axis's title how many blocks there are; a paper's caption does."""
    if style.name == "page":
        axis.set_title(f"{title or axis.get_title(loc='left')} (n = {scaled.blocks})", loc="left")


PLOTS = (
    Plot(throughput, Scaled, page="throughput", paper="throughput", table="speedup"),
    Plot(efficiency, Scaled, page="efficiency", paper="efficiency"),
    Plot(law, Scaled, paper="law", table="laws"),
    Plot(convergence, Scaled, page="convergence", paper="convergence", table="times"),
    Plot(wire, Scaled, page="wire"),
    Plot(busy, Scaled, page="busy"),
)
