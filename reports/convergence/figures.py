"""Figures of the convergence suite, each of all its workloads, in either style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from reports import bounds
from reports.convergence import breakdown
from reports.convergence.bands import band
from reports.convergence.view import Trained
from reports.looks import DASHED, GREY, INK, look
from reports.marks import OPEN, Mark, level, plain_log
from reports.pairs import REFERENCE, RELAXED
from reports.styles import Drawing, Plot, Style, drawing
from reports.tables import how_many
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

SHAPES = {"evaluated": ("o", 0.17), "training": ("s", -0.17)}
"""Of each return its marker, and how far above its row it stands."""
EARLIEST_S = 0.1
"""Where an axis of seconds begins at least."""
ARROW = {"arrowstyle": "<-", "linewidth": 1.2, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
"""It points to where it is drawn from."""
ARROW_PT = 14


def ratio_marks(views: Sequence[Trained]) -> pd.DataFrame:
    """Ratios of times to a return, or their bounds: TianJi against every peer, and what ran twice against itself."""
    pairs = {
        (view, row["system"], row["baseline"]): None
        for view in views
        for row in view.table.where(metric=bounds.METRIC).rows
        if row["system"] in (REFERENCE, RELAXED) or row["baseline"].endswith(AGAIN)
    }
    return pd.DataFrame(
        {
            "workload": view.workload,
            "conditions": view.apart,
            "system": system,
            "baseline": baseline,
            "kind": kind,
            "bound": bound,
            **{key: row[key] for key in ("value", "ci_low", "ci_high", "n", "censored")},
        }
        for view, system, baseline in sorted(pairs, key=lambda pair: _place(*pair))
        for kind in KINDS
        for row, bound, *_ in [view.fast(system, baseline, kind)]
        if row is not None
    )


def _place(view: Trained, system: str, baseline: str) -> tuple[Any, ...]:
    order = view.in_order({system, baseline, *view.labels})
    return view.key, baseline.endswith(AGAIN), system == RELAXED, order.index(baseline)


def ratios(views: Sequence[Trained], style: Style) -> Drawing | None:
    """How many times as fast TianJi is, a panel a workload and a row a peer, each ratio with its own n."""
    marks = ratio_marks(views)
    if marks.empty:
        return None
    groups = {view: marks[(marks["workload"] == view.workload) & (marks["conditions"] == view.apart)] for view in views}
    groups = {view: rows for view, rows in groups.items() if len(rows)}
    heights = [len(rows[["system", "baseline"]].drop_duplicates()) for rows in groups.values()]
    each = style.pick(0.36, 0.27)
    total = 0.9 + sum(each * height + 0.45 for height in heights)
    figure, axes = style.axes((total, total), rows=len(groups), sharex=True, height_ratios=heights)
    for axis, (view, rows) in zip(axes, groups.items(), strict=True):
        pairs = list(rows.groupby(["system", "baseline"], sort=False))
        for height, (_, own) in enumerate(reversed(pairs)):
            for _, row in own.iterrows():
                _ratio(axis, height, row)
        axis.axvline(1, color=INK, linewidth=0.8, linestyle=DASHED)
        axis.set_yticks(range(len(pairs)), [_against(view, *map(str, names)) for names, _ in reversed(pairs)])
        axis.set_ylim(-0.6, len(pairs) - 0.4)
        axis.set_title(view.name, loc="left")
    plain_log(axes[-1].xaxis)
    axes[-1].set_xlabel("times as fast (ratio, log scale)")
    figure.legend(handles=_ratio_legend(marks), loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, marks)


def _against(view: Trained, system: str, baseline: str) -> str:
    """What a row of ratios is of, in few words: names have as much room as drawing."""
    name = view.title(baseline.removesuffix(AGAIN)).partition(" (")[0]
    return f"{name} twice" if baseline.endswith(AGAIN) else f"relaxed: {name}" if system == RELAXED else name


def _ratio(axis: Axes, height: float, row: pd.Series[Any]) -> None:
    """One ratio with its interval, or a bound: an arrow to where the ratio is. Without an interval the mark is open."""
    colour = look(str(row["baseline"])).colour
    marker, offset = SHAPES[str(row["kind"])]
    at, known = height + offset, pd.notna(row["ci_low"])
    if known:
        axis.hlines(at, row["ci_low"], row["ci_high"], color=colour, linewidth=1.4)
    if row["bound"]:
        way = (ARROW_PT if row["bound"] == "at_least" else -ARROW_PT, 0)
        axis.annotate("", (row["value"], at), way, textcoords="offset points", arrowprops={**ARROW, "color": colour})
    axis.plot(row["value"], at, marker=marker, markersize=4.5, markerfacecolor=colour if known else "none", color=colour)
    count = f"n = {row['n']}" + (f" of {row['n'] + row['censored']}" if row["censored"] else "")
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
    axis.annotate(count, (1, at), **place, va="center", fontsize="x-small", annotation_clip=False)


def _ratio_legend(marks: pd.DataFrame) -> list[Line2D]:
    grey: dict[str, Any] = {"color": GREY, "linestyle": ""}
    handles = [Line2D([], [], **grey, marker=marker, label=f"{kind} return") for kind, (marker, _) in SHAPES.items()]
    if (marks["ci_low"].isna() & (marks["bound"] == "")).any():
        handles.append(Line2D([], [], **grey, marker="o", markerfacecolor="none", label=OPEN))
    if (marks["bound"] != "").any():
        handles.append(Line2D([], [], color=GREY, marker=">", markevery=[1], label="bound, no interval"))
    return handles


def curves(views: Sequence[Trained], style: Style) -> Drawing | None:
    """Returns over seconds, a row of panels a workload: a running median and a band of each system."""
    views = [view for view in views if not view.points("crossings").empty]
    if not views:
        return None
    kinds = style.pick(KINDS, KINDS[:1])
    figure, axes = style.axes((0.6 + 1.8 * len(views), 0.6 + 1.3 * len(views)), len(kinds), len(views))
    parts = [
        _returns(axis, view, kind) for axis, (view, kind) in zip(axes, [(v, k) for v in views for k in kinds], strict=True)
    ]
    for axis in axes[-len(kinds) :]:
        axis.set_xlabel("seconds from the first step (log scale)")
    marks = pd.concat(parts, ignore_index=True)
    systems = {label: view.title(label) for view in views for label in view.shown}
    handles = [
        Line2D([], [], color=look(label).colour, linestyle=look(label).line, label=systems[label])
        for label in Trained.in_order(systems)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, marks, how_many(marks["runs"]) if len(marks) else None)


def _returns(axis: Axes, view: Trained, kind: str) -> pd.DataFrame:
    """Returns of one workload, the first system on top."""
    frame = view.points(f"curves-{kind}")
    frame = frame[frame["seconds"] > 0]
    start = max(EARLIEST_S, float(frame["seconds"].min())) if len(frame) else EARLIEST_S
    drawn = []
    for label in reversed(view.shown):
        runs = [run for _, run in frame[frame["system"] == label].groupby(["session", "block"])]
        if not runs:
            continue
        found = band(runs, start)
        colour, line, _ = look(label)
        axis.plot(found["seconds"], found["median"], color=colour, linestyle=line, linewidth=1.6)
        if len(runs) > 1:
            axis.fill_between(found["seconds"], found["low"], found["high"], color=colour, alpha=0.18, linewidth=0)
        drawn.append(found.assign(workload=view.name, kind=kind, system=label))
    threshold = view.description["thresholds"][kind]
    level(axis, threshold)
    axis.set_title(f"{view.name}: {kind}, target {threshold:g}", loc="left")
    axis.set_ylabel("return")
    axis.set_ylim(bottom=lowest(view))
    axis.set_xlim(left=start)
    plain_log(axis.xaxis)
    return pd.concat(drawn, ignore_index=True) if drawn else pd.DataFrame({"runs": []})


def lowest(view: Trained) -> float:
    """Where an axis of returns begins, of all `KINDS`: at 0, or a little below all points but the lowest twentieth."""
    returns = pd.concat([view.points(f"curves-{kind}")["mean_return"] for kind in KINDS])
    if returns.empty or returns.min() >= 0:
        return 0.0
    low = float(returns.quantile(0.05))
    return min(0.0, low - 0.03 * (float(returns.max()) - low))


def _compared(views: Sequence[Trained]) -> list[Trained]:
    """Workloads on which several systems trained, or all where there are none: a system alone would add empty rows to all."""
    known = [view for view in views if not view.points("crossings").empty]
    return [view for view in known if len(view.shown) > 1] or known


def times(views: Sequence[Trained], style: Style) -> Drawing | None:
    """Seconds to either return, a panel a workload: the interquartile mean with its interval, and every run."""
    views = _compared(views)
    if not views:
        return None
    labels = Trained.in_order({label for view in views for label in view.shown})
    titles = {label: title for view in views for label, title in view.titles.items()}
    each = max(1.6, 0.7 + style.pick(0.4, 0.34) * len(labels))
    figure, axes = style.panels(len(views), (each, each), (2, 1), sharey=True)
    marks: list[Mark] = []
    for axis, view in zip(axes, views, strict=True):
        frame = view.points("crossings")
        for height, label in enumerate(reversed(labels)):
            for kind in KINDS:
                runs = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind)]
                found = _runs(axis, label, height + SHAPES[kind][1], runs) + _mean(axis, view, label, kind, height)
                marks += [{"workload": view.name, "system": label, "kind": kind, **mark} for mark in found]
        axis.set_title(view.name, loc="left")
        plain_log(axis.xaxis)
        axis.set_xlabel("seconds (log scale)")
        axis.set_yticks(range(len(labels)), [titles[label].partition(" (")[0] for label in reversed(labels)])
        axis.set_ylim(-0.6, len(labels) - 0.4)
    figure.legend(handles=_time_legend(marks), loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, marks)


def _runs(axis: Axes, label: str, height: float, runs: pd.DataFrame) -> list[Mark]:
    """Every run of a system: a short stroke, or an open triangle where it ended without getting there."""
    colour = look(label).colour
    reached = runs["seconds"].notna()
    axis.plot(
        runs["seconds"][reached], [height] * reached.sum(), marker="|", markersize=6, color=colour, alpha=0.7, linestyle=""
    )
    late: dict[str, Any] = {"marker": ">", "markersize": 4.5, "markerfacecolor": "none", "linestyle": ""}
    axis.plot(runs["measured_s"][~reached], [height] * (~reached).sum(), color=colour, **late)
    ends = zip(reached, runs["seconds"].where(reached, runs["measured_s"]), strict=True)
    return [{"mark": "run" if there else "censored", "seconds": at} for there, at in ends]


def _mean(axis: Axes, view: Trained, label: str, kind: str, height: float) -> list[Mark]:
    """The mean of a system's runs, with its interval; without one the mark is open."""
    row = view.find(label, "time_to_threshold_s", threshold_kind=kind)
    if row is None:
        return []
    colour, (marker, offset) = look(label).colour, SHAPES[kind]
    known = row["ci_low"] is not None
    if known:
        axis.hlines(height + offset, row["ci_low"], row["ci_high"], color=colour, linewidth=1.4)
    face = colour if known else "none"
    axis.plot(row["value"], height + offset, marker=marker, markersize=5, markerfacecolor=face, color=colour)
    return [{"mark": "interquartile mean", "seconds": row["value"], **{key: row[key] for key in ("ci_low", "ci_high", "n")}}]


