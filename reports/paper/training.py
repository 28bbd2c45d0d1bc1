"""Plates of what was learnt: curves, times, ratios, where time went, and how stale samples were."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.lines import Line2D

from reports import bounds
from reports.convergence import panels
from reports.convergence.breakdown import of_workload
from reports.convergence.tables import ratios, thresholds
from reports.convergence.tables import times as times_as_fast
from reports.convergence.text import LOWEST
from reports.dataset import REFERENCE, Dataset
from reports.looks import DASHED, INK, look
from reports.marks import plain, plain_log
from reports.paper.plates import COLUMNS, Plate, how_many, new
from reports.tables import with_interval
from suites.statistics.crossings import KINDS
from suites.statistics.intervals import MINIMUM_FOR_INTERVAL
from suites.statistics.summary import AGAIN

INTERVALS = "Bars are 95 % intervals"
WORDS = {"evaluated": "evaluated", "training": "training mean of 100 episodes"}
ARROW = {"arrowstyle": "<-", "linewidth": 1.2, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
"""It points to where it is drawn from."""
ARROW_PT = 14
PARTS_AT_MOST = 12
"""Processes in a breakdown: more are not legible in a column."""


def plates(data: Dataset) -> Iterator[Plate]:
    """Every plate that the convergence and staleness suites have data for."""
    crossings = data.series["crossings"]
    for workload in sorted(data.workloads):
        if not crossings.empty and workload in set(crossings["workload"]):
            yield curves(data, workload)
            yield times(data, workload)
            yield breakdown(data, workload)
    drawn = forest_rows(data)
    if not drawn.empty:
        yield forest(data, drawn)
    for workload in sorted(data.balanced):
        yield staleness(data, workload)


def _shown(data: Dataset, workload: str) -> list[str]:
    return [label for label in data.ran(workload) if not label.endswith(AGAIN)]


def curves(data: Dataset, workload: str) -> Plate:
    """Evaluated return against seconds: a thin line a run, a thick one for the run in the middle."""
    figure, (axis,) = new(2.2)
    drawn = panels.curves(axis, data, workload, "evaluated", "seconds", _shown(data, workload))
    axis.set_ylim(bottom=panels.lowest(data, workload))
    axis.set_ylabel("evaluated return")
    counts = drawn[["system", "session", "block"]].drop_duplicates()["system"].value_counts()
    ran = [label for label in _shown(data, workload) if label in counts]
    figure.legend(handles=panels.names(data, ran), loc="outside upper center", ncols=COLUMNS)
    threshold = data.workloads[workload]["thresholds"]["evaluated"]
    episodes = data.workloads[workload]["evaluation"]["episodes"]
    caption = (
        f"{data.workloads[workload]['title']}: greedy return of published policies, {episodes} episodes each "
        f"(n = {how_many(counts)}). "
        "A thin line is a run, "
        f"the thick one that with the median mean. Dashed: the threshold, {threshold:g}. {LOWEST}"
    )
    return Plate(f"{workload}-curves", figure, caption, drawn)


def times(data: Dataset, workload: str) -> Plate:
    """Seconds to the thresholds: the interquartile mean with its interval, and every run; triangles are censored."""
    labels = _shown(data, workload)
    figure, axes = new(0.75 + 0.28 * len(labels), 2, sharey=True)
    drawn = panels.times(axes, data, workload, labels)
    caption = (
        f"{data.workloads[workload]['title']}: time from the first environment step to either threshold. {INTERVALS} of "
        "interquartile means; small dots are runs, their lines reach down to the last moment before which the threshold was "
        "not reached; open triangles are runs that ended without getting there."
    )
    return Plate(f"{workload}-times", figure, caption, pd.DataFrame(drawn), thresholds(data, workload))


def breakdown(data: Dataset, workload: str) -> Plate:
    """Where each process's seconds went, as shares."""
    processes = of_workload(data, workload)[:PARTS_AT_MOST]
    figure, (axis,) = new(0.9 + 0.17 * max(1, len(processes)))
    drawn, handles = panels.shares(axis, data, processes)
    figure.legend(handles=handles, loc="outside upper center", ncols=COLUMNS)
    caption = (
        f"{data.workloads[workload]['title']}: where the seconds of each process went, mean over runs "
        f"(n = {how_many(row['n'] for row in drawn)}). Hatched: waiting. The rest is handling "
        "messages, and what a system does not report."
    )
    return Plate(f"{workload}-breakdown", figure, caption, pd.DataFrame(drawn))


def forest_rows(data: Dataset) -> pd.DataFrame:
    """Ratios of times to threshold, or their bounds: TianJi against every peer, and what ran twice against itself."""
    pairs = dict.fromkeys(
        (row["workload"], row["system"], row["baseline"])
        for row in data.rows
        if (row["suite"], row["metric"]) == ("convergence", bounds.METRIC)
        if row["system"] == REFERENCE or row["baseline"].endswith(AGAIN)
    )
    return pd.DataFrame(
        {
            "workload": pair[0],
            "system": pair[1],
            "baseline": pair[2],
            "kind": kind,
            "bound": bound,
            **{key: row[key] for key in ("value", "ci_low", "ci_high", "n", "censored")},
        }
        for pair in pairs
        for kind in KINDS
        for row, bound, _ in [times_as_fast(data, *pair, kind)]
        if row is not None
    )


