"""Predicted throughput a node on more nodes than were measured, with the measured points over it.

Predictions are of the simulated world (`suites.records.forecasts`). They are drawn and told as such, and enter no row, ratio,
verdict or claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from reports.looks import BLUE, GREEN, INK, ORANGE, SKY, VERMILION
from reports.marks import Mark, intervals, legend, plain_log
from reports.scaling.bends import Line
from reports.scaling.view import Scaled
from reports.styles import Drawing, Plot, Style, drawing
from reports.table import Row
from suites.scaling.ratios import HEADLINE

COLOURS = {"strict": (VERMILION, ORANGE, INK), "relaxed": (BLUE, SKY, GREEN)}
"""By discipline, from the slowest links to the fastest."""
MARKERS, SIZES = {"strict": "o", "relaxed": "D"}, (8.0, 5.5, 3.0)
"""Markers by discipline. Where links make no difference, smaller marks lie in larger ones."""
TITLES = {"groups": "a learner a node, a Root", "one learner": "one learner for all nodes"}


def figure(views: Sequence[Scaled], style: Style) -> Drawing | None:
    """Predicted throughput a node against nodes, two panels an experiment, and what was measured of the same workload."""
    views = [scaled for scaled in views if scaled.predicted]
    if not views:
        return None
    chart, axes = style.axes((0.9 + 3.0 * len(views), 0.9 + 2.1 * len(views)), len(TITLES), len(views), sharey="row")
    marks: list[Mark] = []
    panels = [(scaled, topology) for scaled in views for topology in TITLES]
    for axis, (scaled, topology) in zip(axes, panels, strict=True):
        drawn = [line for line in scaled.predicted if line.topology == topology]
        found = [mark for line in drawn for mark in _predicted(axis, line, sorted({one.gbit for one in drawn}))]
        systems = dict.fromkeys(point.system for line in drawn for point in line.points if point.system is not None)
        for system in (name for name in systems if name in scaled.labels):
            name = f"measured: {scaled.title(system)}"
            rows = [_a_node(row) for row in scaled.line(system, HEADLINE)]
            found += [{**mark, "predicted": False} for mark in intervals(axis, system, name, "nodes", rows, joined=False)]
        marks += [{"experiment": scaled.setting.slug, "topology": topology, **mark} for mark in found]
        plain_log(axis.xaxis)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("nodes (log scale)")
        axis.set_title(f"{scaled.name}:\n{TITLES[topology]}", loc="left")
    for axis in axes[::2]:
        axis.set_ylabel("samples/s of each node")
    legend(chart, axes, style.legend_columns, [mark for mark in marks if not mark["predicted"]])
    return drawing(chart, marks)


def _a_node(row: Row) -> Row:
    """A row of throughput, divided by its nodes."""
    return {**row, **{key: row[key] / row["nodes"] for key in ("value", "ci_low", "ci_high") if row[key] is not None}}


def _predicted(axis: Axes, line: Line, bandwidths: Sequence[float]) -> Iterable[Mark]:
    """Draw a line of predictions: open marks, joined by thin strokes."""
    # A bandwidth beyond the third looks like the third.
    rank = min(bandwidths.index(line.gbit), len(SIZES) - 1)
    colour = COLOURS.get(line.discipline, (INK,) * len(SIZES))[rank]
    axis.plot(
        [point.nodes for point in line.points],
        [point.samples_per_s / point.nodes for point in line.points],
        color=colour,
        linewidth=0.7,
        linestyle=(0, (2, 2)),
        marker=MARKERS.get(line.discipline, "s"),
        markersize=SIZES[rank],
        markerfacecolor="none",
        label=f"predicted: {line.discipline}, {line.gbit:g} Gbit/s",
    )
    return [
        {
            "discipline": line.discipline,
            "gbit": line.gbit,
            "nodes": point.nodes,
            "metric": HEADLINE,
            "value": point.samples_per_s / point.nodes,
            "binds": point.binds,
            "predicted": True,
        }
        for point in line.points
    ]


PLOT = Plot("beyond", Scaled, figure, table="beyond")
