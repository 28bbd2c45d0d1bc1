"""Figures of the asynchrony suite: the map, predicted against measured, and the ladder of disciplines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.asynchrony.view import Mapped
from reports.looks import BLUE, DASHED, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from reports.marks import Mark, plain_log
from reports.styles import Drawing, Plot, Style, drawing
from reports.table import Row
from suites.asynchrony import sweep
from suites.asynchrony.analysis import Cell
from suites.records.predictions import TIE

LOOKS = {
    "barrier": ("o", VERMILION),
    "quota-free": ("^", GREEN),
    "exactly-one-round": ("s", BLUE),
    "admitted-in-order-1": ("v", SKY),
    "admitted-1": ("P", PURPLE),
    "relaxed": ("D", ORANGE),
    "free": ("X", INK),
    "grouped": ("*", ORANGE),
}
"""Marker and colour of each discipline."""
DELAYS = {cell.workload: cell.delays for cell in sweep.CELLS}
SIDE = {"tail": 0.93, "straggler": 1.075}
"""By what cells of these delays are moved sideways, because others have the same rho and M."""
PREDICTED: dict[str, Any] = {"marker": "_", "markersize": 16, "color": GREY, "linestyle": ""}
BOUND: dict[str, Any] = {"marker": "x", "markersize": 5, "color": GREY, "linestyle": ""}
"""Looks of what the simulated world and the closed forms say."""
NAMED = 8
"""Most misses that a figure names; the findings name all."""


def pays(views: Sequence[Mapped], style: Style, fewest: int = 1) -> Drawing | None:
    """The map: a panel for each number of actors, with the winner of each cell and its gain over the barrier.

    Parameters
    ----------
    fewest
        cells of a panel at least.
    """
    found = panels(views, fewest)
    if not found:
        return None
    figure, axes = style.panels(len(found), (3.1, 3.4), (3, 1))
    marks: list[Mark] = []
    for (view, actors, cells), axis in zip(found, axes, strict=True):
        for cell in cells:
            marks.append({"machine": view.key.machine, **_place(axis, view, cell)})
        _border(axis, cells)
        axis.set_title(f"{actors} actors", loc="left")
        plain_log(axis.xaxis)
        axis.margins(0.2)
        axis.set_xlabel(style.pick("rho", "rho: mean fragment over the learner's round"))
        axis.set_ylabel(style.pick("M", "M: largest fragment over the mean"))
    handles = [_handle(name, name) for name in LOOKS if any(name in (m["winner"], m["predicted"]) for m in marks)]
    handles.append(
        Line2D([], [], linestyle="", marker="o", markersize=11, markerfacecolor="none", color=GREY, label="predicted")
    )
    handles.append(Line2D([], [], color=GREY, linestyle=DASHED, label="predicted border of overlap"))
    figure.legend(handles=handles, loc="outside upper center", ncols=style.pick(4, 2))
    return drawing(figure, marks)


def panels(views: Sequence[Mapped], fewest: int) -> list[tuple[Mapped, int, list[Cell]]]:
    """Cells of each number of actors that has so many at least."""
    return [
        (view, actors, cells)
        for view in views
        for actors in sorted({cell.actors for cell in view.cells})
        for cells in [[cell for cell in view.cells if cell.actors == actors]]
        if len(cells) >= fewest
    ]


def _place(axis: Axes, view: Mapped, cell: Cell) -> Mark:
    """A cell: its winner's mark within a ring in the colour of the predicted one."""
    name, foretold = view.discipline(cell.winner.system), view.predicted(cell)
    marker, colour = _look(name)
    delays = DELAYS.get(cell.workload, "")
    x = cell.rho * SIDE.get(delays, 1.0)
    if foretold in LOOKS:
        axis.plot(x, cell.m, marker="o", markersize=13, color=_look(foretold)[1], markerfacecolor="none", linestyle="")
    out = cell.contended or cell.control
    axis.plot(x, cell.m, marker=marker, color=colour, markerfacecolor="none" if out else colour, linestyle="")
    text = f"{cell.winner.ratio:.2f}x" + " contended" * cell.contended + " computes" * cell.control
    up = -17 if delays == "straggler" else 9
    axis.annotate(text, (x, cell.m), textcoords="offset points", xytext=(0, up), ha="center", fontsize="x-small")
    return {
        "cell": cell.workload,
        "actors": cell.actors,
        "rho": cell.rho,
        "m": cell.m,
        "winner": name,
        "predicted": foretold,
        "value": cell.winner.ratio,
        "role": view.role(cell),
        "n": _blocks(view, cell),
    }


