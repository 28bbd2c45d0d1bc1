"""Tables of the transmission suite, each a function from a workload to a frame of text."""

from __future__ import annotations

import pandas as pd

from reports.pairs import REFERENCE
from reports.tables import number, seconds_text, size_text, with_interval
from reports.transmission.view import Traffic
from suites.statistics.summary import AGAIN


def goodput(traffic: Traffic) -> pd.DataFrame:
    """A line a system and number of explorers, a column a size."""
    lines = []
    columns = sorted({size for _, size in traffic.measured})
    for n in traffic.explorers:
        for label in traffic.labels:
            rows = {size: traffic.at(label, "goodput_bytes_per_s", size, n) for size in columns}
            if any(rows.values()):
                values = {size_text(size): number(row["value"] / 1e6) if row else "-" for size, row in rows.items()}
                lines.append({"Explorers": str(n), "System": traffic.title(label), **values})
    return pd.DataFrame(lines)


def ratio(traffic: Traffic) -> pd.DataFrame:
    """A line a number of explorers and size, a column a competitor, and last the noise floor."""
    again = f"{REFERENCE}{AGAIN}"
    columns = {traffic.title(label): label for label in traffic.competitors}
    columns |= {"TianJi again": again} if again in traffic.labels else {}
    return pd.DataFrame(
        {"Explorers": str(n), "Message": size_text(size)}
        | {
            title: with_interval(traffic.at(REFERENCE, "goodput_ratio", size, n, label), "x")
            for title, label in columns.items()
        }
        for n, size in traffic.measured
    )


def room(traffic: Traffic) -> pd.DataFrame:
    """A line a number of explorers and size, a column a competitor: how many times its goodput the ceiling is."""
    lines = []
    for n, size in traffic.measured:
        rooms = {traffic.title(label): traffic.room(label, size, n) for label in traffic.competitors}
        if any(rooms.values()):
            values = {title: with_interval(row, "x") for title, row in rooms.items()}
            lines.append({"Explorers": str(n), "Message": size_text(size), **values})
    return pd.DataFrame(lines)


def cost(traffic: Traffic) -> pd.DataFrame:
    """A line a size and system: delays, CPU, TCP bytes, and goodput as a share of the ceiling."""
    lines = []
    n = traffic.explorers[0]
    for size in traffic.sizes(n):
        for label in traffic.shown:
            moved = traffic.at(label, "goodput_bytes_per_s", size, n)
            if moved is None:
                continue
            delays = {p: traffic.at(label, f"latency_{p}_s", size, n) for p in ("p50", "p95", "p99")}
            cpu, tcp = (traffic.at(label, name, size, n) for name in ("cpu_s_per_gb", "tcp_bytes_per_payload_byte"))
            share, per_cpu = (traffic.at(label, name, size, n, traffic.ceiling) for name in ("goodput_ratio", "cpu_ratio"))
            lines.append(
                {
                    "Message": size_text(size),
                    "System": traffic.title(label),
                    "n": str(moved["n"]),
                    "Messages/s": with_interval(traffic.at(label, "messages_per_s", size, n)),
                    **{f"{traffic.delay_title} {p}": seconds_text(row["value"]) if row else "-" for p, row in delays.items()},
                    "CPU s/GB": number(cpu["value"]) if cpu else "-",
                    "times the ceiling's": number(per_cpu["value"]) if per_cpu else "-",
                    "TCP bytes / payload": f"{tcp['value']:.4f}" if tcp else "-",
                    "Goodput, share of ceiling": with_interval(share),
                }
            )
    return pd.DataFrame(lines)


TABLES = {"goodput": goodput, "ratio": ratio, "room": room, "cost": cost}
