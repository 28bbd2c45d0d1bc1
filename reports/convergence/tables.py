"""Tables of the convergence suite, each a function from a workload to a frame of text."""

from __future__ import annotations

import pandas as pd

from reports import bounds
from reports.convergence.view import Trained
from reports.pairs import REFERENCE, SAME_CODE, SYNCHRONOUS, with_themselves
from reports.tables import filled, with_interval
from suites.statistics.crossings import KINDS

QUANTITIES = ("targets", "advantages", "loss", "gradient", "weights")
"""Of the certificate."""


def thresholds(view: Trained) -> pd.DataFrame:
    """Time, steps and core-seconds to threshold, a line a system and definition."""
    lines = []
    for kind in KINDS:
        for label in view.labels:
            seconds = view.row(label, "time_to_threshold_s", threshold_kind=kind)
            if seconds is None:
                continue
            told = {
                "Seconds": "time_to_threshold_s",
                "Steps": "steps_to_threshold",
                "Core-seconds": "core_seconds_to_threshold_s",
                "Expected running time, s": "expected_running_time_s",
            }
            lines.append(
                {
                    "Return": f"{kind} ≥ {view.description['thresholds'][kind]:g}",
                    "System": view.title(label),
                    "n": str(seconds["n"]),
                    "Reached": f"{seconds['n'] - seconds['censored']} of {seconds['n']}",
                    **view.cells(label, told, threshold_kind=kind),
                    "Restricted mean, s": _restricted(view, label, kind),
                }
            )
    return pd.DataFrame(lines)


def _restricted(view: Trained, label: str, kind: str) -> str:
    names = ("restricted_mean_time_s", "restricted_horizon_s")
    mean, horizon = (view.row(label, name, threshold_kind=kind) for name in names)
    return with_interval(mean) if mean is None or horizon is None else f"{with_interval(mean)} of {with_interval(horizon)}"


def ratios(view: Trained) -> pd.DataFrame:
    """How many times faster, in all and split into engineering (same-code synchronous / peer) and discipline."""
    peers = [label for label in view.peers if label != SYNCHRONOUS]
    pairs = [("in all", REFERENCE, peer) for peer in peers]
    pairs += [("discipline" if peer in SAME_CODE else "engineering", SYNCHRONOUS, peer) for peer in peers]
    pairs += [("discipline", REFERENCE, SYNCHRONOUS)]
    pairs += [("noise floor", *pair) for pair in with_themselves(view.labels)]
    return pd.DataFrame(
        {
            "Part": part,
            "Faster": view.title(first),
            "than": view.title(second),
            "Blocks": blocks,
            "Evaluated return": view.fast(first, second, "evaluated").words,
            "Training return": view.fast(first, second, "training").words,
            "Steps to evaluated": bounds.counted(
                view.row(first, "steps_to_threshold_ratio", threshold_kind="evaluated", baseline=second)
            ),
            **view.cells(first, {"Production": "production_ratio"}, "x", baseline=second),
        }
        for part, first, second in pairs
        if (blocks := view.blocks((first, second)))
    )


def resources(view: Trained) -> pd.DataFrame:
    """What each system did with its cores, a line a system."""
    lines = []
    for label in view.labels:
        used = view.row(label, "peak_rss_bytes") or view.row(label, "production_steps_per_s")
        if used is not None:
            told = {"Steps/s": "production_steps_per_s", "Updates": "optimizer_steps", "CPU, s": "cpu_s"}
            ended = {"Final mean of 100": "final_training_return", "As it says itself": "own_final_return"}
            lines.append(
                {
                    "System": view.title(label),
                    "n": str(used["n"]),
                    **view.cells(label, told),
                    **view.cells(label, {"Peak memory, MiB": "peak_rss_bytes"}, scale=2**-20),
                    **view.cells(label, {"Set-up, s": "setup_s", **ended}),
                    **view.cells(label, {"Overlap bound": "overlap_bound_ratio"}, "x"),
                }
            )
    return pd.DataFrame(lines)


def certificate(view: Trained) -> pd.DataFrame:
    """Which quantities equal the reference to 1e-5, a line a system."""
    rows = view.data.series["certificate"]
    lines = []
    for label in view.labels:
        own = rows[(rows["system"] == label) & (rows["workload"] == view.workload)]
        failed = rows[(rows["system"] == label) & rows["reason"].notna()]
        if not (own.empty and failed.empty):
            missing = "-" if failed.empty else "not shown"
            told = {quantity: _equal(own[own["quantity"] == quantity], missing) for quantity in QUANTITIES}
            lines.append({"System": view.title(label)} | {name.capitalize(): text for name, text in told.items()})
    return filled(lines)


def _equal(found: pd.DataFrame, missing: str) -> str:
    """What is known of one quantity."""
    if found.empty:
        return missing
    one = found.iloc[0]
    return "not shown" if pd.isna(one["error"]) else f"{'equal' if one['equal'] else 'differs'} ({one['error']:.0e})"


TABLES = {"threshold": thresholds, "ratios": ratios, "resources": resources, "certificate": certificate}
