"""Figures, each a function from data to a matplotlib figure; written as SVG, PDF and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import breakdown, staleness
from reports.dataset import AGAIN, Dataset
from reports.looks import STYLE, look
from reports.marks import level, plain_log
from reports.scaling import figures as scaling
from reports.transmission import figures as transmission

KINDS = ("svg", "pdf", "png")
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing in a file says when it was made: the same data gives the same bytes."""
KIND_TITLES = {"training": "Training: mean of 100 episodes", "evaluated": "Evaluated: greedy, 20 seeded episodes"}


@contextmanager
def style() -> Iterator[None]:
    """In which figures are drawn; a report has many of them, and frees them all when they are written."""
    with plt.style.context(STYLE), plt.rc_context({"figure.max_open_warning": 0}):
        yield


def all_figures(data: Dataset) -> dict[str, Figure]:
    """Every figure of a report by file name."""
    figures: dict[str, Figure] = {}
    with style():
        for workload in sorted(data.workloads):
            crossings = data.series["crossings"]
            if crossings.empty or workload not in set(crossings["workload"]):
                continue
            figures[f"{workload}-curves"] = learning_curves(data, workload)
            figures[f"{workload}-threshold"] = time_to_threshold(data, workload)
            figures[f"{workload}-time"] = time_breakdown(data, workload)
        figures |= staleness.figures(data) | transmission.figures(data) | scaling.figures(data)
    return figures


def learning_curves(data: Dataset, workload: str) -> Figure:
    """Return against seconds (left) and environment steps (right), a line a run, both definitions of return."""
    figure: Figure
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 5.8), sharey=True, layout="constrained")
    ran = data.ran(workload)
    thresholds = data.workloads[workload]["thresholds"]
    for line, kind in enumerate(("training", "evaluated")):
        frame = data.series[f"curves-{kind}"]
        frame = frame[frame["workload"] == workload]
        for column, axis in (("seconds", axes[line][0]), ("steps", axes[line][1])):
            for label in reversed(ran):
                for _, run in frame[frame["system"] == label].groupby(["session", "block"]):
                    faint = label.endswith(AGAIN)
                    axis.plot(
                        run[column] / (1000 if column == "steps" else 1),
                        run["mean_return"],
                        color=look(label).colour,
                        alpha=0.45 if faint else 0.9,
                        linewidth=0.8 if faint else 1.3,
                        linestyle=":" if faint else look(label).line,
                    )
            level(axis, thresholds[kind])
            axis.set_xlabel(
                {"seconds": "seconds from the first environment step", "steps": "thousand environment steps"}[column]
            )
            if column == "seconds":
                axis.set_xlim(left=0.1)
                plain_log(axis.xaxis)
            axis.set_title(KIND_TITLES[kind], loc="left")
            axis.set_ylim(bottom=0)
        axes[line][0].set_ylabel("return")
        axes[line][0].annotate(
            f"threshold {thresholds[kind]:g}",
            (0.01, thresholds[kind]),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
        )
    handles = [
        Line2D([], [], color=look(label).colour, linestyle=look(label).line, label=data.titles[label])
        for label in ran
        if not label.endswith(AGAIN)
    ]
    if any(label.endswith(AGAIN) for label in ran):
        handles.append(Line2D([], [], color=look("sync").colour, linestyle=":", linewidth=0.8, label="same system again"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def time_to_threshold(data: Dataset, workload: str) -> Figure:
    """Seconds to each threshold: a point a run; an open triangle where a run ended without reaching it."""
    ran = data.ran(workload)
    frame = data.series["crossings"]
    frame = frame[frame["workload"] == workload]
    figure: Figure
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 0.8 + 0.45 * len(ran)), sharey=True, layout="constrained")
    for axis, kind in zip(axes, ("training", "evaluated"), strict=True):
        for height, label in enumerate(reversed(ran)):
            runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
            offsets = height + np.linspace(-0.12, 0.12, len(runs)) if len(runs) > 1 else np.full(len(runs), float(height))
            for offset, (_, run) in zip(offsets, runs.iterrows(), strict=True):
                if pd.isna(run["seconds"]):
                    axis.plot(run["measured_s"], offset, marker=">", markerfacecolor="none", color=look(label).colour)
                else:
                    axis.plot([run["seconds_before"], run["seconds"]], [offset, offset], color=look(label).colour)
                    axis.plot(run["seconds"], offset, marker="o", markersize=5, color=look(label).colour)
        threshold = data.workloads[workload]["thresholds"][kind]
        axis.set_title(f"{KIND_TITLES[kind].split(':')[0]} return reaches {threshold:g}", loc="left")
        axis.set_xlabel("seconds (log scale)")
        axis.set_xscale("log")
        axis.set_ylim(-0.5, len(ran) - 0.5)
        axis.set_yticks(range(len(ran)), [data.titles[label] for label in reversed(ran)])
    low = min(axis.get_xlim()[0] for axis in axes)
    high = max(axis.get_xlim()[1] for axis in axes)
    for axis in axes:
        axis.set_xlim(low / 1.15, high * 1.15)
        plain_log(axis.xaxis)
    return figure


def time_breakdown(data: Dataset, workload: str) -> Figure:
    """Where each process's measured seconds went, mean over runs, as shares."""
    processes = breakdown.of_workload(data, workload)
    figure: Figure
    figure, axis = plt.subplots(figsize=(9.2, 0.9 + 0.32 * max(1, len(processes))), layout="constrained")
    used: dict[str, str] = {}
    for height, found in enumerate(reversed(processes)):
        for share in found.shares:
            axis.barh(height, share.percent, left=share.left, color=share.shade, height=0.7)
            used[share.title] = share.shade
    names = [f"{data.titles[found.label]}: {_process(found.process)}" for found in reversed(processes)]
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("% of the measured seconds (the rest: handling messages, and what a system does not report)")
    axis.set_xlim(0, 100)
    handles = [matplotlib.patches.Patch(color=shade, label=title) for title, shade in used.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(8, max(1, len(handles))))
    return figure


def _process(name: str) -> str:
    kind, _, place = name.partition(" ")
    return f"{kind} {place.partition('.')[2] or place.removeprefix('g0')}".strip()


def write(figures: dict[str, Figure], out: Path, kinds: Sequence[str]) -> None:
    """Write each figure in these `KINDS`, and free it."""
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    # Text stays text in SVG.
    with plt.style.context(STYLE), plt.rc_context({"svg.fonttype": "none"}):
        for name, figure in figures.items():
            for kind in kinds:
                figure.savefig(folder / f"{name}.{kind}", metadata=METADATA.get(kind))
            plt.close(figure)
