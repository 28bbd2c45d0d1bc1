"""The figure of the price suite: steps to a return over lag times learning rate."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports.looks import BLUE, DASHED, GREEN, GREY, INK, ORANGE, SKY, VERMILION
from reports.marks import OPEN, Mark, plain_log
from reports.price.view import Point, Priced
from reports.styles import Drawing, Plot, Style, drawing

LOOKS = (("o", BLUE), ("s", SKY), ("^", ORANGE), ("D", VERMILION), ("v", GREEN))
"""Marker and colour of each learning rate of a workload, from the lowest."""


def product(views: Sequence[Priced], style: Style) -> Drawing | None:
    """A panel a workload, a curve a learning rate. Where the product decides, the curves lie on each other."""
    leaders = [view for view in views if view.leads and any(one.lag for of in view.fellows for one in of.prices())]
    if not leaders:
        return None
    figure, axes = style.panels(len(leaders), (3.2, 2.5), (2, 1))
    marks: list[Mark] = []
    for leader, axis in zip(leaders, axes, strict=True):
        found = [mark for place, view in enumerate(leader.fellows) for mark in _curve(axis, view, place)]
        marks += [{"workload": leader.workload, **mark} for mark in found]
        fewest = min(mark["n"] for mark in found)
        told = f"n = {fewest}" + ": no statement" * (fewest < leader.enough)
        axis.axhline(1, color=INK, linewidth=0.8, linestyle=DASHED)
        axis.set_title(f"{leader.workload}\n{told}", loc="left", fontsize="medium")
        plain_log(axis.xaxis)
        plain_log(axis.yaxis)
        axis.set_xlabel("lag in rounds x learning rate")
        axis.set_ylabel("steps to the return over lag 0's")
    limits = [axis.get_ylim() for axis in axes]
    lowest, highest = min(low for low, _ in limits), max(high for _, high in limits)
    for axis in axes:
        # The same scale, so that workloads can be compared.
        axis.set_ylim(lowest, highest)
    _legend(figure, axes, open_marks=any(mark["ci_low"] is None for mark in marks))
    return drawing(figure, marks)


def _legend(figure: Figure, axes: Sequence[Axes], *, open_marks: bool) -> None:
    """Name the learning rates: once above all panels if they have the same, or else in each panel."""
    curves = [axis.get_legend_handles_labels() for axis in axes]
    handles, labels = curves[0]
    if any(names != labels for _, names in curves):
        handles, labels = [], []
        for axis in axes:
            axis.legend(title="learning rate", fontsize="small", title_fontsize="small")
    if open_marks:
        handles = [*handles, Line2D([], [], color=GREY, marker="o", markerfacecolor="none", linestyle="")]
        labels = [*labels, OPEN]
    if handles:
        title = None if labels == [OPEN] else "learning rate"
        figure.legend(handles, labels, title=title, loc="outside upper center", ncols=len(handles))


def _curve(axis: Axes, view: Priced, place: int) -> list[Mark]:
    """One learning rate's ratios; a mark without an interval is open."""
    points = [point for point in view.prices() if point.lag]
    marker, colour = LOOKS[place % len(LOOKS)]
    axis.plot([p.product for p in points], [p.row["value"] for p in points], color=colour, linewidth=1)
    for point in points:
        known = point.row["ci_low"] is not None
        if known:
            axis.vlines(point.product, point.row["ci_low"], point.row["ci_high"], color=colour, linewidth=4, alpha=0.35)
        face = colour if known else "none"
        axis.plot(point.product, point.row["value"], color=colour, marker=marker, markerfacecolor=face, linestyle="")
    axis.plot([], [], color=colour, marker=marker, linewidth=1, label=f"{view.learning_rate:g}")
    return [_mark(point) for point in points]


def _mark(point: Point) -> Mark:
    told = {key: point.row[key] for key in ("value", "ci_low", "ci_high", "n", "censored")}
    return {"lag": point.lag, "learning_rate": point.learning_rate, "product": point.product, **told}


PLOTS = (Plot("product", Priced, product, table="steps"),)
