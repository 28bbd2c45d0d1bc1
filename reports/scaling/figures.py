"""Figures of the scaling suite, each of all its experiments, in either style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from reports.looks import DASHED, GREY, INK, look
from reports.marks import Mark, apart, intervals, legend, level, plain_log
from reports.pairs import REFERENCE
from reports.scaling.view import Scaled
from reports.styles import Drawing, Plot, Style, drawing
from suites.scaling.ratios import HEADLINE
from suites.statistics.crossings import KINDS

MEGA = 1e6
APART = 0.06
"""Nodes by which systems stand apart, so that no interval hides another."""
SPREAD = 0.22
"""Nodes over which single runs of a system stand side by side."""
BUSIEST = "wire_busiest_bytes_per_s"
VISIBLE = 0.05
"""Share of a link from which on its rate is drawn: below, a line of it would press all others to the ground."""
USUAL = "netns"
"""The testbed that titles do not name: captions do."""
LAW = "fitted law of scalability"


def throughput(views: Sequence[Scaled], style: Style) -> Drawing | None:
    """Unique consumption against nodes, a panel an experiment, with the ideal, copies as ceilings, and the fitted law."""
    if not views:
        return None
    figure, axes = style.panels(len(views), (2.7, 1.9))
    marks: list[Mark] = []
    for axis, scaled in zip(axes, views, strict=True):
        found = []
        for label in scaled.shown:
            found += _by_nodes(axis, scaled, label, HEADLINE, 1e-3)
        found += _laws(axis, scaled)
        _ideal(axis, scaled)
        axis.set_ylim(bottom=0)
        _titled(axis, scaled)
        marks += [{"experiment": scaled.setting.slug, **mark} for mark in found]
    for axis in axes[::2]:
        axis.set_ylabel("1,000 different\nsamples/s")
    legend(figure, axes, style.legend_columns, marks)
    return drawing(figure, marks)


def _ideal(axis: Axes, scaled: Scaled) -> None:
    """As many times TianJi's throughput on one node as there are nodes, where one node is what each of several is."""
    own = scaled.line(REFERENCE, HEADLINE)
    if own and own[0]["nodes"] == 1 and scaled.speedup(REFERENCE, scaled.most) is not None:
        ends = np.array([1, scaled.most])
        label = "TianJi's one node x nodes"
        axis.plot(ends, ends * own[0]["value"] * 1e-3, color=INK, linewidth=0.8, linestyle=DASHED, zorder=1, label=label)


def _laws(axis: Axes, scaled: Scaled) -> list[Mark]:
    """The Universal Scalability Law as fitted to each system that has one: a grey line, for it was not measured."""
    places = np.linspace(1, scaled.most, 100)
    marks: list[Mark] = []
    for label, fit in scaled.fits.items():
        values = fit.throughput(places)
        axis.plot(places, values * 1e-3, color=GREY, linewidth=3.5, alpha=0.45, zorder=0, label=LAW)
        marks += [{"system": label, "nodes": at, "law": value} for at, value in zip(places, values, strict=True)]
    return marks


def convergence(views: Sequence[Scaled], style: Style) -> Drawing | None:
    """Seconds to either return against nodes, a row of two panels an experiment; an open triangle is a run that missed it."""
    views = [scaled for scaled in views if scaled.trained]
    if not views:
        return None
    figure, axes = style.axes((0.7 + 2.8 * len(views), 0.7 + 2.0 * len(views)), 2, len(views), sharey="row")
    marks: list[Mark] = []
    panels = [(scaled, kind) for scaled in views for kind in KINDS]
    for axis, (scaled, kind) in zip(axes, panels, strict=True):
        frame = scaled.points("scaling-crossings")
        found = []
        for label in scaled.systems:
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            found += _by_nodes(axis, scaled, label, "time_to_threshold_s", threshold_kind=kind) + _runs(
                axis, scaled, label, runs
            )
        marks += [{"experiment": scaled.setting.slug, "kind": kind, **mark} for mark in found]
        plain_log(axis.yaxis)
        _titled(axis, scaled, f": {kind}")
    for axis in axes[::2]:
        axis.set_ylabel("seconds (log scale)")
    axes[0].plot([], [], marker="^", markerfacecolor="none", color=GREY, linestyle="", label="a run that missed it")
    axes[0].plot([], [], marker=".", color=GREY, linestyle="", label="one run")
    legend(figure, axes, style.legend_columns, marks)
    return drawing(figure, marks)


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


def wire(views: Sequence[Scaled], style: Style) -> Drawing | None:
    """Bytes a second in the one direction of the one link that carries most, a panel an experiment."""
    views = [scaled for scaled in views if any(scaled.line(label, BUSIEST) for label in scaled.systems)]
    if not views:
        return None
    figure, axes = style.panels(len(views), (2.5, 1.8))
    marks: list[Mark] = []
    for axis, scaled in zip(axes, views, strict=True):
        found = []
        for label in scaled.systems:
            found += _by_nodes(axis, scaled, label, BUSIEST, 1 / MEGA)
        axis.set_ylim(bottom=0)
        _titled(axis, scaled)
        _link(axis, scaled)
        marks += [{"experiment": scaled.setting.slug, **mark} for mark in found]
    for axis in axes[::2]:
        axis.set_ylabel("MB/s")
    legend(figure, axes, style.legend_columns, marks)
    return drawing(figure, marks)


def _link(axis: Axes, scaled: Scaled) -> None:
    """A line at a link's rate, or a word in the title where that is far above everything."""
    bits = scaled.regime.get("link_bits_per_s")
    if bits is None:
        return
    rate, top = bits / 8 / MEGA, axis.get_ylim()[1]
    text, place = f"a link: {rate:,.3g} MB/s", ("axes fraction", "data")
    if top < VISIBLE * rate:
        axis.set_title(f"{axis.get_title(loc='left')}\n({text})", loc="left")
        return
    axis.set_ylim(top=max(top, rate * 1.15))
    level(axis, rate)
    axis.annotate(text, (0.02, rate), xycoords=place, xytext=(0, 3), textcoords="offset points", fontsize="small")


def _by_nodes(axis: Axes, scaled: Scaled, label: str, metric: str, scale: float = 1.0, **keys: Any) -> list[Mark]:
    """One quantity of a system against nodes."""
    shift = apart(scaled.shown, label, APART)
    return intervals(axis, label, scaled.title(label), "nodes", scaled.line(label, metric, **keys), scale, shift)


def _titled(axis: Axes, scaled: Scaled, what: str = "") -> None:
    """Name a panel's experiment and the numbers of nodes."""
    mode = "" if scaled.setting.scaling in scaled.workload else f", {scaled.setting.scaling}"
    place = "" if scaled.setting.testbed == USUAL else f", {scaled.setting.testbed}"
    axis.set_title(f"{scaled.name}{mode}{place}{what}", loc="left")
    axis.set_xticks(scaled.nodes, [str(n) for n in scaled.nodes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(min(scaled.nodes) - 0.5, max(scaled.nodes) + 0.5)
    axis.set_xlabel("nodes")


PLOTS = (
    Plot("throughput", Scaled, throughput, table="speedup"),
    Plot("convergence", Scaled, convergence, table="times"),
    Plot("wire", Scaled, wire),
)
