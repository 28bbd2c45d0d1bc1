"""What a page says of the convergence suite: headlines, findings, and how its figures and tables are to be read."""

from __future__ import annotations

from reports.dataset import AGAIN, REFERENCE, SAME_CODE, SYNCHRONOUS, Dataset
from reports.tables import number, with_interval
from suites.crossings import KINDS

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
    "threshold": ("Time to threshold", "Interquartile means over the runs that got there; n counts all runs."),
    "ratios": (
        "How many times faster",
        "Geometric means of ratios within blocks; above 1 the first system is faster. In all = engineering x discipline. "
        "A bound (> or <) stands where one side did not reach the threshold in every block; pairs count blocks in which "
        "both did. "
        "Noise floor: a system against itself.",
    ),
    "certificate": (
        "The same algorithm?",
        "Identical weights and a frozen batch through every system, against a slow reference in float64: equal means to 1e-5; "
        "in brackets the largest difference. What differs is among the deviations below. Weights are those after one step.",
    ),
    "resources": (
        "What it took",
        "Throughput leaves out the first tenth of the budget. CPU and memory are of the whole process tree. The final mean is "
        "ours, of the last 100 finished episodes; a system's own figure, where it gives one, stands beside it.",
    ),
}


def headlines(data: Dataset) -> list[str]:
    """A sentence for each workload and peer."""
    lines = []
    for workload in sorted(data.workloads):
        for peer in data.systems:
            if peer in (REFERENCE, SYNCHRONOUS) or peer.endswith(AGAIN):
                continue
            total = data.find(workload, REFERENCE, "time_to_threshold_ratio", "evaluated", peer)
            engineering = data.find(workload, SYNCHRONOUS, "time_to_threshold_ratio", "evaluated", peer)
            discipline = data.find(workload, REFERENCE, "time_to_threshold_ratio", "evaluated", SYNCHRONOUS)
            if total is None or total["value"] is None:
                continue
            parts = ""
            if engineering and discipline and peer not in SAME_CODE:
                parts = f" = {with_interval(engineering)} engineering x {with_interval(discipline)} discipline"
            lines.append(
                f"{workload}: {data.titles[REFERENCE]} reaches the evaluated threshold {with_interval(total, 'x')} as fast as "
                f"{data.titles[peer]}{parts} (n = {total['n']} blocks)."
            )
    return lines


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
