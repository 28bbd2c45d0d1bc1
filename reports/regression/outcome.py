"""What a comparison comes to, for whoever waits for it: a table, JSON, JUnit XML and a summary for a pull request."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from reports.words import Words, render
from suites.records import machine
from suites.statistics import gate
from suites.statistics.comparison import Comparison
from suites.statistics.gate import Judgement, Kind

SCHEMA = "tianji-bench/regression/1"
WORDS: dict[Kind, str] = {"worse": "WORSE", "equivalent": "the same"}
"""What a verdict is called, where that is not its name."""


class Line(Struct, frozen=True, kw_only=True):
    """One metric."""

    metric: str
    about: str
    unit: str
    better: str
    verdict: Kind
    base: float
    head: float
    """Medians over rounds."""
    ratio: float
    """Head over base."""
    ci_low: float
    ci_high: float
    p: float
    n: int


class Outcome(Struct, frozen=True, kw_only=True):
    """Everything that is said of a comparison."""

    schema: str = SCHEMA
    verdict: Kind
    """`worse`, `inconclusive`, or `not worse`."""
    rounds: int
    seconds: float
    size: float
    error: float
    lines: tuple[Line, ...]
    failed: tuple[str, ...]
    left_out: dict[str, str]
    planted: str | None
    environments: dict[str, dict[str, Any]]

    @property
    def headline(self) -> str:
        """In one sentence."""
        return Words("regression.j2", self).say("headline")


def of(comparison: Comparison) -> Outcome:
    """Judge a comparison as far as it came: at the last look that it reached, or else where it stands.

    Raises
    ------
    ValueError
        when there are too few rounds to say anything.
    """
    worsenings, better = comparison.worsenings(), comparison.better
    verdicts: dict[str, Judgement] = {}
    used = 0
    if comparison.metrics:
        verdicts, used, _ = gate.decide(worsenings, better, comparison.rule)
        if not verdicts:
            verdicts, used = gate.judge(worsenings, better, comparison.rule), len(comparison.rounds)
    lines = []
    for metric in comparison.metrics:
        verdict = verdicts[metric.name]
        medians = [
            statistics.median(pair[side] for one in comparison.rounds for pair in one.pairs[metric.name]) for side in (0, 1)
        ]
        lines.append(
            Line(
                metric=metric.name,
                about=metric.about,
                unit=metric.unit,
                better=metric.better,
                verdict=verdict.kind,
                base=medians[0],
                head=medians[1],
                ratio=verdict.ratio,
                ci_low=verdict.low,
                ci_high=verdict.high,
                p=verdict.p,
                n=verdict.n,
            )
        )
    kinds = {line.verdict for line in lines}
    worse = "worse" in kinds or bool(comparison.failed)
    return Outcome(
        verdict="worse" if worse else "inconclusive" if "inconclusive" in kinds else "not worse",
        rounds=used,
        seconds=sum(one.seconds for one in comparison.rounds[:used]),
        size=comparison.size,
        error=comparison.error,
        lines=tuple(lines),
        failed=comparison.failed,
        left_out=comparison.left_out,
        planted=comparison.planted,
        environments={str(side): environment for side, environment in comparison.environments.items()},
    )


HEADS = ("Metric", "Verdict", "Head / base", "95 %", "Base", "Head", "Unit", "n")


def cells(line: Line) -> tuple[str, ...]:
    """A metric as text, under `HEADS`."""
    return (
        line.metric,
        WORDS.get(line.verdict, line.verdict),
        f"{line.ratio:.3f}",
        f"{line.ci_low:.3f} to {line.ci_high:.3f}",
        f"{line.base:.4g}",
        f"{line.head:.4g}",
        f"{line.unit} ({line.better} is better)",
        str(line.n),
    )


def explained(outcome: Outcome) -> str:
    """What a verdict means here."""
    return Words("regression.j2", outcome).say("explained", machine.name(outcome.environments["head"]))


def markdown(outcome: Outcome) -> str:
    """A summary for a pull request."""
    worst_first = sorted(outcome.lines, key=lambda line: line.verdict != "worse")
    told = {"heads": HEADS, "cells": map(cells, worst_first), "explanation": explained(outcome)}
    return render("regression.md.j2", v=outcome, **told).strip() + "\n"


def junit(outcome: Outcome) -> str:
    """A test suite with a case for each metric: what is worse has failed, what is inconclusive was skipped."""
    return render("junit.xml.j2", v=outcome, words=WORDS)


def json(outcome: Outcome) -> str:
    """Everything, for programs."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=1).decode() + "\n"


FORMS: dict[str, Callable[[Outcome], str]] = {"json": json, "junit": junit, "markdown": markdown}
"""Of files that a comparison goes into."""
