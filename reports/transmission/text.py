"""What the page says in words of the transmission suite: captions, findings, headlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.dataset import REFERENCE, Dataset
from reports.tables import with_interval
from reports.transmission.lookup import Traffic, room, size_text

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


def headlines(data: Dataset) -> list[str]:
    """One sentence for each workload: how near TianJi is to what the hardware can do, and where another system is nearest."""
    lines = []
    for workload in sorted(data.traffic):
        traffic = Traffic(data, workload)
        if rows := _ratios(traffic, traffic.ceiling):
            least, most = min(rows, key=_value), max(rows, key=_value)
            lines.append(
                f"{traffic.description['title']}: TianJi reaches {with_interval(least)} ({_where(least)}) to "
                f"{with_interval(most)} ({_where(most)}) of what {data.titles[f'transmission:{traffic.ceiling}']} can do "
                f"(n = {least['n']} blocks){_nearest(traffic)}."
            )
    return lines


def _nearest(traffic: Traffic) -> str:
    """The least of its ratios to other systems, whoever that is."""
    found = [(row, label) for label in traffic.competitors() for row in _ratios(traffic, label)]
    if not found:
        return ""
    row, label = min(found, key=lambda one: _value(one[0]))
    return f"; its lowest ratio to another system is {with_interval(row, 'x')} ({traffic.title(label)}, {_where(row)})"


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