def _opponent(data: Dataset, label: str) -> str:
    """Whom somebody is compared with, in few words: names have as much room as drawing."""
    name = data.titles[label.removesuffix(AGAIN)].partition(" (")[0]
    return f"{name} twice" if label.endswith(AGAIN) else f"against {name}"


def forest(data: Dataset, drawn: pd.DataFrame) -> Plate:
    """Ratios with intervals, one line for each workload and peer."""
    groups = list(drawn.groupby(["workload", "baseline"], sort=True))
    figure, (axis,) = new(0.9 + 0.3 * len(groups))
    names = []
    for height, ((workload, baseline), rows) in enumerate(reversed(groups)):
        for _, row in rows.iterrows():
            colour, _, marker = look(str(baseline))
            at = height + (0.14 if row["kind"] == "evaluated" else -0.14)
            face = colour if row["kind"] == "evaluated" else "white"
            if pd.notna(row["ci_low"]):
                axis.hlines(at, row["ci_low"], row["ci_high"], color=colour, linewidth=1.2)
            if row["bound"]:
                way = 1 if row["bound"] == "at_least" else -1
                axis.annotate(
                    "",
                    (row["value"], at),
                    (way * ARROW_PT, 0),
                    textcoords="offset points",
                    arrowprops={**ARROW, "color": colour},
                )
            axis.plot(row["value"], at, marker=marker or "o", markersize=4, markerfacecolor=face, color=colour, linestyle="")
        count = "/".join(str(n) for n in sorted(set(rows["n"])))
        names.append(f"{workload}\n{_opponent(data, str(baseline))} (n = {count})")
    axis.axvline(1, color=INK, linewidth=0.7, linestyle=DASHED)
    plain_log(axis.xaxis)
    axis.set_yticks(range(len(groups)), names)
    axis.set_ylim(-0.6, len(groups) - 0.4)
    # To the right, for there is more room under the names than under the axis.
    axis.set_xlabel("times as fast (ratio, log scale)", loc="right")
    handles = [
        Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor=face, label=WORDS[kind])
        for kind, face in (("evaluated", INK), ("training", "white"))
    ]
    if (drawn["bound"] != "").any():
        handles.append(Line2D([], [], marker=">", color=INK, label="bound (> or <)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=COLUMNS)
    caption = (
        "How many times as fast TianJi reaches a threshold as other systems: geometric means of ratios within blocks, with "
        "95 % intervals by Student's t on logarithms. Points without "
        f"an interval are of fewer than {MINIMUM_FOR_INTERVAL} blocks. Arrows are bounds: one side did not get there in every "
        "block in which the other did. Pairs of which each got there without the other are not drawn. "
        "Right of the dashed line TianJi is faster. A system against itself is the noise floor."
    )
    table = pd.concat(
        [ratios(data, workload).assign(Workload=workload) for workload in sorted(data.workloads)], ignore_index=True
    )
    return Plate("ratios", figure, caption, drawn, table)


def staleness(data: Dataset, workload: str) -> Plate:
    """Cumulative distributions of lag on arrival, a line a system."""
    frame = data.series["staleness"]
    frame = frame[(frame["workload"] == workload) & (frame["kind"] == "insertion_lag") & (frame["unit"] == "rounds")]
    figure, (axis,) = new(2.0)
    drawn = []
    for label in sorted(set(frame["system"]) - {name for name in frame["system"] if name.endswith(AGAIN)}):
        own = frame[frame["system"] == label].groupby("value", as_index=False)["chunks"].sum().sort_values("value")
        share = 100 * own["chunks"].cumsum() / own["chunks"].sum()
        axis.step(
            own["value"], share, where="post", color=look(label).colour, linestyle=look(label).line, label=data.titles[label]
        )
        drawn.append(own.assign(system=label, percent=share))
    axis.set_xscale("symlog", linthresh=1)
    axis.xaxis.set_major_formatter(plain)
    axis.set_xlim(left=-0.1)
    axis.set_ylim(0, 101)
    axis.set_xlabel("rounds of updates behind the learner on arrival (linear to 1, then log)")
    axis.set_ylabel("% of chunks no further behind")
    figure.legend(loc="outside upper center", ncols=COLUMNS)
    of = data.find(workload, REFERENCE, "insertion_lag_p99_rounds", suite="staleness")
    told = f" With TianJi 99 % of chunks lag by at most {with_interval(of)} rounds (n = {of['n']} runs)." if of else ""
    title = data.balanced[workload]["title"]
    caption = f"{title}: how far the learner was ahead of the policy that a chunk was made with, chunks of all runs.{told}"
    return Plate(f"staleness-{workload}", figure, caption, pd.concat(drawn, ignore_index=True) if drawn else pd.DataFrame())
