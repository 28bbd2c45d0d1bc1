"""Where the seconds of each process went: the numbers and colours of every figure that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from reports.convergence.view import Trained

CAUSES = {
    ("busy", "env"): ("environments", "#15803d"),
    ("busy", "infer"): ("inference", "#65a30d"),
    ("busy", "sample"): ("sampling", "#4d9221"),
    ("busy", "update"): ("updates", "#c2410c"),
    ("busy", "serialise"): ("copying and encoding", "#ca8a04"),
    ("busy", "send"): ("sending", "#a16207"),
    ("wait", "samples"): ("waits for samples", "#cbd5e1"),
    ("wait", "barrier"): ("waits for the last of a round", "#a8b3c2"),
    ("wait", "weights"): ("waits for weights", "#94a3b8"),
    ("wait", "credit"): ("waits for credit", "#b8a9c9"),
    ("wait", "stop"): ("waits for the end", "#e2e8f0"),
}
"""What a process can be doing, in the order of drawing: what to call it, and its colour."""


class Share(NamedTuple):
    """Of the measured seconds of a process, mean over runs."""

    state: str
    cause: str
    title: str
    shade: str
    left: float
    """Percent of what is drawn before it."""
    percent: float


class Breakdown(NamedTuple):
    """Of one process."""

    label: str
    """Of its system."""
    process: str
    shares: Sequence[Share]
    runs: int


def processes(view: Trained) -> list[Breakdown]:
    """Every process of every system, in the order of reading."""
    frame = view.points("time-shares")
    return [
        _of_process(label, str(process), own)
        for label in view.shown
        for process, own in frame[frame["system"] == label].groupby("process", sort=True)
    ]


def _of_process(label: str, process: str, own: pd.DataFrame) -> Breakdown:
    runs = own[["block", "measured_s"]].drop_duplicates()
    shares: list[Share] = []
    left = 0.0
    for (state, cause), (title, shade) in CAUSES.items():
        part = own[(own["state"] == state) & (own["cause"] == cause)]
        percent = 100 * float(part["seconds"].sum() / runs["measured_s"].sum())
        if percent > 0:
            shares.append(Share(state, cause, title, shade, left, percent))
            left += percent
    return Breakdown(label, process, shares, len(runs))
