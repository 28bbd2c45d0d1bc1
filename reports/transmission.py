"""What a report says of the transmission suite: figures, tables, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.dataset import AGAIN, REFERENCE, Dataset
from reports.tables import number, with_interval

CEILINGS = ("memcpy", "raw-tcp", "libzmq")
LOOKS: dict[str, tuple[str, str, str]] = {
    "tianji": ("#c2410c", "-", "o"),
    "tianji-curve": ("#f59e0b", "-", "D"),
    "xingtian": ("#7e22ce", "-", "s"),
    "ray-store": ("#0369a1", "-", "^"),
    "mp-queue": ("#15803d", "-", "v"),
    "pyzmq": ("#be185d", "-", "P"),
    "memcpy": ("#111111", "--", ""),
    "raw-tcp": ("#525252", "-.", ""),
    "libzmq": ("#8a8a8a", ":", ""),
}
"""Colour, line and marker of each pipe: told apart in grey by the latter two."""
OTHER = ("#a16207", "-", "x")
ORDER = tuple(LOOKS)

CAPTIONS = {
    "size": "Goodput against the size of a message, one explorer; both axes are logarithmic. Broken lines are ceilings: what "
    "memory, TCP and libzmq can do in the same run. Bars are 95 % intervals over blocks.",
    "explorers": "Goodput against the number of explorers. Broken lines are ceilings; bars are 95 % intervals over blocks.",
    "latency": "Share of messages that took no longer than so long; medians over blocks of each percentile.",
    "share": "Goodput as a share of the ceiling in the same block, one explorer; bars are 95 % intervals.",
}
TABLE_TEXTS = {
    "goodput": ("Goodput, MB/s", "Payload that the reader has read, per second; interquartile means over blocks."),
    "ratio": (
        "How many times TianJi's goodput is theirs",
        "Geometric means of ratios within blocks, 95 % intervals in brackets. The last column is the noise floor: TianJi "
        "against itself.",
    ),
    "room": (
        "What the ceiling leaves",
        "How many times theirs the ceiling's goodput is: the most that any pipe could reach over them on this machine.",
    ),
    "cost": (
        "Delay, cost and share of the ceiling",
        "One explorer. The ceiling's rows show what there is to reach. CPU seconds are of all processes, kernel included; a "
        "ceiling that watches memory without rest uses all its cores all the time. TCP bytes are those handed to TCP, either "
        "direction, by the kernel's count; bytes through unix sockets and pipes are counted by nobody.",
    ),
}


def size_text(size_bytes: int) -> str:
    """`64 KiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes} B"


def seconds_text(seconds: float) -> str:
    """Three digits in the unit that fits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{number(seconds / unit)} {name}"
    return f"{number(seconds / 1e-9)} ns"


class Traffic:
    """One workload of the suite, looked up."""

    def __init__(self, data: Dataset, workload: str) -> None:
        self.data, self.id, self.description = data, workload, data.traffic[workload]
        rows = [r for r in data.rows if r["suite"] == "transmission" and r["workload"] == workload]
        self._rows = {(r["system"], r["metric"], r["size_bytes"], r["explorers"], r["baseline"]): r for r in rows}
        systems = {r["system"] for r in rows}
        self.labels = sorted(systems, key=lambda label: (ORDER.index(label) if label in ORDER else len(ORDER), label))
        self.shown = [label for label in self.labels if not label.endswith(AGAIN)]
        self.explorers = sorted({r["explorers"] for r in rows})
        self.ceiling: str = self.description["ceiling"]

    def sizes(self, explorers: int) -> list[int]:
        """Sizes that were measured with so many explorers."""
        return sorted({size for _, _, size, n, _ in self._rows if n == explorers})

    def find(self, system: str, metric: str, size: int, explorers: int, baseline: str | None = None) -> dict[str, Any] | None:
        """The row of this scalar, or None."""
        row = self._rows.get((system, metric, size, explorers, baseline))
        return None if row is None or row["value"] is None else row

    def delays(self, explorers: int) -> pd.DataFrame:
        """Percentiles of delays with so many explorers."""
        frame = self.data.series["delays"]
        return frame[(frame["workload"] == self.id) & (frame["explorers"] == explorers)]

    def title(self, label: str) -> str:
        """As a reader should see it; ceilings say that they are."""
        title = self.data.titles[f"transmission:{label}"]
        return f"{title} (ceiling)" if label in CEILINGS else title

    def competitors(self) -> list[str]:
        """Systems that TianJi is compared with."""
        return [label for label in self.shown if label not in CEILINGS and not label.startswith(REFERENCE)]


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


def _line(axis: Axes, label: str, title: str, rows: Sequence[dict[str, Any]], x: str, scale: float) -> None:
    colour, line, marker = LOOKS.get(label, OTHER)
    places = [row[x] for row in rows]
    values = np.array([row["value"] for row in rows]) * scale
    axis.plot(places, values, color=colour, linestyle=line, marker=marker or None, markersize=4, label=title)
    bounded = [row for row in rows if row["ci_low"] is not None]
    if bounded:
        axis.vlines(
            [row[x] for row in bounded],
            [row["ci_low"] * scale for row in bounded],
            [row["ci_high"] * scale for row in bounded],
            color=colour,
            linewidth=2.5,
            alpha=0.35,
        )


def _size_axis(axis: Axes, sizes: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [size_text(size) for size in sizes], rotation=30 if len(sizes) > 6 else 0)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("size of a message")


def _goodput_axis(axis: Axes) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_ylabel("goodput, MB/s")


def goodput_by_size(traffic: Traffic) -> Figure:
    """Goodput against size, with the fewest explorers; ceilings drawn."""
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 4.6), layout="constrained")
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    for label in reversed(traffic.shown):
        rows = [row for size in sizes if (row := traffic.find(label, "goodput_bytes_per_s", size, n))]
        if rows:
            _line(axis, label, traffic.title(label), rows, "size_bytes", 1e-6)
    _size_axis(axis, sizes)
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
            if rows:
                _line(axis, label, traffic.title(label), rows, "explorers", 1e-6)
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
                colour, line, _ = LOOKS.get(label, OTHER)
                axis.plot(own["seconds"], own["percentile"], color=colour, linestyle=line, label=traffic.title(label))
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value).replace(".00", "")))
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(size_text(int(size)), loc="left")
        axis.set_xlabel(delay_title(traffic))
    axes[0][0].set_ylabel("% of messages that took no longer")
    figure.legend(*_legend(axes[0][0]), loc="outside upper center", ncols=4)
    return figure


def delay_title(traffic: Traffic) -> str:
    """What the delays of a workload are."""
    return "round trip" if traffic.description["direction"] == "samples" else "until all have the vector"


def shares(traffic: Traffic) -> Figure:
    """Share of the ceiling, grouped by size."""
    n = traffic.explorers[0]
    sizes = traffic.sizes(n)
    drawn = [label for label in traffic.shown if label != traffic.ceiling]
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 3.8), layout="constrained")
    width = 0.84 / max(1, len(drawn))
    for place, label in enumerate(drawn):
        colour, _, _ = LOOKS.get(label, OTHER)
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
                axis.vlines(at, row["ci_low"] * 100, row["ci_high"] * 100, color="#111", linewidth=0.9)
    axis.axhline(100, color="#111", linewidth=0.8, linestyle=(0, (4, 3)))
    axis.set_xticks(range(len(sizes)), [size_text(size) for size in sizes])
    axis.set_xlabel("size of a message")
    axis.set_ylabel(f"% of {traffic.data.titles[f'transmission:{traffic.ceiling}']}")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table of the suite by file name."""
    made: dict[str, pd.DataFrame] = {}
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if not traffic.labels:
            continue
        for name, make in (("goodput", goodput_table), ("ratio", ratio_table), ("room", room_table), ("cost", cost_table)):
            frame = make(traffic)
            if not frame.empty:
                made[f"{workload}-{name}"] = frame
    return made


def goodput_table(traffic: Traffic) -> pd.DataFrame:
    """A line a system and number of explorers, a column a size."""
    lines = []
    columns = sorted({size for n in traffic.explorers for size in traffic.sizes(n)})
    for n in traffic.explorers:
        for label in traffic.labels:
            rows = {size: traffic.find(label, "goodput_bytes_per_s", size, n) for size in columns}
            if any(rows.values()):
                title = traffic.title(label)
                values = {size_text(size): number(row["value"] / 1e6) if row else "-" for size, row in rows.items()}
                lines.append({"Explorers": str(n), "System": title, **values})
    return pd.DataFrame(lines)


def ratio_table(traffic: Traffic) -> pd.DataFrame:
    """A line a number of explorers and size, a column a competitor, and last the noise floor."""
    lines = []
    for n in traffic.explorers:
        for size in traffic.sizes(n):
            line = {"Explorers": str(n), "Message": size_text(size)}
            for label in (*traffic.competitors(), f"{REFERENCE}{AGAIN}"):
                if label in traffic.labels:
                    row = traffic.find(REFERENCE, "goodput_ratio", size, n, label)
                    title = "TianJi again" if label.endswith(AGAIN) else traffic.title(label)
                    line[title] = with_interval(row, "x")
            lines.append(line)
    return pd.DataFrame(lines)


def room_table(traffic: Traffic) -> pd.DataFrame:
    """A line a number of explorers and size, a column a competitor: how many times its goodput the ceiling is."""
    lines = []
    for n in traffic.explorers:
        for size in traffic.sizes(n):
            rooms = {label: room(traffic, label, size, n) for label in traffic.competitors()}
            if any(rooms.values()):
                values = {traffic.title(label): with_interval(row, "x") for label, row in rooms.items()}
                lines.append({"Explorers": str(n), "Message": size_text(size), **values})
    return pd.DataFrame(lines)


def room(traffic: Traffic, label: str, size: int, explorers: int) -> dict[str, Any] | None:
    """The ceiling's goodput over a pipe's: the inverse of its share, interval and all."""
    share = traffic.find(label, "goodput_ratio", size, explorers, traffic.ceiling)
    if share is None:
        return None
    low, high = share["ci_high"], share["ci_low"]
    return share | {
        "value": 1 / share["value"],
        "ci_low": None if low is None else 1 / low,
        "ci_high": None if high is None else 1 / high,
    }


def cost_table(traffic: Traffic) -> pd.DataFrame:
    """A line a size and system: delays, CPU, TCP bytes, and goodput as a share of the ceiling."""
    lines = []
    n = traffic.explorers[0]
    for size in traffic.sizes(n):
        for label in traffic.shown:
            goodput = traffic.find(label, "goodput_bytes_per_s", size, n)
            if goodput is None:
                continue
            delays = {
                f"{delay_title(traffic)} {p}": seconds_text(row["value"])
                if (row := traffic.find(label, f"latency_{p}_s", size, n))
                else "-"
                for p in ("p50", "p95", "p99")
            }
            cpu, tcp = (traffic.find(label, name, size, n) for name in ("cpu_s_per_gb", "tcp_bytes_per_payload_byte"))
            share = traffic.find(label, "goodput_ratio", size, n, traffic.ceiling)
            per_cpu = traffic.find(label, "cpu_ratio", size, n, traffic.ceiling)
            lines.append(
                {
                    "Message": size_text(size),
                    "System": traffic.title(label),
                    "n": str(goodput["n"]),
                    "Messages/s": with_interval(traffic.find(label, "messages_per_s", size, n)),
                    **delays,
                    "CPU s/GB": number(cpu["value"]) if cpu else "-",
                    "times the ceiling's": number(per_cpu["value"]) if per_cpu else "-",
                    "TCP bytes / payload": f"{tcp['value']:.4f}" if tcp else "-",
                    "Goodput, share of ceiling": with_interval(share) if share else "-",
                }
            )
    return pd.DataFrame(lines)


def headlines(data: Dataset) -> list[str]:
    """One sentence for each workload: how near TianJi is to what the hardware can do."""
    lines = []
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if rows := _ratios(traffic, traffic.ceiling):
            least, most = min(rows, key=_value), max(rows, key=_value)
            lines.append(
                f"{traffic.description['title']}: TianJi reaches {with_interval(least)} ({_where(least)}) to "
                f"{with_interval(most)} ({_where(most)}) of what {data.titles[f'transmission:{traffic.ceiling}']} can do "
                f"(n = {least['n']} blocks)."
            )
    return lines


def findings(data: Dataset, workload: str) -> list[str]:
    """One sentence for each competitor of a workload, with what the ceiling would allow where the ratio is least."""
    traffic, lines = Traffic(data, workload), []
    for label in traffic.competitors():
        if rows := _ratios(traffic, label):
            least, most = min(rows, key=_value), max(rows, key=_value)
            left = room(traffic, label, least["size_bytes"], least["explorers"])
            bound = f", where the ceiling itself is {with_interval(left, 'x')}" if left else ""
            lines.append(
                f"TianJi's goodput is {with_interval(least, 'x')} ({_where(least)}{bound}) to "
                f"{with_interval(most, 'x')} ({_where(most)}) that of {traffic.title(label)} (n = {least['n']} blocks)."
            )
    return lines


def _ratios(traffic: Traffic, baseline: str) -> list[dict[str, Any]]:
    """TianJi's goodput over another's, for all sizes and numbers of explorers."""
    found = [
        traffic.find(REFERENCE, "goodput_ratio", size, n, baseline) for n in traffic.explorers for size in traffic.sizes(n)
    ]
    return [row for row in found if row is not None]


def _value(row: dict[str, Any]) -> float:
    return float(row["value"])


def _where(row: dict[str, Any]) -> str:
    n = row["explorers"]
    return f"{size_text(row['size_bytes'])}, {n} explorer{'s' * (n > 1)}"


def text(traffic: dict[str, Any], extents: Sequence[dict[str, Any]]) -> str:
    """What a reader needs to know of a workload."""
    who = (
        "Each explorer sends messages from a copy of its own; the learner reads every byte, and the sum of all is checked."
        if traffic["direction"] == "samples"
        else "The learner sends the next vector when every explorer has the last one in memory of its own."
    )
    where = "one host"
    if traffic["testbed"] == "netns":
        rate = traffic["link_bits_per_s"]
        speed = "as fast as the machine" if rate is None else f"shaped to {rate / 1e9:g} Gbit/s either way"
        where = f"two emulated hosts, network namespaces of one machine joined by a veth, {speed}"
    counts = sorted({n for extent in extents for n in extent["explorers"]})
    return f"{who} On {where}. Explorers: {', '.join(map(str, counts))}. Same number of messages in flight in every pipe."
