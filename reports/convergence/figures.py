"""Figures of the convergence suite, each a function from a workload to a matplotlib figure."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from reports.convergence import breakdown, panels
from reports.dataset import Dataset

KIND_TITLES = {"training": "Training: mean of 100 episodes", "evaluated": "Evaluated: greedy, seeded episodes"}


def figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of the suite by file name."""
    made: dict[str, Figure] = {}
    crossings = data.series["crossings"]
    for workload in sorted(data.workloads):
        if not crossings.empty and workload in set(crossings["workload"]):
            made[f"{workload}-curves"] = learning_curves(data, workload)
            made[f"{workload}-threshold"] = time_to_threshold(data, workload)
            made[f"{workload}-time"] = time_breakdown(data, workload)
    return made


def learning_curves(data: Dataset, workload: str) -> Figure:
    """Return against seconds (left) and environment steps (right), both definitions of return."""
    figure: Figure
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 5.8), sharey=True, layout="constrained")
    ran = data.ran(workload)
    for line, (kind, title) in enumerate(KIND_TITLES.items()):
        for axis, against in zip(axes[line], panels.AGAINST, strict=True):
            panels.curves(axis, data, workload, kind, against, ran)
            axis.set_title(title, loc="left")
        threshold = data.workloads[workload]["thresholds"][kind]
        axes[line][0].set_ylabel("return")
        axes[line][0].annotate(
            f"threshold {threshold:g}",
            (0.01, threshold),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
        )
    axes[0][0].set_ylim(bottom=panels.lowest(data, workload))
    handles = panels.names(data, ran)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def time_to_threshold(data: Dataset, workload: str) -> Figure:
    """Seconds to each threshold: every run, and the mean of a system."""
    ran = data.ran(workload)
    figure: Figure
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 0.8 + 0.45 * len(ran)), sharex=True, sharey=True, layout="constrained")
    panels.times(axes, data, workload, ran)
    return figure


def time_breakdown(data: Dataset, workload: str) -> Figure:
    """Where each process's measured seconds went, mean over runs, as shares."""
    processes = breakdown.of_workload(data, workload)
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 0.9 + 0.32 * max(1, len(processes))), layout="constrained")
    _, handles = panels.shares(axis, data, processes)
    figure.legend(handles=handles, loc="outside upper center", ncols=min(8, max(1, len(handles))))
    return figure
