"""The figure of the disciplines suite: throughput over the age of samples, the frontier between them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.disciplines.view import FAMILY, Ruled
from reports.looks import BLUE, DASHED, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from reports.marks import Mark
from reports.styles import Drawing, Plot, Style, drawing

POINTS = {
    "strict": ("o", VERMILION),
    "tianji-reactor": ("H", SKY),
    "tianji-stream": ("<", BLUE),
    "tianji-quota-free": ("^", GREEN),
    "tianji-exactly-one-round": ("s", BLUE),
    "tianji-admitted-in-order-1": ("v", SKY),
    "tianji-admitted-interruptible-1": ("P", PURPLE),
    "relaxed": ("D", ORANGE),
    "tianji-one-sided": ("d", GREY),
    "tianji-free": ("X", INK),
    "tianji-unbalanced": ("*", PURPLE),
    "tianji-periodic": (">", GREEN),
}
"""Marker and colour of each discipline. `strict` and `relaxed` are not the same systems on every workload."""


def frontier(views: Sequence[Ruled], style: Style) -> Drawing | None:
    """A panel a workload: up is faster, left is fresher."""
    views = [view for view in views if view.shown]
    if not views:
        return None
    figure, axes = style.panels(len(views), (3.3, 2.6), (2, 1))
    marks: list[Mark] = []
    for view, axis in zip(views, axes, strict=True):
        family = [found for label in view.shown if label.startswith(FAMILY) and (found := _point(view, label))]
        family = [mark for mark in family if mark["system"].removeprefix(FAMILY).isdigit()]
        axis.plot([m["age"] for m in family], [m["value"] for m in family], color=INK, linewidth=1, marker="o", markersize=3)
        for place, etas in _named(family):
            axis.annotate(etas, place, textcoords="offset points", xytext=(4, -9), fontsize="small")
        alone = [found for label in view.shown if _kind(view, label) in POINTS and (found := _point(view, label))]
        for mark in alone:
            _draw(axis, mark, _kind(view, mark["system"]))
        marks += [{"workload": view.name, **mark} for mark in (*family, *alone)]
        axis.axhline(1, color=INK, linewidth=0.8, linestyle=DASHED)
        axis.set_title(view.name, loc="left")
        axis.set_xlim(left=-0.2)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("mean age of samples, rounds")
        axis.set_ylabel(f"samples/s over {view.discipline(view.strict)}'s")
    figure.legend(handles=_handles(views), loc="outside upper center", ncols=style.pick(3, 2))
    return drawing(figure, marks)


def _named(family: Sequence[Mark]) -> list[tuple[tuple[float, float], str]]:
    """Where the values of eta stand, and which they are: marks that lie on each other have one text."""
    found: list[tuple[tuple[float, float], str]] = []
    for mark in family:
        place, eta = (mark["age"], mark["value"]), mark["system"].removeprefix(FAMILY)
        if found and abs(place[0] - found[-1][0][0]) < 0.15 and abs(place[1] - found[-1][0][1]) < 0.1:
            found[-1] = (found[-1][0], f"{found[-1][1]}, {eta}")
        else:
            found.append((place, eta))
    return found


def _point(view: Ruled, label: str) -> Mark | None:
    age = view.find(label, "age_mean_rounds")
    gain = {"value": 1.0, "ci_low": None, "ci_high": None, "n": None} if label == view.strict else view.gain(label)
    if age is None or gain is None or gain["value"] is None:
        return None
    told = {key: gain[key] for key in ("value", "ci_low", "ci_high")}
    return {"system": label, "age": age["value"], "n": age["n"], **told}


def _kind(view: Ruled, label: str) -> str:
    return {"tianji-strict": "strict", "tianji-relaxed": "relaxed"}.get(
        label, view.discipline(label) if label == "tianji" else label
    )


def _draw(axis: Axes, mark: Mark, kind: str) -> None:
    marker, colour = POINTS[kind]
    if mark["ci_low"] is not None:
        axis.vlines(mark["age"], mark["ci_low"], mark["ci_high"], color=colour, linewidth=4, alpha=0.35)
    axis.plot(mark["age"], mark["value"], marker=marker, color=colour, markersize=6, linestyle="")


def _handles(views: Sequence[Ruled]) -> list[Line2D]:
    shown = {_kind(view, label): view.discipline(label) for view in views for label in view.shown}
    handles = [
        Line2D([], [], linestyle="", marker=marker, color=colour, label=shown[kind])
        for kind, (marker, colour) in POINTS.items()
        if kind in shown
    ]
    return [*handles, Line2D([], [], color=INK, linewidth=1, marker="o", markersize=3, label="admitted, by eta")]


PLOTS = (Plot("frontier", Ruled, frontier, table="throughput"),)