def _blocks(view: Mapped, cell: Cell) -> int:
    rows = [row for one in cell.outcomes if (row := view.gain(cell.workload, one.system)) is not None]
    return min((int(row["n"]) for row in rows), default=0)


def _border(axis: Axes, cells: Sequence[Cell]) -> None:
    """Where, by the closed forms, exactly one round is slower than free by a tenth: max(M rho, 1) over max(rho, 1)."""
    low, high = min(cell.rho for cell in cells) / 1.5, max(cell.rho for cell in cells) * 1.5
    rho = np.geomspace(low, high, 100)
    m = np.maximum(rho, 1) / (1 - TIE) / rho
    axis.plot(rho, np.minimum(m, max(cell.m for cell in cells) * 1.3), color=GREY, linestyle=DASHED, linewidth=1)


def _look(name: str) -> tuple[str, str]:
    """Marker and colour of a discipline, on light paper or on dark."""
    marker, colour = LOOKS.get(name, ("o", GREY))
    return marker, plt.rcParams["text.color"] if colour == INK else colour


def _handle(name: str, label: str) -> Line2D:
    marker, colour = _look(name)
    return Line2D([], [], linestyle="", marker=marker, color=colour, label=label)


def forecasts(views: Sequence[Mapped], style: Style) -> Drawing | None:
    """Predicted against measured ratios to the barrier; misses of held-out cells are named."""
    views = [view for view in views if view.predictions is not None and view.cells]
    if not views:
        return None
    figure, axes = style.panels(len(views), (4.6, 3.2), (1, 1))
    marks: list[Mark] = []
    for view, axis in zip(views, axes, strict=True):
        found = list(_compared(view))
        for mark in found:
            marker, colour = _look(mark["system"])
            face = colour if mark["held_out"] else "none"
            axis.plot(mark["predicted"], mark["value"], marker=marker, color=colour, markerfacecolor=face, linestyle="")
        # Misses lie close together. What is missed most is predicted too high, so the corner below is free for their names.
        for place, mark in enumerate(sorted(_worst(found), key=lambda mark: float(mark["value"]))):
            axis.annotate(
                mark["cell"].removeprefix("cartpole-ppo-"),
                (mark["predicted"], mark["value"]),
                textcoords="axes fraction",
                xytext=(0.72, 0.04 + 0.055 * place),
                fontsize="x-small",
                va="center",
                arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "relpos": (0, 0.5)},
            )
        marks += [{"machine": view.key.machine, **mark} for mark in found]
        ends = (
            np.array([0.8, 1.2 * max(max(mark["predicted"], mark["value"]) for mark in found)]) if found else np.array([1, 2])
        )
        axis.plot(ends, ends, color=plt.rcParams["text.color"], linewidth=0.8, linestyle=DASHED)
        axis.fill_between(ends, ends * (1 - TIE), ends * (1 + TIE), color=GREY, alpha=0.2, linewidth=0)
        plain_log(axis.xaxis)
        plain_log(axis.yaxis)
        axis.set_xlabel("predicted: samples/s over the barrier's")
        axis.set_ylabel("measured: samples/s over the barrier's")
    handles = [_handle(name, name) for name in LOOKS if any(mark["system"] == name for mark in marks)]
    handles.append(Line2D([], [], linestyle="", marker="o", color=GREY, markerfacecolor="none", label="not held out"))
    figure.legend(handles=handles, loc="outside upper center", ncols=style.pick(4, 2))
    return drawing(figure, marks)


