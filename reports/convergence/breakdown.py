"""Where the seconds of each role went: the numbers, colours and patterns of the figure that shows it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.convergence.view import Trained
from reports.looks import SKY, VERMILION

ENVIRONMENTS, INFERENCE, SAMPLING, UPDATES, MOVING = (
    "environments",
    "inference",
    "sampling (both of them)",
    "updates",
    "copying and sending",
)
CAUSES = {
    ("busy", "env"): ENVIRONMENTS,
    ("busy", "infer"): INFERENCE,
    ("busy", "sample"): SAMPLING,
    ("busy", "update"): UPDATES,
    ("busy", "serialise"): MOVING,
    ("busy", "send"): MOVING,
    ("wait", "samples"): "waits for samples",
    ("wait", "weights"): "waits for weights",
    ("wait", "credit"): "waits for credit",
    ("wait", "barrier"): "waits for others",
    ("wait", "stop"): "waits for others",
}
"""What a process can be doing, and what to call it."""
FILLS = {ENVIRONMENTS: "#007a5a", INFERENCE: SKY, SAMPLING: "#1f4e79", UPDATES: VERMILION, MOVING: "#f0c75e"}
"""The colours of work, in the order of drawing; in grey they are of different lightness."""
HATCHES = {"waits for samples": "////", "waits for weights": "..", "waits for credit": "xxx", "waits for others": ""}
"""The patterns of waiting, which has no colour."""


def shares(view: Trained) -> pd.DataFrame:
    """What processes of each role were doing, in percent of their measured seconds, over all runs; in the order of reading."""
    frame = view.points("time-shares")
    frame = frame.assign(
        role=[str(process).partition(" ")[0] for process in frame["process"]],
        doing=[CAUSES.get(pair, "") for pair in zip(frame["state"], frame["cause"], strict=True)],
    )
    found: list[tuple[Any, ...]] = []
    for label in view.shown:
        for role, own in frame[frame["system"] == label].groupby("role", sort=True):
            runs = own[["block", "process", "measured_s"]].drop_duplicates()
            for doing in (*FILLS, *HATCHES):
                seconds = own["seconds"][own["doing"] == doing].sum()
                if seconds > 0:
                    percent = 100 * float(seconds / runs["measured_s"].sum())
                    found.append((label, role, doing, percent, runs["block"].nunique()))
    return pd.DataFrame(found, columns=["system", "role", "doing", "percent", "n"])
