"""Analysis of transmission bundles: goodput, cost and delay of each pipe, and its share of the ceiling.

Functions are pure, and no sibling package is imported. Ratios are formed within blocks: same workload, number of explorers,
session and block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import pandas as pd

from suites.records.bundle import Bundle
from suites.records.events import Delays, Transfer
from suites.statistics import summary
from suites.statistics.intervals import bootstrap_iqm, paired_ratio
from suites.statistics.summary import Row, label_of

row = partial(summary.row, "transmission")

CEILINGS = ("memcpy", "raw-tcp", "tcp-kept", "libzmq", "libzmq-curve")
"""Systems that are what the hardware can do."""
PERCENTILES = (50, 95, 99)
SCALARS = (
    ("goodput_bytes_per_s", "bytes/s"),
    ("messages_per_s", "messages/s"),
    ("cpu_s_per_gb", "s/GB"),
    ("tcp_bytes_per_payload_byte", "ratio"),
    *((f"latency_p{p}_s", "s") for p in PERCENTILES),
)
"""Metrics of one pipe. Latency is a round trip for samples, and for weights the time until all explorers have them."""
RATIOS = (
    ("goodput_ratio", "goodput_bytes_per_s"),
    ("cpu_ratio", "cpu_s_per_gb"),
    ("latency_p50_ratio", "latency_p50_s"),
    ("latency_p99_ratio", "latency_p99_s"),
)
"""Metrics that are compared between pipes as ratios."""
OVER_SIZES = "goodput_ratio_over_sizes"
"""Geometric mean of a pipe's goodput over another's, over all sizes that were measured with so many explorers."""
KEYS = ["workload", "explorers", "size_bytes"]
BLOCK = ["session", "block"]


def transfers(bundles: Iterable[Bundle]) -> pd.DataFrame:
    """One row for each completed cell and size. Metrics that were not measured there are empty.

    Columns identify the cell, as in workload, explorers and system, and hold the metrics of `SCALARS`.
    """
    rows: list[dict[str, Any]] = []
    for bundle in bundles:
        manifest = bundle.manifest
        by_size: dict[int, dict[str, Any]] = {}
        for event in bundle.events:
            if isinstance(event, Transfer):
                payload_bytes = event.messages * event.size_bytes
                by_size.setdefault(event.size_bytes, {}).update(
                    goodput_bytes_per_s=event.intervals * event.size_bytes / event.seconds,
                    messages_per_s=event.intervals / event.seconds,
                    cpu_s_per_gb=event.cpu_s / (payload_bytes / 1e9),
                    tcp_bytes_per_payload_byte=None if event.tcp_bytes is None else event.tcp_bytes / payload_bytes,
                )
            elif isinstance(event, Delays):
                by_size.setdefault(event.size_bytes, {}).update(
                    {f"latency_p{p}_s": event.percentiles_ns[p] / 1e9 for p in PERCENTILES}
                )
        for size_bytes, metrics in by_size.items():
            rows.append(
                {
                    "workload": manifest.workload,
                    "explorers": manifest.explorers,
                    "size_bytes": size_bytes,
                    "system": label_of(bundle),
                    "session": manifest.session,
                    "block": manifest.block,
                    **metrics,
                }
            )
    columns = [*KEYS, "system", *BLOCK, *(name for name, _ in SCALARS)]
    return pd.DataFrame(rows, columns=columns).astype({name: float for name, _ in SCALARS})


def delays(bundles: Iterable[Bundle]) -> pd.DataFrame:
    """Percentiles of delays in seconds, each the median over blocks, by workload, explorers, size and system."""
    rows = [
        (b.manifest.workload, b.manifest.explorers, event.size_bytes, label_of(b), percentile, nanoseconds / 1e9)
        for b in bundles
        for event in b.of(Delays)
        for percentile, nanoseconds in enumerate(event.percentiles_ns)
    ]
    columns = [*KEYS, "system", "percentile", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.groupby(columns[:-1])["seconds"].median().reset_index()


def summarise(
    table: pd.DataFrame, places: dict[str, dict[str, Any]], pairs: Callable[[str, set[str]], Iterable[tuple[str, str]]]
) -> list[Row]:
    """Rows of `summary.json`.

    Parameters
    ----------
    table
        of `transfers`.
    places
        for each workload the keys that say where it was: testbed, nodes.
    pairs
        given a workload and the labels that were measured, the (first, second) whose ratios are wanted: a ratio is the
        first's value over the second's.
    """
    rows: list[Row] = []
    for key, of_key in table.groupby(KEYS, sort=True):
        workload, explorers, size_bytes = cast("tuple[str, int, int]", key)
        more = {"explorers": int(explorers), "size_bytes": int(size_bytes), **places[workload]}
        by_label = {str(label): frame for label, frame in of_key.groupby("system", sort=True)}
        by_block = {metric: of_key.pivot(index=BLOCK, columns="system", values=metric) for _, metric in RATIOS}
        for label, frame in by_label.items():
            for metric, unit in SCALARS:
                if len(values := frame[metric].dropna()):
                    rows.append(row(workload, label, metric, unit, bootstrap_iqm(values), **more))
        for first, second in pairs(workload, set(by_label)):
            for name, metric in RATIOS:
                both = by_block[metric][[first, second]].astype(float).dropna()
                if len(both):
                    ratio = paired_ratio(both[first], both[second], list(both.index.get_level_values("session")))
                    rows.append(row(workload, first, name, "ratio", ratio, baseline=second, **more))
    for of_both, of_number in table.groupby(["workload", "explorers"], sort=True):
        place, number = cast("tuple[str, int]", of_both)
        # A block counts where both have every size.
        means = of_number.pivot(index=BLOCK, columns=["system", "size_bytes"], values="goodput_bytes_per_s")
        means = means.map(math.log).T.groupby(level="system").mean().T.map(math.exp)
        means = means.where(of_number.groupby([*BLOCK, "system"]).size().unstack() == of_number["size_bytes"].nunique())
        for first, second in pairs(place, set(map(str, means))):
            if len(both := means[[first, second]].dropna()):
                ratio = paired_ratio(both[first], both[second], list(both.index.get_level_values("session")))
                rows.append(
                    row(place, first, OVER_SIZES, "ratio", ratio, baseline=second, explorers=int(number), **places[place])
                )
    return rows
