"""Figures of the transmission suite, each a function from a workload to a matplotlib figure."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.dataset import Dataset
from reports.looks import INK, look
from reports.marks import intervals, level, plain_log, size_axis
from reports.transmission.lookup import CEILINGS, Traffic, seconds_text, size_text


def figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of the suite by file name."""
    made: dict[str, Figure] = {}
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if not traffic.labels:
            continue
        made[f"{workload}-size"] = goodput_by_size(traffic)
        if len(traffic.explorers) > 1:
            made[f"{workload}-explorers"] = goodput_by_explorers(traffic)
        if traffic.delays(traffic.explorers[0]).size:
            made[f"{workload}-latency"] = latency(traffic)
        if traffic.ceiling in traffic.labels:
            made[f"{workload}-share"] = shares(traffic)
    return made


def _goodput_axis(axis: Axes) -> None:
    plain_log(axis.yaxis)
    axis.set_ylabel("goodput, MB/s (log scale)")


def goodput_by_size(traffic: Traffic) -> Figure:
    """Goodput against size, with the fewest explorers; ceilings drawn."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 4.6), layout="constrained")
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    for label in reversed(traffic.shown):
        rows = [row for size in sizes if (row := traffic.find(label, "goodput_bytes_per_s", size, n))]
        intervals(axis, label, traffic.title(label), "size_bytes", rows, 1e-6)
    size_axis(axis, sizes)
    _goodput_axis(axis)
    axis.set_title(f"{traffic.description['title']}: {n} explorer{'s' * (n > 1)}", loc="left")
    figure.legend(*_legend(axis), loc="outside right center")
    return figure


def _legend(axis: Axes) -> tuple[list[Any], list[str]]:
    handles, labels = axis.get_legend_handles_labels()
    return handles[::-1], labels[::-1]


def goodput_by_explorers(traffic: Traffic) -> Figure:
    """Goodput against the number of explorers, a panel for each size that all numbers have in common."""
    common = sorted(set.intersection(*(set(traffic.sizes(n)) for n in traffic.explorers)))
    figure: Figure
    figure, axes = plt.subplots(1, len(common), figsize=(9.2, 3.6), layout="constrained", squeeze=False)
    for axis, size in zip(axes[0], common, strict=True):
        for label in reversed(traffic.shown):
            rows = [row for n in traffic.explorers if (row := traffic.find(label, "goodput_bytes_per_s", size, n))]
            intervals(axis, label, traffic.title(label), "explorers", rows, 1e-6)
        axis.set_xscale("log", base=2)
        axis.set_xticks(traffic.explorers, [str(n) for n in traffic.explorers])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlabel("explorers")
        _goodput_axis(axis)
        if axis is not axes[0][0]:
            axis.set_ylabel("")
        axis.set_title(size_text(size), loc="left")
    figure.legend(*_legend(axes[0][0]), loc="outside upper center", ncols=4)
    return figure


def latency(traffic: Traffic) -> Figure:
    """Distribution of delays for a small, a middle and a large message, one explorer."""
    n = traffic.explorers[0]
    frame = traffic.delays(n)
    sizes = sorted(frame["size_bytes"].unique())
    chosen = [size for size in (1 << 10, 1 << 16, 1 << 20) if size in sizes] or sizes[:3]
    figure: Figure
    figure, axes = plt.subplots(1, max(1, len(chosen)), figsize=(9.2, 3.8), sharey=True, layout="constrained", squeeze=False)
    for axis, size in zip(axes[0], chosen, strict=False):
        for label in reversed(traffic.shown):
            own = frame[(frame["size_bytes"] == size) & (frame["system"] == label)].sort_values("percentile")
            if len(own):
                colour, line, _ = look(label)
                axis.plot(own["seconds"], own["percentile"], color=colour, linestyle=line, label=traffic.title(label))
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value).replace(".00", "")))
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(size_text(int(size)), loc="left")
        axis.set_xlabel(traffic.delay_title())
    axes[0][0].set_ylabel("% of messages that took no longer")
    figure.legend(*_legend(axes[0][0]), loc="outside upper center", ncols=4)
    return figure


def shares(traffic: Traffic) -> Figure:
    """Share of the ceiling, grouped by size."""
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    drawn = [label for label in traffic.shown if label != traffic.ceiling]
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 3.8), layout="constrained")
    width = 0.84 / max(1, len(drawn))
    for place, label in enumerate(drawn):
        colour, _, _ = look(label)
        for group, size in enumerate(sizes):
            row = traffic.find(label, "goodput_ratio", size, n, traffic.ceiling)
            if row is None:
                continue
            at = group - 0.42 + width * (place + 0.5)
            name = traffic.title(label) if group == 0 else None
            hatch = "////" if label in CEILINGS else None
            axis.bar(
                at, row["value"] * 100, width * 0.94, color=colour, label=name, hatch=hatch, edgecolor="white", linewidth=0
            )
            if row["ci_low"] is not None:
                axis.vlines(at, row["ci_low"] * 100, row["ci_high"] * 100, color=INK, linewidth=0.9)
    level(axis, 100)
    axis.set_xticks(range(len(sizes)), [size_text(size) for size in sizes])
    axis.set_xlabel("size of a message")
    axis.set_ylabel(f"% of {traffic.data.titles[f'transmission:{traffic.ceiling}']}")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure
