"""Lines of predicted throughput by number of nodes, and where they bend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from suites.records.forecasts import Forecasts, Point

BENDS_AT = 0.5
"""Share of one node's throughput a node under which a line is said to have bent."""


class Line(NamedTuple):
    """Points of one topology, discipline and bandwidth, with the fewest nodes first."""

    topology: str
    discipline: str
    gbit: float
    alone: float
    """Samples a second of one node."""
    points: Sequence[Point]

    def share(self, point: Point) -> float:
        """Share of one node's throughput that each node gives."""
        return point.samples_per_s / point.nodes / self.alone

    @property
    def bend(self) -> Point | None:
        """First point under half of one node's throughput a node; None: there is none."""
        return next((point for point in self.points if self.share(point) < BENDS_AT), None)


def lines(forecasts: Forecasts) -> list[Line]:
    """The lines of a forecast. All begin with the points of one to eight nodes, whose links carry little."""
    own: dict[tuple[str, str, float], list[Point]] = {}
    for point in sorted(forecasts.points, key=lambda one: (one.gbit, one.nodes)):
        own.setdefault((point.topology, point.discipline, point.gbit), []).append(point)
    found = []
    for (topology, discipline, gbit), points in sorted(own.items()):
        first = own.get((topology, discipline, forecasts.link_gbit), points)[0]
        found.append(Line(topology, discipline, gbit, first.samples_per_s / first.nodes, points))
    return found
