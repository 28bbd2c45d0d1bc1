"""Tables of the scaling suite, each a function from a setting to a frame of text."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from reports.pairs import REFERENCE
from reports.scaling.view import Scaled
from reports.table import Row
from reports.tables import filled, number, with_interval
from suites.scaling.analysis import COPIES
from suites.scaling.ratios import HEADLINE, SELF
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN


def _measured(scaled: Scaled) -> list[tuple[int, str, Row]]:
    """Number of nodes, system and throughput, in the order of reading."""
    found = ((n, label, scaled.find(label, HEADLINE, nodes=n)) for n in scaled.nodes for label in scaled.labels)
    return [(n, label, row) for n, label, row in found if row is not None]


def on_most(scaled: Scaled) -> pd.DataFrame:
    """On the largest number of nodes, a line a system: what adding nodes gained, and what TianJi gains over it."""
    n, lines = scaled.most, []
    for nodes, label, unique in _measured(scaled):
        if nodes == n > 1 and not label.endswith(COPIES):
            itself = label == f"{REFERENCE}{AGAIN}"
            line = {
                f"On {n} nodes": scaled.title(label),
                "n": str(unique["n"]),
                "Over its own one node": "-" if itself else with_interval(scaled.speedup(label, n), "x"),
                "Of as many copies": with_interval(scaled.share(label, n)),
                "TianJi takes in": with_interval(scaled.over("unique_consumption_ratio", label, n), "x"),
            }
            for kind in KINDS if scaled.trained else ():
                line[f"TianJi is as fast, {kind}"] = scaled.fast(label, n, kind) if label != REFERENCE else "-"
            sent = scaled.find(label, "socket_bytes_per_payload_byte", nodes=n)
            lines.append(line | {"Socket bytes / payload": _fine(sent) if sent else "-"})
    return filled(lines)


def speedups(scaled: Scaled) -> pd.DataFrame:
    """A line a system, a column a number of nodes: how many times its own throughput on one node."""
    lines = []
    for label in scaled.labels:
        rows = {n: scaled.speedup(label, n) for n in scaled.nodes if n > 1}
        if any(rows.values()):
            values = {f"{n} nodes": with_interval(row, "x") for n, row in rows.items()}
            lines.append({"System": scaled.title(label), **values})
    return pd.DataFrame(lines)


def by_nodes(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes and system: throughputs, speed-up, efficiency, share of copies, and TianJi's ratio to it."""
    rates = {
        "Steps sampled/s": "production_steps_per_s",
        "Samples trained on/s": "consumption_samples_per_s",
        "Different ones/s": HEADLINE,
    }
    shares = {"Budget used": "cpu_budget_share", "Learner busy": "learner_busy_share"}
    return filled(
        {
            "Nodes": str(n),
            "System": scaled.title(label),
            "n": str(unique["n"]),
            **scaled.cells(label, rates, nodes=n),
            "Speed-up": with_interval(scaled.speedup(label, n), "x"),
            **scaled.cells(label, {"Efficiency": "unique_consumption_efficiency_ratio"}, nodes=n, baseline=SELF),
            "Share of copies": with_interval(scaled.share(label, n)),
            "TianJi over it": with_interval(scaled.over("unique_consumption_ratio", label, n), "x"),
            **scaled.cells(label, shares, nodes=n),
        }
        for n, label, unique in _measured(scaled)
    )


def times(scaled: Scaled) -> pd.DataFrame:
    """A line a definition, number of nodes and system: seconds to the threshold, and how many times as fast TianJi is."""
    lines = []
    told = {
        "Seconds": "time_to_threshold_s",
        "Core-seconds": "core_seconds_to_threshold_s",
        "Expected running time, s": "expected_running_time_s",
    }
    thresholds = scaled.description.get("thresholds", {})
    for kind in KINDS:
        for n in scaled.nodes:
            for label in scaled.labels:
                row = scaled.row(label, "time_to_threshold_s", nodes=n, threshold_kind=kind)
                if row is not None:
                    lines.append(
                        {
                            "Return": f"{kind} ≥ {thresholds[kind]:g}",
                            "Nodes": str(n),
                            "System": scaled.title(label),
                            "Reached": f"{row['n'] - row['censored']} of {row['n']}",
                            **scaled.cells(label, told, nodes=n, threshold_kind=kind),
                            "TianJi as fast": "-" if label == REFERENCE else scaled.fast(label, n, kind),
                        }
                    )
    return filled(lines)


