"""Interactive curves of the staleness suite: how far chunks lag, and how old they are when trained on."""

from __future__ import annotations

import numpy as np

from reports.curves import Axis, Curve, Panel, curve
from reports.staleness.view import Balanced


def panels(view: Balanced) -> list[Panel]:
    """The cumulative share of chunks for each quantity and unit, over all runs."""
    frame = view.points("staleness")
    found = [
        Panel(f"{kind} in {unit}", Axis(f"{kind}, {unit}"), Axis("% of chunks at or below"), _lines(view, kind, unit))
        for kind, unit in sorted(set(zip(frame["kind"], frame["unit"], strict=True)))
    ]
    return [panel for panel in found if panel.lines]


def _lines(view: Balanced, kind: str, unit: str) -> list[Curve]:
    frame = view.points("staleness")
    lines = []
    for label in view.shown:
        own = frame[(frame["system"] == label) & (frame["kind"] == kind) & (frame["unit"] == unit)]
        chunks = own.groupby("value")["chunks"].sum()
        if len(chunks):
            share = 100 * np.cumsum(chunks.to_numpy()) / chunks.sum()
            lines.append(curve(label, view.title(label), chunks.index, share, marks=True))
    return lines
