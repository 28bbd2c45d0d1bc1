"""Interactive curves of the transmission suite: goodput by size of message, and delays."""

from __future__ import annotations

from reports.curves import Axis, Curve, Panel, curve
from reports.tables import counted
from reports.transmission.view import Traffic

SIZE = Axis("bytes of a message", log=True)


def panels(view: Traffic) -> list[Panel]:
    """A diagram of goodput for each number of explorers, and one of median delays."""
    found = [
        Panel(
            f"goodput, {counted(explorers, 'explorer')}",
            SIZE,
            Axis("bytes per second", log=True),
            _lines(view, "goodput_bytes_per_s", explorers),
        )
        for explorers in view.explorers
    ]
    found += [
        Panel(
            f"median delay, {counted(explorers, 'explorer')}",
            SIZE,
            Axis(f"seconds, {view.delay_title}", log=True),
            _lines(view, "latency_p50_s", explorers),
        )
        for explorers in view.explorers[:1]
    ]
    return [panel for panel in found if panel.lines]


def _lines(view: Traffic, metric: str, explorers: int) -> list[Curve]:
    lines = []
    for label in view.shown:
        rows = [row for size in view.sizes(explorers) if (row := view.at(label, metric, size, explorers))]
        x, y, low, high = ([row[key] for row in rows] for key in ("size_bytes", "value", "ci_low", "ci_high"))
        interval = {} if None in low else {"low": low, "high": high}
        if rows:
            lines.append(curve(label, view.title(label), x, y, marks=True, **interval))
    return lines
