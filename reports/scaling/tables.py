"""Tables of the scaling suite, each a function from a setting to a DataFrame of text."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports import bounds
from reports.dataset import REFERENCE, Dataset
from reports.scaling.lookup import Scaled, settings
from reports.tables import number, with_interval
from suites.scaling.analysis import COPIES
from suites.scaling.ratios import HEADLINE, SELF
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table of the suite by file name."""
    made: dict[str, pd.DataFrame] = {}
    makers = (
        ("most", on_most),
        ("speedup", speedups),
        ("nodes", by_nodes),
        ("times", times),
        ("laws", laws),
        ("traffic", traffic),
        ("checks", checks),
        ("setup", setup),
    )
    for setting in settings(data):
        scaled = Scaled(data, setting)
        for name, make in makers:
            frame = make(scaled)
            if not frame.empty:
                made[f"{scaled.name}-{name}"] = frame
    return made


def _nodes_of(scaled: Scaled) -> list[tuple[int, str]]:
    """(nodes, system) of which there is a throughput, in the order of reading."""
    return [(n, label) for n in scaled.nodes for label in scaled.labels if scaled.find(label, HEADLINE, n)]


def on_most(scaled: Scaled) -> pd.DataFrame:
    """On the largest number of nodes, a line a system: what adding nodes gained, and what TianJi gains over it."""
    n = scaled.most
    lines = []
    for label in (label for label in scaled.labels if n > 1 and not label.endswith(COPIES) and scaled.find(label, HEADLINE, n)):
        again = label == f"{REFERENCE}{AGAIN}"
        sent = scaled.find(label, "socket_bytes_per_payload_byte", n)
        line = {
            f"On {n} nodes": scaled.title(label),
            "n": str((scaled.find(label, HEADLINE, n) or {"n": 0})["n"]),
            "Over its own one node": with_interval(scaled.speedup(label, n), "x"),
            "Of as many copies": with_interval(scaled.share(label, n)),
            "TianJi takes in": with_interval(scaled.over("unique_consumption_ratio", label, n), "x"),
        }
        for kind in KINDS if scaled.trained else ():
            line[f"TianJi is as fast, {kind}"] = times_as_fast(scaled, label, n, kind) if label != REFERENCE else "-"
        line["Socket bytes / payload"] = _fine(sent) if sent else "-"
        lines.append(line if not again else line | {"Over its own one node": "-"})
    return _filled(lines)


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
    lines = []
    for n, label in _nodes_of(scaled):
        unique = scaled.find(label, HEADLINE, n)
        efficiency = scaled.find(label, "unique_consumption_efficiency_ratio", n, SELF)
        lines.append(
            {
                "Nodes": str(n),
                "System": scaled.title(label),
                "n": str(unique["n"]) if unique else "-",
                "Steps sampled/s": with_interval(scaled.find(label, "production_steps_per_s", n)),
                "Samples trained on/s": with_interval(scaled.find(label, "consumption_samples_per_s", n)),
                "Different ones/s": with_interval(unique),
                "Speed-up": with_interval(scaled.speedup(label, n), "x"),
                "Efficiency": with_interval(efficiency),
                "Share of copies": with_interval(scaled.share(label, n)),
                "TianJi over it": "-" if label == REFERENCE else with_interval(_over(scaled, label, n), "x"),
                "Budget used": with_interval(scaled.find(label, "cpu_budget_share", n)),
                "Learner busy": with_interval(scaled.find(label, "learner_busy_share", n)),
            }
        )
    return _filled(lines)


def _over(scaled: Scaled, label: str, nodes: int) -> dict[str, Any] | None:
    return scaled.over("unique_consumption_ratio", label, nodes)


def times(scaled: Scaled) -> pd.DataFrame:
    """A line a definition, number of nodes and system: seconds to the threshold, and how many times as fast TianJi is."""
    lines = []
    thresholds = scaled.description["workload"].get("thresholds", {})
    for kind in KINDS:
        for n in scaled.nodes:
            for label in scaled.labels:
                row = scaled.row(label, "time_to_threshold_s", n, kind)
                if row is None:
                    continue
                lines.append(
                    {
                        "Return": f"{kind} ≥ {thresholds[kind]:g}",
                        "Nodes": str(n),
                        "System": scaled.title(label),
                        "Reached": f"{row['n'] - row['censored']} of {row['n']}",
                        "Seconds": with_interval(row),
                        "Core-seconds": with_interval(scaled.row(label, "core_seconds_to_threshold_s", n, kind)),
                        "Expected running time, s": with_interval(scaled.row(label, "expected_running_time_s", n, kind)),
                        "TianJi as fast": "-" if label == REFERENCE else times_as_fast(scaled, label, n, kind),
                    }
                )
    return _filled(lines)


