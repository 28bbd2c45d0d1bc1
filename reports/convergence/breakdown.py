"""Where the seconds of each process went: the numbers and colours of every figure that shows it."""

from __future__ import annotations

from typing import Any

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


COLUMNS = ["system", "process", "state", "cause", "percent", "n"]


def shares(view: Trained) -> pd.DataFrame:
    """What each process was doing, in percent of its measured seconds, mean over runs; processes in the order of reading."""
    frame = view.points("time-shares")
    found: list[tuple[Any, ...]] = []
    for label in view.shown:
        for process, own in frame[frame["system"] == label].groupby("process", sort=True):
            runs = own[["block", "measured_s"]].drop_duplicates()
            for state, cause in CAUSES:
                seconds = own["seconds"][(own["state"] == state) & (own["cause"] == cause)].sum()
                if seconds > 0:
                    percent = 100 * float(seconds / runs["measured_s"].sum())
                    found.append((label, process, state, cause, percent, len(runs)))
    return pd.DataFrame(found, columns=COLUMNS)
