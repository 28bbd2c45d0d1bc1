"""What figures of the transmission suite are made of, on a page and in a paper alike; each returns what it drew."""

from __future__ import annotations

from matplotlib.axes import Axes

from reports.marks import Mark, intervals, level, plain_log, size_axis
from reports.transmission.lookup import Traffic


def goodput_axis(axis: Axes) -> None:
    """Upwards, bytes a second."""
    plain_log(axis.yaxis)
    axis.set_ylabel("goodput, MB/s (log scale)")


def goodput(axis: Axes, traffic: Traffic) -> list[Mark]:
    """Goodput against size, with the fewest explorers; ceilings without marks."""
    drawn = _by_size(axis, traffic, "goodput_bytes_per_s", None, 1e-6)
    goodput_axis(axis)
    return drawn


def shares(axis: Axes, traffic: Traffic) -> list[Mark]:
    """Goodput as a share of the ceiling, against size."""
    drawn = _by_size(axis, traffic, "goodput_ratio", traffic.ceiling, 100)
    level(axis, 100)
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"% of {traffic.data.titles[f'transmission:{traffic.ceiling}']}")
    return drawn


def _by_size(axis: Axes, traffic: Traffic, metric: str, baseline: str | None, scale: float) -> list[Mark]:
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    drawn = []
    for label in traffic.shown:
        rows = [row for size in sizes if (row := traffic.find(label, metric, size, n, baseline))]
        drawn += intervals(axis, label, traffic.title(label), "size_bytes", rows, scale)
    size_axis(axis, sizes)
    return drawn
