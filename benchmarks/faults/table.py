"""The table of faults: one row for each fault, over all algorithms and actors."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.faults.faulty import FAULTS
from benchmarks.faults.trial import INTERRUPT_S, LIMIT_S, Trial
from programs.cli import ConfigError

BEGIN, END = "<!-- table of faults -->", "<!-- /table of faults -->"
"""Lines of a document between which the table stands."""


def told(trial: Trial) -> str:
    """One run in one line."""
    return f"{trial.fault}, actor {trial.actor}, {trial.algorithm}: {cell(trial)} {trial.line}"


def cell(trial: Trial) -> str:
    """What happened, after how many seconds, and what was lost."""
    seconds = "" if trial.seconds is None else f" {trial.seconds:.1f} s"
    parts = [f"{trial.outcome}{seconds}"]
    if trial.restarts:
        parts.append(f"{trial.restarts} restart{'s' * (trial.restarts > 1)}")
    if trial.outcome != "neither" and (trial.lost_s is None or trial.lost_s > 0):
        parts.append("all lost" if trial.lost_s is None else f"lost {trial.lost_s:.1f} s")
    waits = [one for one in (trial.interrupt_s, trial.interrupt_in_hang_s) if one is not None]
    if waits and (trial.outcome != "ended" or len(waits) > 1 or trial.interrupt_in_hang_s is not None):
        parts.append(f"Ctrl-C {max(waits):.1f} s{'' if trial.stored is not False else ', nothing stored'}")
    if trial.left:
        parts.append(f"{trial.left} processes left")
    return ", ".join(parts) + ("" if met(trial) else " ✗")


def met(trial: Trial) -> bool:
    """Whether the run went on or ended in time with a line that names environment and actor, and Ctrl-C ended it in time."""
    waits = [one for one in (trial.interrupt_s, trial.interrupt_in_hang_s) if one is not None]
    named = "environment faulty:Faulty" in trial.line and f"actor g0.a{trial.actor}" in trial.line
    if trial.outcome == "ended" and trial.interrupt_s is None and not named:
        return False
    return (
        trial.outcome != "neither"
        and trial.seconds is not None
        and trial.seconds <= LIMIT_S
        and trial.stored is not False
        and trial.lost_s is not None
        and not trial.left
        and max(waits, default=0.0) <= INTERRUPT_S
    )


def table(trials: Sequence[Trial]) -> str:
    """One row a fault, as a Markdown table: the least and the greatest seconds of its runs."""
    lines = ["| fault | outcome | after | lost | Ctrl-C | passed |", "|---" * 6 + "|"]
    for fault in FAULTS:
        if runs := [trial for trial in trials if trial.fault == fault]:
            interrupts = ([run.interrupt_s, run.interrupt_in_hang_s] for run in runs)
            waits = [max(known) for both in interrupts if (known := [one for one in both if one is not None])]
            ended = [run.outcome == "ended" for run in runs]
            cells = (
                " or ".join(sorted({run.outcome for run in runs})),
                _range([run.seconds for run in runs]),
                _range([run.lost_s for run in runs]),
                # A run that ends by itself is not interrupted.
                "-" if all(ended) and len(waits) < len(runs) else _range(waits),
                f"{sum(map(met, runs))} of {len(runs)}",
            )
            lines.append(f"| {fault} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"**{sum(map(met, trials))} of {len(trials)} runs passed.**"])


def _range(values: Sequence[float | None]) -> str:
    if not values or None in values:
        return "unknown"
    known = sorted({f"{value:.1f}" for value in values}, key=float)
    return " to ".join(dict.fromkeys((known[0], known[-1])))


def documented(text: str, trials: Sequence[Trial]) -> str:
    """A document with the table between its two lines.

    Raises
    ------
    ConfigError
        if it does not have these lines, once each.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ConfigError(f"the document needs one line {BEGIN} and one line {END} after it")
    return f"{before}{begin}\n\n{table(trials)}\n\n{end}{after}"
