"""Interactive curves of the scaling suite: throughput and speed-up by number of nodes."""

from __future__ import annotations

from reports.curves import Axis, Curve, Panel, curve
from reports.scaling.view import Scaled
from suites.scaling.ratios import HEADLINE, SELF

NODES = Axis("nodes")


def panels(view: Scaled) -> list[Panel]:
    """Throughput, speed-up and time to a return, as far as they were measured."""
    throughput = [line for label in view.shown if (line := _line(view, label, HEADLINE))]
    speedup = [
        line for label in view.systems if (line := _line(view, label, "unique_consumption_speedup_ratio", baseline=SELF))
    ]
    wire = [line for label in view.systems if (line := _line(view, label, "wire_busiest_bytes_per_s"))]
    found = [
        Panel("samples per second", NODES, Axis("samples trained on per second, each counted once"), throughput),
        Panel("speed-up over one node", NODES, Axis("times its own on one node"), speedup),
        Panel("busiest link", NODES, Axis("bytes per second on the link that carries most"), wire),
    ]
    return [panel for panel in found if panel.lines]


def _line(view: Scaled, label: str, metric: str, **keys: str) -> Curve | None:
    rows = view.line(label, metric, **keys)
    if not rows:
        return None
    x, y, low, high = ([row[key] for row in rows] for key in ("nodes", "value", "ci_low", "ci_high"))
    interval = {} if None in low else {"low": low, "high": high}
    return curve(label, view.title(label), x, y, marks=True, **interval)
