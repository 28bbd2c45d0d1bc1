"""Tables of the transmission suite, each a function from a workload to a DataFrame of text."""

from __future__ import annotations

import pandas as pd

from reports.dataset import REFERENCE, Dataset
from reports.tables import number, with_interval
from reports.transmission.lookup import Traffic, room, seconds_text, size_text
from suites.statistics.summary import AGAIN


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
                f"{traffic.delay_title()} {p}": seconds_text(row["value"])
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