def _time_legend(marks: Sequence[Mark]) -> list[Line2D]:
    grey: dict[str, Any] = {"color": GREY, "linestyle": ""}
    handles = [Line2D([], [], **grey, marker=marker, label=f"{kind}: mean") for kind, (marker, _) in SHAPES.items()]
    handles.append(Line2D([], [], **grey, marker="|", label="one run"))
    if any(mark["mark"] == "censored" for mark in marks):
        handles.append(Line2D([], [], **grey, marker=">", markerfacecolor="none", label="a run that missed it"))
    if any("ci_low" in mark and mark["ci_low"] is None for mark in marks):
        handles.append(Line2D([], [], **grey, marker="o", markerfacecolor="none", label=OPEN))
    return handles


def seconds(views: Sequence[Trained], style: Style) -> Drawing | None:
    """Where the measured seconds of each role went, a panel a workload: work is coloured, waiting is hatched."""
    views = _compared(views)
    marks = [breakdown.shares(view).assign(workload=view.name) for view in views]
    marks = [frame for frame in marks if len(frame)]
    if not marks:
        return None
    every = pd.concat(marks, ignore_index=True)
    titles = {label: title for view in views for label, title in view.titles.items()}
    rows = sorted(set(zip(every["system"], every["role"], strict=True)), key=lambda row: (*_ordered(row[0]), row[1]))
    each = max(1.6, 0.6 + style.pick(0.24, 0.2) * len(rows))
    figure, axes = style.panels(len(marks), (each, each), (2, 1), sharey=True)
    for axis, frame in zip(axes, marks, strict=True):
        for height, (label, role) in enumerate(reversed(rows)):
            _bar(axis, height, frame[(frame["system"] == label) & (frame["role"] == role)])
        axis.set_yticks(range(len(rows)), [f"{titles[label].partition(' (')[0]}: {role}" for label, role in reversed(rows)])
        axis.yaxis.set_minor_locator(NullLocator())
        axis.set_xlim(0, 100)
        axis.set_title(frame["workload"].iloc[0], loc="left")
        axis.set_xlabel("% of the measured seconds")
    known = set(every["doing"])
    handles = [Patch(**_look_of(doing), label=doing) for doing in (*breakdown.FILLS, *breakdown.HATCHES) if doing in known]
    figure.legend(handles=handles, loc="outside upper center", ncols=style.legend_columns)
    return drawing(figure, every)