def laws(scaled: Scaled) -> pd.DataFrame:
    """A line a system: contention and coherence, or why they are not known."""
    frame = scaled.points("scaling-laws")
    fits = {law["system"]: law for law in frame.astype(object).where(frame.notna(), None).to_dict("records")}
    lines = []
    for label in (label for label in scaled.systems if label in fits):
        law = fits[label]
        peak = law["peak_nodes"]
        lines.append(
            {
                "System": scaled.title(label),
                "Blocks": str(law["blocks"]),
                "Contention, sigma": _coefficient(law, "sigma"),
                "Coherence, kappa": _coefficient(law, "kappa"),
                "One node, samples/s": _coefficient(law, "single"),
                "Most at": "-" if law["sigma"] is None else "no number of nodes" if peak is None else f"{number(peak)} nodes",
                "Why not": law["reason"] or "-",
            }
        )
    return filled(lines)


def _coefficient(law: Mapping[Hashable, Any], name: str) -> str:
    """`0.0213 [0.0191, 0.0240]`; coefficients need more places than other numbers."""
    row = {"value": law[name], "ci_low": law[f"{name}_low"], "ci_high": law[f"{name}_high"]}
    return with_interval(row) if name == "single" else _fine(row)


def _fine(row: Row) -> str:
    """With four places: what is to be told from 1, or from 0, is in the third."""
    if row["value"] is None:
        return "-"
    text = f"{row['value']:.4f}"
    return text if row["ci_low"] is None else f"{text} [{row['ci_low']:.4f}, {row['ci_high']:.4f}]"


def traffic(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes and system: what crossed between nodes, and what that was more than the payload."""
    told = {
        "Sent by a node on the wire, kB/s": "wire_sent_bytes_per_s",
        "Link that carries most, kB/s": "wire_busiest_bytes_per_s",
        "Given to sockets by a node, kB/s": "socket_bytes_per_s",
        "Of the launcher, kB/s": "control_bytes_per_s",
    }
    lines = []
    for n, label in ((n, label) for n, label, _ in _measured(scaled) if n > 1):
        overhead = scaled.find(label, "socket_bytes_per_payload_byte", nodes=n)
        kilo = scaled.cells(label, told, scale=1e-3, nodes=n)
        if overhead or any(text != "-" for text in kilo.values()):
            crossed = scaled.find(label, "socket_bytes_per_s", nodes=n)
            nothing = "nothing crosses" if crossed and not crossed["value"] else "payload not counted"
            ratio = nothing if overhead is None else _fine(overhead)
            lines.append({"Nodes": str(n), "System": scaled.title(label), **kilo, "Socket bytes / payload": ratio})
    return filled(lines)


def checks(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes: what each was asked for, and the least and most that was measured before the runs."""
    lines = []
    for n, own in scaled.points("scaling-checks").groupby("nodes", sort=True):
        lines.append(
            {
                "Nodes": str(n),
                "Runs": str(len(own[["system", "session", "block"]].drop_duplicates())),
                "Addresses": str(own["address"].nunique()),
                "Cores asked": _range(own["cores"]),
                "Cores measured": _range(own["cores_measured"]),
                "Link asked, Mbit/s": _range(own["link_bits_per_s"], 1e-6),
                "Link measured, Mbit/s": _range(own["link_measured_bits_per_s"], 1e-6),
                "Round trip, ms": _range(own["round_trip_s"], 1e3),
            }
        )
    return filled(lines)


def _range(column: pd.Series[Any], scale: float = 1.0) -> str:
    known = column.dropna().astype(float) * scale
    if known.empty:
        return "-"
    least, most = (number(float(value)) for value in (known.min(), known.max()))
    return least if least == most else f"{least} to {most}"


def setup(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes and system: seconds until it could begin, and what stands outside the budgets."""
    told = {
        "Nodes set up, s": "testbed_s",
        "Checked, s": "check_s",
        "System set up, s": "setup_s",
        "Daemons, cores in all": "daemons_cores",
        "Held back by the quota, share": "throttled_share",
    }
    return filled(
        {"Nodes": str(n), "System": scaled.title(label), **scaled.cells(label, told, nodes=n)}
        for n, label, _ in _measured(scaled)
    )


TABLES = {
    "most": on_most,
    "speedup": speedups,
    "nodes": by_nodes,
    "times": times,
    "laws": laws,
    "traffic": traffic,
    "checks": checks,
    "setup": setup,
}
