"""Interactive curves of the convergence suite: a running median of each system, its band, and every run."""

from __future__ import annotations

from reports.convergence.bands import band
from reports.convergence.figures import EARLIEST_S
from reports.convergence.view import Trained
from reports.curves import Axis, Curve, Panel, curve

SECONDS, STEPS = Axis("seconds from the first environment step", log=True), Axis("environment steps")
POINTS = 120
"""Of one run at most."""


def panels(view: Trained) -> list[Panel]:
    """For each return the medians and every run against seconds, and every run against steps."""
    found = []
    for kind in ("training", "evaluated"):
        height, target = Axis(f"{kind} return"), view.description["thresholds"][kind]
        found += [
            Panel(f"{kind} return over seconds, median of runs", SECONDS, height, _medians(view, kind), target),
            Panel(f"{kind} return over seconds, every run", SECONDS, height, _runs(view, kind, "seconds"), target),
            Panel(f"{kind} return over steps, every run", STEPS, height, _runs(view, kind, "steps"), target),
        ]
    return [panel for panel in found if panel.lines]


def _medians(view: Trained, kind: str) -> list[Curve]:
    frame = view.points(f"curves-{kind}")
    lines = []
    for label in view.shown:
        runs = [run for _, run in frame[frame["system"] == label].groupby(["session", "block"])]
        if runs:
            found = band(runs, EARLIEST_S)
            told = {"low": found["low"], "high": found["high"]} if len(runs) > 1 else {}
            lines.append(curve(label, view.title(label), found["seconds"], found["median"], **told))
    return lines


def _runs(view: Trained, kind: str, against: str) -> list[Curve]:
    frame = view.points(f"curves-{kind}")
    lines = []
    for label in view.shown:
        runs = [run for _, run in frame[frame["system"] == label].groupby(["session", "block"])]
        for place, run in enumerate(runs):
            every = run.iloc[:: -(-len(run) // POINTS)]
            lines.append(curve(label, view.title(label), every[against], every["mean_return"], faint=True, legend=place == 0))
    return lines