def times_as_fast(scaled: Scaled, label: str, nodes: int, kind: str) -> str:
    """TianJi's ratio of times to another system; a one-sided bound where one of them did not always get there."""
    return bounds.told(lambda metric: scaled.over(metric, label, nodes, kind)).words


def laws(scaled: Scaled) -> pd.DataFrame:
    """A line a system: contention and coherence, or why they are not known."""
    fits = scaled.points("scaling-laws").set_index("system")
    lines = []
    for label in scaled.systems:
        if label not in fits.index:
            continue
        law = fits.loc[label].astype(object).where(fits.loc[label].notna(), None)
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
    return _filled(lines)


def _coefficient(law: Any, name: str) -> str:
    """`0.0213 [0.0191, 0.0240]`; coefficients need more places than other numbers."""
    if law[name] is None:
        return "-"
    one = number if name == "single" else "{:.4f}".format
    text = one(law[name])
    return text if law[f"{name}_low"] is None else f"{text} [{one(law[f'{name}_low'])}, {one(law[f'{name}_high'])}]"


def traffic(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes and system: what crossed between nodes, and what that was more than the payload."""
    lines = []
    for n, label in _nodes_of(scaled):
        if n == 1:
            continue
        overhead = scaled.find(label, "socket_bytes_per_payload_byte", n)
        kilo = {
            title: with_interval(scaled.find(label, metric, n), scale=1e-3)
            for title, metric in (
                ("Sent by a node on the wire, kB/s", "wire_sent_bytes_per_s"),
                ("Link that carries most, kB/s", "wire_busiest_bytes_per_s"),
                ("Given to sockets by a node, kB/s", "socket_bytes_per_s"),
                ("Of the launcher, kB/s", "control_bytes_per_s"),
            )
        }
        if overhead or any(text != "-" for text in kilo.values()):
            crossed = scaled.find(label, "socket_bytes_per_s", n)
            nothing = "nothing crosses" if crossed and not crossed["value"] else "payload not counted"
            ratio = nothing if overhead is None else _fine(overhead)
            lines.append({"Nodes": str(n), "System": scaled.title(label), **kilo, "Socket bytes / payload": ratio})
    return _filled(lines)


def _fine(row: dict[str, Any]) -> str:
    """With four places: what is to be told from 1 is in the third."""
    text = f"{row['value']:.4f}"
    return text if row["ci_low"] is None else f"{text} [{row['ci_low']:.4f}, {row['ci_high']:.4f}]"


def checks(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes: what each was asked for, and the least and most that was measured before the runs."""
    frame = scaled.points("scaling-checks")
    lines = []
    for n in scaled.nodes:
        own = frame[frame["nodes"] == n]
        if own.empty:
            continue
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
    return _filled(lines)


def _range(column: pd.Series[Any], scale: float = 1.0) -> str:
    known = column.dropna().astype(float) * scale
    if known.empty:
        return "-"
    least, most = (number(float(value)) for value in (known.min(), known.max()))
    return least if least == most else f"{least} to {most}"


def setup(scaled: Scaled) -> pd.DataFrame:
    """A line a number of nodes and system: seconds until it could begin, and what stands outside the budgets."""
    lines = []
    for n, label in _nodes_of(scaled):
        lines.append(
            {
                "Nodes": str(n),
                "System": scaled.title(label),
                "Nodes set up, s": with_interval(scaled.find(label, "testbed_s", n)),
                "Checked, s": with_interval(scaled.find(label, "check_s", n)),
                "System set up, s": with_interval(scaled.find(label, "setup_s", n)),
                "Daemons, cores in all": with_interval(scaled.find(label, "daemons_cores", n)),
                "Held back by the quota, share": with_interval(scaled.find(label, "throttled_share", n)),
            }
        )
    return _filled(lines)


def _filled(lines: list[dict[str, str]]) -> pd.DataFrame:
    """Without the columns that say nothing anywhere."""
    frame = pd.DataFrame(lines)
    return frame if frame.empty else frame.loc[:, (frame != "-").any()]
