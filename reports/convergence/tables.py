"""Tables of the convergence suite, each a function from a workload to a DataFrame of text."""

from __future__ import annotations

import pandas as pd

from reports import bounds
from reports.dataset import REFERENCE, SAME_CODE, SYNCHRONOUS, Dataset
from reports.tables import with_interval
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

QUANTITIES = ("targets", "advantages", "loss", "gradient", "weights")


def times(data: Dataset, workload: str, first: str, second: str, kind: str) -> bounds.Told:
    """How many times as fast the first reaches its threshold, as it may be told."""
    return bounds.told(lambda metric: data.find(workload, first, metric, kind, second))


def thresholds(data: Dataset, workload: str) -> pd.DataFrame:
    """Time, steps and core-seconds to threshold, a line a system and definition."""
    lines = []
    for kind in KINDS:
        target = data.workloads[workload]["thresholds"][kind]
        for label in data.systems:
            seconds = data.find(workload, label, "time_to_threshold_s", kind)
            if seconds is None:
                continue
            lines.append(
                {
                    "Return": f"{kind} ≥ {target:g}",
                    "System": data.titles[label],
                    "n": str(seconds["n"]),
                    "Reached": f"{seconds['n'] - seconds['censored']} of {seconds['n']}",
                    "Seconds": with_interval(seconds),
                    "Steps": with_interval(data.find(workload, label, "steps_to_threshold", kind)),
                    "Core-seconds": with_interval(data.find(workload, label, "core_seconds_to_threshold_s", kind)),
                    "Expected running time, s": with_interval(data.find(workload, label, "expected_running_time_s", kind)),
                    "Restricted mean, s": _restricted(data, workload, label, kind),
                }
            )
    return pd.DataFrame(lines)


def _restricted(data: Dataset, workload: str, label: str, kind: str) -> str:
    mean, horizon = (data.find(workload, label, f"restricted_{name}_s", kind) for name in ("mean_time", "horizon"))
    return with_interval(mean) if mean is None or horizon is None else f"{with_interval(mean)} of {with_interval(horizon)}"


def ratios(data: Dataset, workload: str) -> pd.DataFrame:
    """How many times faster, in all and split into engineering (same-code synchronous / peer) and discipline."""
    lines = []
    peers = [label for label in data.systems if label not in (REFERENCE, SYNCHRONOUS) and not label.endswith(AGAIN)]
    comparisons = [("in all", REFERENCE, peer) for peer in peers]
    comparisons += [("discipline" if peer in SAME_CODE else "engineering", SYNCHRONOUS, peer) for peer in peers]
    comparisons += [("discipline", REFERENCE, SYNCHRONOUS)]
    comparisons += [("noise floor", label.removesuffix(AGAIN), label) for label in data.systems if label.endswith(AGAIN)]
    for part, first, second in comparisons:
        kinds = [data.find(workload, first, "time_to_threshold_ratio", kind, second) for kind in KINDS]
        if all(row is None for row in kinds):
            continue
        counts = sorted({row["n"] + row["censored"] for row in kinds if row is not None})
        lines.append(
            {
                "Part": part,
                "Faster": data.titles[first],
                "than": data.titles[second],
                "Blocks": "/".join(map(str, counts)),
                "Evaluated return": times(data, workload, first, second, "evaluated").words,
                "Training return": times(data, workload, first, second, "training").words,
                "Steps to evaluated": bounds.counted(
                    data.find(workload, first, "steps_to_threshold_ratio", "evaluated", second)
                ),
                "Production": with_interval(data.find(workload, first, "production_ratio", None, second), "x"),
            }
        )
    return pd.DataFrame(lines)


def resources(data: Dataset, workload: str) -> pd.DataFrame:
    """What each system did with its cores, a line a system."""
    lines = []
    for label in data.systems:
        used = data.find(workload, label, "peak_rss_bytes") or data.find(workload, label, "production_steps_per_s")
        if used is None:
            continue
        lines.append(
            {
                "System": data.titles[label],
                "n": str(used["n"]),
                "Steps/s": with_interval(data.find(workload, label, "production_steps_per_s")),
                "Updates": with_interval(data.find(workload, label, "optimizer_steps")),
                "CPU, s": with_interval(data.find(workload, label, "cpu_s")),
                "Peak memory, MiB": with_interval(data.find(workload, label, "peak_rss_bytes"), scale=2**-20),
                "Set-up, s": with_interval(data.find(workload, label, "setup_s")),
                "Final mean of 100": with_interval(data.find(workload, label, "final_training_return")),
                "As it says itself": with_interval(data.find(workload, label, "own_final_return")),
                "Overlap bound": with_interval(data.find(workload, label, "overlap_bound_ratio"), "x"),
            }
        )
    return pd.DataFrame(lines)


def certificate(data: Dataset, workload: str) -> pd.DataFrame:
    """Which quantities equal the reference to 1e-5, a line a system."""
    rows = data.series["certificate"]
    lines = []
    for label in data.systems:
        own = rows[(rows["system"] == label) & (rows["workload"] == workload)]
        failed = rows[(rows["system"] == label) & rows["reason"].notna()]
        if own.empty and failed.empty:
            continue
        line = {"System": data.titles[label]}
        for quantity in QUANTITIES:
            found = own[own["quantity"] == quantity]
            if found.empty:
                line[quantity.capitalize()] = "-" if failed.empty else "not shown"
                continue
            one = found.iloc[0]
            line[quantity.capitalize()] = (
                "not shown" if pd.isna(one["error"]) else f"{'equal' if one['equal'] else 'differs'} ({one['error']:.0e})"
            )
        lines.append(line)
    frame = pd.DataFrame(lines)
    return frame if frame.empty else frame.loc[:, (frame != "-").any()]


def tables(data: Dataset) -> dict[str, pd.DataFrame]:
    """Every table of the suite by file name."""
    made: dict[str, pd.DataFrame] = {}
    for workload in sorted(data.workloads):
        for name, make in (
            ("threshold", thresholds),
            ("ratios", ratios),
            ("resources", resources),
            ("certificate", certificate),
        ):
            frame = make(data, workload)
            if not frame.empty:
                made[f"{workload}-{name}"] = frame
    return made
