"""Figures of the transmission suite, each from a workload and a style."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.looks import look
from reports.marks import Mark, intervals, legend, level, plain_log
from reports.styles import Drawing, Plot, Style, drawing
from reports.tables import counted, seconds_text, size_text
from reports.transmission.view import Traffic

NAMES_AT_MOST = 6
"""Sizes that stand beside each other below an axis; more lean."""
DELAYED = (1 << 10, 1 << 16, 1 << 20)
"""Sizes whose delays are drawn, where they were measured."""


def goodput(traffic: Traffic, style: Style) -> Drawing | None:
    """Goodput against size, with the fewest explorers; ceilings without marks."""
    if not traffic.labels:
        return None
    figure, (axis,) = style.axes((4.6, 2.6))
    marks = _by_size(axis, traffic, "goodput_bytes_per_s", None, 1e-6)
    _goodput_axis(axis)
    if style.name == "page":
        axis.set_title(f"{traffic.description['title']}: {counted(traffic.explorers[0], 'explorer')}", loc="left")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside right center")
    else:
        legend(figure, [axis], style.legend_columns)
    return drawing(figure, marks)


def shares(traffic: Traffic, style: Style) -> Drawing | None:
    """Goodput as a share of the ceiling, against size."""
    if traffic.ceiling not in traffic.labels:
        return None
    figure, (axis,) = style.axes((3.8, 2.4))
    marks = _by_size(axis, traffic, "goodput_ratio", traffic.ceiling, 100)
    level(axis, 100)
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"% of {traffic.titles[traffic.ceiling]}")
    legend(figure, [axis], style.legend_columns)
    return drawing(figure, marks)


def by_explorers(traffic: Traffic, style: Style) -> Drawing | None:
    """Goodput against the number of explorers, a panel for each size that all numbers have in common."""
    if len(traffic.explorers) < 2:
        return None
    common = sorted(set.intersection(*(set(traffic.sizes(n)) for n in traffic.explorers)))
    figure, axes = style.axes((3.6, 3.6), len(common))
    for axis, size in zip(axes, common, strict=True):
        for label in traffic.shown:
            rows = [row for n in traffic.explorers if (row := traffic.at(label, "goodput_bytes_per_s", size, n))]
            intervals(axis, label, traffic.title(label), "explorers", rows, 1e-6)
        axis.set_xscale("log", base=2)
        axis.set_xticks(traffic.explorers, [str(n) for n in traffic.explorers])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlabel("explorers")
        _goodput_axis(axis)
        if axis is not axes[0]:
            axis.set_ylabel("")
        axis.set_title(size_text(size), loc="left")
    legend(figure, axes, style.legend_columns)
    return drawing(figure)


def delays(traffic: Traffic, style: Style) -> Drawing | None:
    """Distribution of delays for a small, a middle and a large message, with the fewest explorers."""
    frame = traffic.points("delays")
    frame = frame[frame["explorers"] == traffic.explorers[0]] if traffic.labels else frame[:0]
    if frame.empty:
        return None
    sizes = sorted(frame["size_bytes"].unique())
    chosen = [size for size in DELAYED if size in sizes] or sizes[:3]
    figure, axes = style.axes((3.8, 3.8), len(chosen), sharey=True)
    for axis, size in zip(axes, chosen, strict=True):
        for label in traffic.shown:
            own = frame[(frame["size_bytes"] == size) & (frame["system"] == label)].sort_values("percentile")
            if len(own):
                colour, line, _ = look(label)
                axis.plot(own["seconds"], own["percentile"], color=colour, linestyle=line, label=traffic.title(label))
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value).replace(".00", "")))
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(size_text(int(size)), loc="left")
        axis.set_xlabel(traffic.delay_title)
    axes[0].set_ylabel("% of messages that took no longer")
    legend(figure, axes, style.legend_columns)
    return drawing(figure)


def _goodput_axis(axis: Axes) -> None:
    """Upwards, bytes a second."""
    plain_log(axis.yaxis)
    axis.set_ylabel("goodput, MB/s (log scale)")


def _by_size(axis: Axes, traffic: Traffic, metric: str, baseline: str | None, scale: float) -> list[Mark]:
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    marks = []
    for label in traffic.shown:
        rows = [row for size in sizes if (row := traffic.at(label, metric, size, n, baseline))]
        marks += intervals(axis, label, traffic.title(label), "size_bytes", rows, scale)
    _size_axis(axis, sizes)
    return marks


def _size_axis(axis: Axes, sizes: Iterable[int]) -> None:
    """Sizes of messages, each named."""
    sizes = list(sizes)
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [size_text(size) for size in sizes], rotation=45 if len(sizes) > NAMES_AT_MOST else 0)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("size of a message")


PLOTS = (
    Plot(goodput, Traffic, page="size", paper="goodput", table="ratio"),
    Plot(by_explorers, Traffic, page="explorers"),
    Plot(delays, Traffic, page="latency"),
    Plot(shares, Traffic, page="share", paper="share"),
)
