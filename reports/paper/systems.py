"""Plates of what systems can do: throughput on several nodes, the fitted law, and how fast data moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reports.dataset import Dataset
from reports.looks import look
from reports.marks import apart, intervals, level, node_axis, plain_log, size_axis
from reports.paper.plates import Plate, new
from reports.scaling.lookup import Scaled, settings
from reports.scaling.tables import laws, speedups
from reports.scaling.tables import times as times_to_threshold
from reports.scaling.text import title
from reports.transmission.lookup import CEILINGS, Traffic
from reports.transmission.tables import ratio_table
from suites.crossings import KINDS
from suites.scaling.comparison import HEADLINE
from suites.usl import Coefficients

BARS = "Bars are 95 % intervals"
APART = 0.07
"""Nodes by which systems stand apart."""
IDEALS = {
    "one node": ("its own one node", "speed-up over the number of nodes"),
    "copies": ("as many copies", "throughput over that of as many copies that do not communicate"),
}
"""What efficiency is a share of, in a panel's title and in a caption."""


def plates(data: Dataset) -> Iterator[Plate]:
    """Every plate that the scaling and transmission suites have data for."""
    for setting in settings(data):
        scaled = Scaled(data, setting)
        yield throughput(scaled)
        if scaled.efficiencies:
            yield efficiency(scaled)
        fits = scaled.points("scaling-laws")
        if fits["sigma"].notna().any():
            yield law(scaled, fits[fits["sigma"].notna()])
        if scaled.trained:
            yield convergence(scaled)
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if traffic.labels:
            yield goodput(traffic)
            if traffic.ceiling in traffic.labels:
                yield shares(traffic)


def _mark(
    axis: Axes,
    label: str,
    name: str | None,
    x: str,
    rows: Sequence[dict[str, Any]],
    scale: float,
    shift: float = 0.0,
    *,
    joined: bool = True,
) -> list[dict[str, Any]]:
    """Draw rows with their intervals; what was drawn."""
    intervals(axis, label, name, x, rows, scale, shift, joined=joined)
    keys = ("metric", "unit", "value", "ci_low", "ci_high", "n", "censored")
    return [{"system": label, x: row[x], **{key: row[key] for key in keys}} for row in rows]


def throughput(scaled: Scaled) -> Plate:
    """Unique consumption against nodes; copies are ceilings."""
    figure, (axis,) = new(2.4)
    drawn: list[dict[str, Any]] = []
    labels = [*scaled.systems, *scaled.copies]
    for label in labels:
        drawn += _mark(
            axis, label, scaled.title(label), "nodes", scaled.line(label, HEADLINE), 1e-3, apart(labels, label, APART)
        )
    node_axis(axis, scaled.nodes)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("unique consumption, 1,000 samples/s")
    figure.legend(loc="outside upper center", ncols=2)
    caption = f"{title(scaled)}: samples trained on a second, each counted once ({scaled.blocks}). {BARS}."
    return Plate(f"{scaled.name}-throughput", figure, caption, pd.DataFrame(drawn), speedups(scaled))


def efficiency(scaled: Scaled) -> Plate:
    """Speed-up over nodes, and share of as many copies, where either was measured."""
    panels = scaled.efficiencies
    figure, axes = new(2.3, len(panels), sharey=True)
    drawn: list[dict[str, Any]] = []
    for axis, (ideal, lines) in zip(axes, panels.items(), strict=True):
        for label, rows in lines.items():
            named = any(row["system"] == label for row in drawn)
            name = None if named else scaled.title(label)
            drawn += _mark(axis, label, name, "nodes", rows, 100, apart(scaled.systems, label, APART))
        level(axis, 100)
        axis.set_title(f"of {IDEALS[ideal][0]}", loc="left")
        node_axis(axis, scaled.nodes)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("unique consumption, %")
    figure.legend(loc="outside upper center", ncols=2)
    meant = "; ".join(f"of {words}: {meaning}" for words, meaning in (IDEALS[ideal] for ideal in panels))
    caption = f"{title(scaled)}: efficiency ({scaled.blocks}), {meant}. {BARS}, ratios within blocks."
    return Plate(f"{scaled.name}-efficiency", figure, caption, pd.DataFrame(drawn))


