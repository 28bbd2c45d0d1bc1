"""The figure of the staleness suite, of all its workloads, in either style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from reports.looks import BLUE, DASHED, GREY, INK, VERMILION
from reports.marks import OPEN, Mark, plain_log
from reports.pairs import REFERENCE
from reports.staleness.view import Balanced
from reports.styles import Drawing, Plot, Style, drawing
from reports.table import Row

TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Rounds that an axis names."""
QUANTITIES = {"insertion_lag": ("lag on arrival", 0.15, "o", VERMILION), "age": ("age when trained on", -0.15, "s", BLUE)}
"""What each is called, where in a system's row it stands, its marker and its colour."""
KINDS = {"training": (0.15, "o"), "evaluated": (-0.15, "s")}
"""Where in a system's row the steps to each return stand, and their marker."""


def balance(views: Sequence[Balanced], style: Style) -> Drawing | None:
    """Lag and age of each system, and how many steps it needs over the strict one: a row of two panels a workload."""
    views = [view for view in views if view.shown]
    if not views:
        return None
    heights = [len(view.shown) for view in views]
    total = 0.7 + sum(style.pick(0.46, 0.4) * height + 0.75 for height in heights)
    figure, axes = style.axes(
        (total, total), 2, len(views), sharey="row", width_ratios=style.pick((3, 2), (1, 1)), height_ratios=heights
    )
    marks: list[Mark] = []
    for view, left, right in zip(views, axes[::2], axes[1::2], strict=True):
        for height, label in enumerate(reversed(view.shown)):
            found = _rounds(left, view, label, height) + _steps(right, view, label, height)
            marks += [{"workload": view.name, "system": label, **mark} for mark in found]
        _round_axis(left)
        left.set_title(view.name, loc="left")
        left.set_yticks(range(len(view.shown)), [_short(view.title(label)) for label in reversed(view.shown)])
        left.set_ylim(-0.6, len(view.shown) - 0.4)
        right.axvline(1, color=INK, linewidth=0.8, linestyle=DASHED)
        if right.has_data() and len(right.lines) > 1:
            plain_log(right.xaxis)
        else:
            right.set_visible(False)
    axes[-2].set_xlabel(style.pick("rounds behind the learner", "rounds behind"))
    axes[-1].set_xlabel(style.pick("steps over those of strict", "steps over strict's"))
    figure.legend(handles=_handles(marks), loc="outside upper center", ncols=style.pick(3, 2))
    return drawing(figure, marks)


def _short(title: str) -> str:
    """Of TianJi's own forms, what they differ by."""
    return title.removeprefix("TianJi, ")


def _round_axis(axis: Axes) -> None:
    """Rounds, linear to 1 and logarithmic above."""
    axis.set_xscale("symlog", linthresh=1)
    end = max(2.0, axis.get_xlim()[1] * 1.2)
    ticks = [tick for tick in TICKS if tick <= end]
    axis.set_xlim(-0.15, end)
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())


def _rounds(axis: Axes, view: Balanced, label: str, height: int) -> list[Mark]:
    """How far the learner was ahead, from the median to the 99th percentile."""
    marks = []
    for kind, (_, offset, marker, shade) in QUANTITIES.items():
        p50, p99 = (view.find(label, f"{kind}_{p}_rounds") for p in ("p50", "p99"))
        if p50 is None or p99 is None:
            continue
        at = height + offset
        axis.plot([p50["value"], p99["value"]], [at, at], color=shade, linewidth=1.2, alpha=0.6)
        axis.plot(p50["value"], at, marker="|", markersize=9, color=shade)
        marks += _mark(axis, p99, at, marker, shade, {"quantity": kind, "p50": p50["value"]})
    return marks


def _steps(axis: Axes, view: Balanced, label: str, height: int) -> list[Mark]:
    """Steps to each return over those of the strict system, within blocks in which both got there."""
    marks = []
    for kind, (offset, marker) in KINDS.items():
        row = None if label == REFERENCE else view.steps(label, kind)
        if row is not None and row["value"] is not None:
            marks += _mark(axis, row, height + offset, marker, GREY, {"quantity": f"steps to the {kind} return"})
    return marks


def _mark(axis: Axes, row: Row, at: float, marker: str, shade: str, told: Mark) -> list[Mark]:
    """A value with its interval; without one the mark is open."""
    known = row["ci_low"] is not None
    if known:
        axis.hlines(at, row["ci_low"], row["ci_high"], color=shade, linewidth=4, alpha=0.35)
    axis.plot(row["value"], at, marker=marker, markersize=5.5, markerfacecolor=shade if known else "none", color=shade)
    return [told | {key: row[key] for key in ("value", "ci_low", "ci_high", "n", "censored")}]


def _handles(marks: Sequence[Mark]) -> list[Line2D]:
    bare: dict[str, Any] = {"linestyle": ""}
    handles = [Line2D([], [], **bare, color=shade, marker=mark, label=name) for name, _, mark, shade in QUANTITIES.values()]
    handles += [Line2D([], [], **bare, color=GREY, marker=mark, label=f"steps, {kind}") for kind, (_, mark) in KINDS.items()]
    if any(mark["ci_low"] is None for mark in marks):
        handles.append(Line2D([], [], **bare, color=GREY, marker="o", markerfacecolor="none", label=OPEN))
    return handles


PLOTS = (Plot("balance", Balanced, balance, table="balance"),)
