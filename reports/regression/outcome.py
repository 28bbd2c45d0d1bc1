"""The result of a comparison: a table, JSON, JUnit XML, a summary in Markdown, and a comment on a pull request."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from programs.characters import one_line
from reports.words import TEXT, Words, render
from suites.records import machine
from suites.statistics import gate
from suites.statistics.comparison import Comparison, Metric
from suites.statistics.gate import Judgement, Kind

SCHEMA = "tianji-bench/regression/1"
NO_CHANGE = "not significantly different"
SPEED = re.compile(r"([numµ]?s|ms|seconds?|minutes?|.+/(s|sec|second|min))", re.IGNORECASE)
"""Units of times and rates: less time, or a higher rate, is *faster*."""
COMMENT_ROWS, COMMENT_CHARACTERS = 50, 60_000
"""Of a comment; GitHub takes 65,536 characters."""
LONGEST_NAME = 120
"""Characters of a name or reason in a comment."""


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
    change: str
    """Of the head against the base, in words: `1.09x slower`."""


class Outcome(Struct, frozen=True, kw_only=True):
    """Everything that is said of a comparison."""

    schema: str = SCHEMA
    verdict: Literal["worse", "inconclusive", "not worse", "unusable"]
    reason: str | None = None
    """Why nothing can be said, where the verdict is `unusable`."""
    rounds: int = 0
    seconds: float = 0.0
    size: float
    error: float
    lines: tuple[Line, ...] = ()
    mean_worsening: float | None = None
    """How many times worse the head is: geometric mean over metrics, where there are several."""
    mean_change: str | None = None
    """The same in words."""
    failed: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    planted: str | None = None
    environments: dict[str, dict[str, Any]]

    @property
    def headline(self) -> str:
        """In one sentence."""
        return self.sentence("string")

    def sentence(self, quote: str) -> str:
        """The same; `quote` is the filter of templates that names of metrics go through."""
        return Words("regression.j2", self).say("headline", quote)


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
    lines = [_line(metric, verdicts[metric.name], comparison) for metric in comparison.metrics]
    kinds = {line.verdict for line in lines}
    worse = "worse" in kinds or bool(comparison.failed)
    return Outcome(
        verdict="worse" if worse else "inconclusive" if "inconclusive" in kinds else "not worse",
        rounds=used,
        seconds=sum(one.seconds for one in comparison.rounds[:used]),
        size=comparison.size,
        error=comparison.error,
        lines=tuple(lines),
        **_mean(lines, [values[:used] for values in worsenings.values()], comparison.rule),
        failed=comparison.failed,
        left_out=comparison.left_out,
        planted=comparison.planted,
        environments={str(side): environment for side, environment in comparison.environments.items()},
    )


def _line(metric: Metric, verdict: Judgement, comparison: Comparison) -> Line:
    pairs = [pair for one in comparison.rounds for pair in one.pairs[metric.name]]
    open_ended = verdict.low <= 1 <= verdict.high
    return Line(
        metric=metric.name,
        about=metric.about,
        unit=metric.unit,
        better=metric.better,
        verdict=verdict.kind,
        base=statistics.median(base for base, _ in pairs),
        head=statistics.median(head for _, head in pairs),
        ratio=verdict.ratio,
        ci_low=verdict.low,
        ci_high=verdict.high,
        p=verdict.p,
        n=verdict.n,
        change=NO_CHANGE if open_ended else changed(verdict.ratio, metric.better, metric.unit),
    )


def unusable(reason: str, environments: dict[str, dict[str, Any]], size: float, error: float) -> Outcome:
    """The outcome of a comparison that could not be made."""
    return Outcome(verdict="unusable", reason=reason, size=size, error=error, environments=environments)


def changed(ratio: float, better: str, unit: str) -> str:
    """A ratio of head over base in words: `1.09x slower` for times and rates, otherwise `1.20x higher`."""
    factor = f"{max(ratio, 1 / ratio):.2f}x"
    if SPEED.fullmatch(unit):
        return f"{factor} {'faster' if (ratio > 1) is (better == 'higher') else 'slower'}"
    return f"{factor} {'higher' if ratio > 1 else 'lower'}"


def _mean(lines: list[Line], worsenings: list[list[float]], rule: gate.Rule) -> dict[str, Any]:
    """The geometric mean over several metrics, as a number and in words; each round has one."""
    if len(lines) < 2:
        return {}
    rounds = [statistics.fmean(values) for values in zip(*worsenings, strict=True)]
    found = gate.judge({"mean": rounds}, {"mean": "lower"}, rule)["mean"]
    good, bad = ("faster", "slower") if all(SPEED.fullmatch(line.unit) for line in lines) else ("better", "worse")
    words = f"{max(found.ratio, 1 / found.ratio):.2f}x {bad if found.ratio > 1 else good}"
    return {"mean_worsening": found.ratio, "mean_change": NO_CHANGE if found.low <= 1 <= found.high else words}


HEADS = ("Metric", "Verdict", "Change", "Head / base", "95 %", "Base", "Head", "Unit", "n")


def called(verdict: Kind, size: float) -> str:
    """A verdict in words."""
    return {"worse": "WORSE", "equivalent": f"within {size:.0%}"}.get(verdict, verdict)


def cells(line: Line, size: float, quote: Callable[[str], str] = str) -> tuple[str, ...]:
    """A metric as text, under `HEADS`.

    Parameters
    ----------
    size
        smallest change that matters.
    quote
        is applied to text that came with the measurement.
    """
    return (
        quote(line.metric),
        called(line.verdict, size),
        line.change,
        f"{line.ratio:.3f}",
        f"{line.ci_low:.3f} to {line.ci_high:.3f}",
        f"{line.base:.4g}",
        f"{line.head:.4g}",
        f"{quote(line.unit)} ({line.better} is better)" if line.unit else f"{line.better} is better",
        str(line.n),
    )


def explained(outcome: Outcome) -> str:
    """What a verdict means here."""
    return Words("regression.j2", outcome).say("explained", machine.name(outcome.environments["head"]))


def markdown(outcome: Outcome, most: int | None = None) -> str:
    """A summary for a pull request.

    Parameters
    ----------
    most
        rows and other entries that are shown; None: all.
    """
    worst_first = sorted(outcome.lines, key=lambda line: (line.verdict != "worse", line.verdict != "inconclusive"))
    rows = [HEADS, ("---",) * len(HEADS), *(cells(line, outcome.size, code) for line in worst_first[:most])]
    told = {"rows": rows, "most": most, "headline": outcome.sentence("code")}
    return render("regression.md.j2", v=outcome, explanation=explained(outcome) if rows[2:] else "", **told).strip() + "\n"


def comment(outcome: Outcome, name: str) -> str:
    """The summary as a comment on a pull request: short enough, and with a first line by which it is found again.

    Parameters
    ----------
    name
        tells several gates of one pull request apart; letters, digits and dashes.
    """
    begin = f"{marker(name)}\n"
    for rows in (COMMENT_ROWS, COMMENT_ROWS // 5, 0):
        text = begin + markdown(outcome, rows)
        if len(text) <= COMMENT_CHARACTERS:
            break
    return text


def marker(name: str) -> str:
    """First line of a gate's comment."""
    return f"<!-- tianji-bench gate: {name} -->"


def code(value: Any) -> str:
    """Text that came with a measurement as code in Markdown: it forms no link, mentions no user and ends no cell."""
    text = one_line(str(value))
    text = text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."
    if not re.search(r"[\\|`]", text):
        return f"`{text}`"
    # A code span cannot hold all of these within a table.
    escaped = re.sub(r"[^\w \-./:]", lambda found: f"&#{ord(found[0])};", text, flags=re.ASCII)
    return f"<code>{escaped.replace('_', '&#95;')}</code>"


def junit(outcome: Outcome) -> str:
    """A test suite with a case for each metric: what is worse has failed, what is inconclusive was skipped."""
    return render("junit.xml.j2", v=outcome, called=called)


def json(outcome: Outcome) -> str:
    """Everything, for programs."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=1).decode() + "\n"


FORMS: dict[str, Callable[[Outcome], str]] = {"json": json, "junit": junit, "markdown": markdown}
"""Of files that a comparison goes into."""


TEXT.filters["code"] = code
