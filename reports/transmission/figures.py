"""Figures of the transmission suite, each a function from a workload to a matplotlib figure."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.dataset import Dataset
from reports.looks import look
from reports.marks import intervals, legend
from reports.transmission import panels
from reports.transmission.lookup import Traffic, seconds_text, size_text


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


def goodput_by_size(traffic: Traffic) -> Figure:
    """Goodput against size, with the fewest explorers; ceilings drawn."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 4.6), layout="constrained")
    panels.goodput(axis, traffic)
    axis.set_title(f"{traffic.description['title']}: {traffic.fewest}", loc="left")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    return figure


def goodput_by_explorers(traffic: Traffic) -> Figure:
    """Goodput against the number of explorers, a panel for each size that all numbers have in common."""
    common = sorted(set.intersection(*(set(traffic.sizes(n)) for n in traffic.explorers)))
    figure: Figure
    figure, axes = plt.subplots(1, len(common), figsize=(9.2, 3.6), layout="constrained", squeeze=False)
    for axis, size in zip(axes[0], common, strict=True):
        for label in traffic.shown:
            rows = [row for n in traffic.explorers if (row := traffic.find(label, "goodput_bytes_per_s", size, n))]
            intervals(axis, label, traffic.title(label), "explorers", rows, 1e-6)
        axis.set_xscale("log", base=2)
        axis.set_xticks(traffic.explorers, [str(n) for n in traffic.explorers])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlabel("explorers")
        panels.goodput_axis(axis)
        if axis is not axes[0][0]:
            axis.set_ylabel("")
        axis.set_title(size_text(size), loc="left")
    legend(figure, axes[0])
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
        for label in traffic.shown:
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
    legend(figure, axes[0])
    return figure


def shares(traffic: Traffic) -> Figure:
    """Share of the ceiling against size."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 3.8), layout="constrained")
    panels.shares(axis, traffic)
    legend(figure, [axis])
    return figure
