"""What a page says of the convergence suite: headlines, findings, and how its figures and tables are to be read."""

from __future__ import annotations

from typing import Any

from reports import bounds
from reports.convergence.tables import times
from reports.dataset import REFERENCE, SAME_CODE, SYNCHRONOUS, Dataset
from reports.tables import number, with_interval
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

LOWEST = "Where returns are negative, points among the lowest twentieth may lie below the axis."

CAPTIONS = {
    "curves": "Learning curves: a thin line a run, a thick one for the run with the median mean. Dashed: the threshold. "
    + LOWEST,
    "threshold": "Time to threshold: interquartile means with their 95 % intervals, and below them every run; its line reaches "
    "down to the last moment before which it was not there. An open triangle is a run that ended without reaching it.",
    "time": "Where the measured seconds of each process went, mean over runs; hatched: waiting. What is missing to 100 % is "
    "handling messages, and what a system does not report.",
}
TABLE_TEXTS = {
    "threshold": (
        "Time to threshold",
        "Interquartile means over the runs that got there; n counts all runs. "
        "A restricted mean counts every run, those that did not get there too, for no longer than all were watched.",
    ),
    "ratios": (
        "How many times faster",
        "Geometric means of ratios within blocks; above 1 the first system is faster. In all = engineering x discipline. "
        "A bound (> or <), which has no interval, stands where one side did not get there in every block in which the "
        "other did; in brackets of how many blocks a figure is, where not of all. "
        "Noise floor: a system against itself.",
    ),
    "certificate": (
        "The same algorithm?",
        "Identical weights and a frozen batch through every system, against a slow reference in float64: equal means to 1e-5; "
        "in brackets the largest difference. What differs is among the deviations below. Weights are those after one step.",
    ),
    "resources": (
        "What it took",
        "Throughput leaves out the first tenth of the steps. CPU and memory are of the whole process tree. The final mean is "
        "ours, of the last 100 finished episodes; a system's own figure, where it gives one, stands beside it.",
    ),
}


def headlines(data: Dataset) -> list[str]:
    """A sentence for each workload and peer."""
    return [
        sentence
        for workload in sorted(data.workloads)
        for peer in data.systems
        if peer != REFERENCE and not peer.endswith(AGAIN)
        if (sentence := headline(data, workload, peer)) is not None
    ]


def headline(data: Dataset, workload: str, peer: str) -> str | None:
    """How many times as fast the evaluated threshold is reached, or what is known of it; None: nothing."""
    ours, theirs = (data.find(workload, label, "time_to_threshold_s", "evaluated") for label in (REFERENCE, peer))
    if ours is None or theirs is None:
        return None
    total = times(data, workload, REFERENCE, peer, "evaluated")
    got_there = " and ".join(
        f"{row['n'] - row['censored']} of {row['n']} runs of {data.titles[label]}"
        for label, row in ((REFERENCE, ours), (peer, theirs))
    )
    if total.neither:
        return (
            f"{workload}: who reaches the evaluated threshold sooner is open: {got_there} get there, now one and now the other."
        )
    if total.row is None:
        return f"{workload}: who reaches the evaluated threshold sooner is open: {got_there} get there."
    begins = f"{workload}: {data.titles[REFERENCE]} reaches the evaluated threshold {bounds.WORDS[total.bound]}"
    fast = f"{with_interval(total.row, 'x')} as fast as {data.titles[peer]}"
    counts = f"n = {total.row['n']} blocks"
    if total.bound or total.row["censored"]:
        return f"{begins}{fast} ({counts}; {got_there} get there)."
    parts = ""
    if peer not in (SYNCHRONOUS, *SAME_CODE):
        engineering = times(data, workload, SYNCHRONOUS, peer, "evaluated")
        discipline = times(data, workload, REFERENCE, SYNCHRONOUS, "evaluated")
        if all(one.row and not one.bound and not one.row["censored"] for one in (engineering, discipline)):
            parts = f" = {with_interval(engineering.row)} engineering x {with_interval(discipline.row)} discipline"
    return f"{begins}{fast}{parts} ({counts}).{_not_shown(total.row)}"


def _not_shown(row: dict[str, Any]) -> str:
    """Where an interval says neither."""
    low, high = row["ci_low"], row["ci_high"]
    return " Neither is shown to be faster." if low is not None and low <= 1 <= high else ""


def findings(data: Dataset, workload: str) -> list[str]:
    """What came of a workload of the convergence suite, in a sentence for each definition of its threshold."""
    lines = []
    for kind in KINDS:
        told = []
        for label in (label for label in data.systems if not label.endswith(AGAIN)):
            row = data.find(workload, label, "time_to_threshold_s", kind)
            if row is not None:
                got_there = "" if not row["censored"] else f" ({row['n'] - row['censored']} of {row['n']} runs)"
                told.append(f"{data.titles[label]} {number(row['value']) if row['value'] is not None else 'never'}{got_there}")
        if told:
            target = data.workloads[workload]["thresholds"][kind]
            lines.append(
                f"Seconds to {'an evaluated' if kind == 'evaluated' else 'a training'} return of {target:g}: {', '.join(told)}."
            )
    return lines