def law(scaled: Scaled, fits: pd.DataFrame) -> Plate:
    """Data and the fitted Universal Scalability Law."""
    figure, (axis,) = new(2.3)
    drawn: list[dict[str, Any]] = []
    lines = []
    for _, fit in fits.iterrows():
        label = str(fit["system"])
        colour, line, marker = look(label)
        drawn += _mark(axis, label, None, "nodes", scaled.line(label, HEADLINE), 1e-3, joined=False)
        places = np.linspace(1, scaled.most, 60)
        values = Coefficients(fit["single"], fit["sigma"], fit["kappa"]).throughput(places)
        axis.plot(places, values * 1e-3, color=colour, linestyle=line, linewidth=0.8)
        axis.plot([], [], color=colour, linestyle=line, marker=marker or "o", label=scaled.title(label))
        lines.append(f"{scaled.title(label)}: sigma {fit['sigma']:.2g}, kappa {fit['kappa']:.2g}")
        drawn += [{"system": label, "nodes": at, "law": value} for at, value in zip(places, values, strict=True)]
    node_axis(axis, scaled.nodes)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("unique consumption, 1,000 samples/s")
    figure.legend(loc="outside upper center", ncols=2)
    caption = (
        f"{title(scaled)}: the Universal Scalability Law, fitted ({scaled.blocks}). {'; '.join(lines)}. Lines are fits, "
        f"marks interquartile means. {BARS}."
    )
    return Plate(f"{scaled.name}-law", figure, caption, pd.DataFrame(drawn), laws(scaled))


def convergence(scaled: Scaled) -> Plate:
    """Seconds to either threshold against nodes; open triangles are runs that did not get there."""
    frame = scaled.points("scaling-crossings")
    figure, axes = new(2.3, 2, sharey=True)
    drawn: list[dict[str, Any]] = []
    thresholds = scaled.description["workload"]["thresholds"]
    for axis, kind in zip(axes, KINDS, strict=True):
        for label in scaled.systems:
            shift = apart(scaled.systems, label, APART)
            name = scaled.title(label) if axis is axes[0] else None
            rows = _mark(axis, label, name, "nodes", scaled.line(label, "time_to_threshold_s", None, kind), 1.0, shift)
            drawn += [{"kind": kind, **row} for row in rows]
            late = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind) & frame["seconds"].isna()]
            axis.plot(
                late["nodes"] + shift,
                late["measured_s"],
                marker="^",
                markerfacecolor="none",
                color=look(label).colour,
                linestyle="",
            )
            drawn += [
                {"kind": kind, "system": label, "nodes": run["nodes"], "metric": "censored_s", "value": run["measured_s"]}
                for _, run in late.iterrows()
            ]
        axis.set_title(f"{kind}, {thresholds[kind]:g}", loc="left")
        plain_log(axis.yaxis)
        node_axis(axis, scaled.nodes)
    axes[0].set_ylabel("seconds to the threshold (log scale)")
    figure.legend(loc="outside upper center", ncols=2)
    caption = (
        f"{title(scaled)}: time to either threshold ({scaled.blocks}). {BARS} of interquartile means; open triangles are "
        "runs that ended without getting there."
    )
    return Plate(f"{scaled.name}-convergence", figure, caption, pd.DataFrame(drawn), times_to_threshold(scaled))


def goodput(traffic: Traffic) -> Plate:
    """Goodput against size; ceilings without markers."""
    figure, (axis,) = new(2.6)
    n = traffic.explorers[0]
    drawn: list[dict[str, Any]] = []
    counted: set[int] = set()
    for label in traffic.shown:
        rows = [row for size in traffic.sizes(n) if (row := traffic.find(label, "goodput_bytes_per_s", size, n))]
        drawn += _mark(axis, label, traffic.title(label), "size_bytes", rows, 1e-6)
        counted |= {row["n"] for row in rows}
    size_axis(axis, traffic.sizes(n))
    plain_log(axis.yaxis)
    axis.set_ylabel("goodput, MB/s (log scale)")
    figure.legend(loc="outside upper center", ncols=2)
    caption = (
        f"{traffic.description['title']}, {n} explorer{'s' * (n > 1)}: payload read a second, n = {_range(counted)} blocks. "
        f"Ceilings have no marks. {BARS} of interquartile means."
    )
    return Plate(f"{traffic.id}-goodput", figure, caption, pd.DataFrame(drawn), ratio_table(traffic))


def shares(traffic: Traffic) -> Plate:
    """Goodput as a share of the ceiling."""
    figure, (axis,) = new(2.4)
    n = traffic.explorers[0]
    drawn: list[dict[str, Any]] = []
    counted: set[int] = set()
    for label in (label for label in traffic.shown if label not in CEILINGS):
        rows = [row for size in traffic.sizes(n) if (row := traffic.find(label, "goodput_ratio", size, n, traffic.ceiling))]
        drawn += _mark(axis, label, traffic.title(label), "size_bytes", rows, 100)
        counted |= {row["n"] for row in rows}
    level(axis, 100)
    size_axis(axis, traffic.sizes(n))
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"% of {traffic.data.titles[f'transmission:{traffic.ceiling}']}")
    figure.legend(loc="outside upper center", ncols=2)
    caption = (
        f"{traffic.description['title']}, {n} explorer{'s' * (n > 1)}: goodput as a share of what the machine does with "
        f"nothing in between, measured in the same blocks (n = {_range(counted)}). {BARS}, ratios within blocks."
    )
    return Plate(f"{traffic.id}-share", figure, caption, pd.DataFrame(drawn))


def _range(counts: set[int]) -> str:
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)})) if counts else "0"