def _worst(found: Sequence[Mark]) -> list[Mark]:
    """The worst miss of each held-out cell, of the cells that were missed most."""
    missed = [mark for mark in found if mark["held_out"] and mark["missed"]]
    missed.sort(key=lambda mark: -abs(np.log(mark["predicted"] / mark["value"])))
    return list({mark["cell"]: mark for mark in reversed(missed)}.values())[-NAMED:]


def _compared(view: Mapped) -> Iterator[Mark]:
    assert view.predictions is not None
    for cell in view.cells:
        told = view.predictions.of(cell.workload)
        for one in cell.outcomes:
            if one.system == sweep.BARRIER or one.system not in told or cell.contended:
                continue
            foretold = told[one.system].ratio
            gain = view.gain(cell.workload, one.system)
            assert gain is not None
            yield {
                "cell": cell.workload,
                "system": view.discipline(one.system),
                "predicted": foretold,
                "closed_form": told[one.system].closed_ratio,
                **{key: gain[key] for key in ("value", "ci_low", "ci_high", "n")},
                "held_out": not cell.control and cell.workload not in view.predictions.calibrating,
                "missed": abs(foretold / one.ratio - 1) > TIE,
            }


def ladder(views: Sequence[Mapped], style: Style) -> Drawing | None:
    """A panel for each of the fixed cells: the gain of each rung over the barrier, what was predicted, and its bound."""
    panels = [(view, cell) for view in views for cell in view.fixed]
    if not panels:
        return None
    figure, axes = style.panels(len(panels), (2.9, 2.4), (2, 1), sharey=True)
    marks: list[Mark] = []
    for (view, cell), axis in zip(panels, axes, strict=True):
        shown = view.rungs(cell)
        for place, (rung, system, gain, foretold) in enumerate(shown):
            marker, colour = _look(view.discipline(system))
            row: Row = {"value": 1.0, "ci_low": None, "ci_high": None, "n": None} if gain is None else gain
            if row["ci_low"] is not None:
                axis.vlines(place, row["ci_low"], row["ci_high"], color=colour, linewidth=4, alpha=0.35)
            face = colour if gain is None or row["ci_low"] is not None else "none"
            axis.plot(place, row["value"], marker=marker, color=colour, markerfacecolor=face, linestyle="")
            if foretold is not None:
                axis.plot(place, foretold.ratio, **PREDICTED)
                axis.plot(place, foretold.closed_ratio, **BOUND)
            told_of = {key: row[key] for key in ("value", "ci_low", "ci_high", "n")}
            told = (None, None) if foretold is None else (foretold.ratio, foretold.closed_ratio)
            mark = {"cell": cell.workload, "rung": rung, "system": system, "predicted": told[0], "closed_form": told[1]}
            marks.append(mark | told_of)
        axis.set_xticks(range(len(shown)), [view.discipline(system) for _, system, *_ in shown], rotation=35, ha="right")
        _rungs(axis, [rung for rung, *_ in shown])
        axis.set_title(cell.workload.removeprefix("cartpole-ppo-"), loc="left")
        axis.set_ylabel("over the barrier")
    axes[0].set_ylim(0, 1.2 * max(mark[what] or 0.0 for mark in marks for what in ("value", "predicted", "closed_form")))
    figure.legend(
        handles=[Line2D([], [], label="predicted", **PREDICTED), Line2D([], [], label="bound by round times", **BOUND)],
        loc="outside upper center",
        ncols=2,
    )
    return drawing(figure, marks)


def _rungs(axis: Axes, rungs: Sequence[str]) -> None:
    """Name the rungs above their disciplines, with a line between two of them."""
    for rung in dict.fromkeys(rungs):
        first, many = rungs.index(rung), rungs.count(rung)
        axis.text(
            first + (many - 1) / 2, 0.98, rung, transform=axis.get_xaxis_transform(), ha="center", va="top", fontsize="x-small"
        )
        if first:
            axis.axvline(first - 0.5, color=GREY, linewidth=0.6)


PLOTS = (
    Plot("map", Mapped, pays, table="cells"),
    Plot("forecasts", Mapped, forecasts, table="forecasts"),
    Plot("ladder", Mapped, ladder),
)