def _ordered(label: str) -> tuple[int, str]:
    return (Trained.order.index(label) if label in Trained.order else len(Trained.order), label)


def _bar(axis: Axes, height: float, found: pd.DataFrame) -> None:
    left = 0.0
    for doing, percent in zip(found["doing"], found["percent"], strict=True):
        axis.barh(height, percent, left=left, height=0.72, **_look_of(doing))
        left += percent


def _look_of(doing: str) -> dict[str, Any]:
    """Colour of work, pattern of waiting."""
    if doing in breakdown.FILLS:
        return {"facecolor": breakdown.FILLS[doing], "edgecolor": GREY, "linewidth": 0.5}
    return {"facecolor": "none", "edgecolor": GREY, "hatch": breakdown.HATCHES[doing], "linewidth": 0.8}


def _waits(views: Sequence[Trained]) -> list[str]:
    """How long TianJi's learner waits."""
    said = []
    for view in views:
        frame = breakdown.shares(view)
        own = frame[(frame["system"] == REFERENCE) & (frame["role"] == "learner")]
        if len(own):
            percent = own["percent"][own["doing"].isin(breakdown.HATCHES)].sum()
            said.append(f"On {view.name} TianJi's learner waits for {percent:.0f} % of the time.")
    return said


PLOTS = (
    Plot("ratios", Trained, ratios, table="ratios"),
    Plot("times", Trained, times, table="threshold"),
    Plot("curves", Trained, curves),
    Plot("seconds", Trained, seconds, found=_waits),
)
