"""Analysis of asynchrony bundles: ratios, the winner of a cell, and how predictions did. It is pure.

A cell's *leaders* are its fastest discipline and all whose ratio to it has an interval that reaches into ±10 %. The freshest of
them wins. A cell is a *tie* if the interval of the fastest one's ratio to the barrier reaches into ±10 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from statistics import fmean

from suites.asynchrony.sweep import BARRIER
from suites.convergence import analysis as convergence
from suites.disciplines import analysis as disciplines
from suites.records.bundle import Bundle
from suites.records.events import Counter, FirstStep, Phase, Progress, Usage
from suites.records.predictions import TIE, Predictions, freshest, winner
from suites.records.statement import Statement
from suites.statistics import summary
from suites.statistics.intervals import Estimate, bootstrap_iqm, paired_ratio
from suites.statistics.summary import AGAIN, Row, label_of

CONTENDED = 0.7
"""Share of the machine above which a cell shows the machine rather than waiting rules."""
CHOSEN = "chosen_"
"""Begins the name of the counter of a choice."""

row = partial(summary.row, "asynchrony")


Block = tuple[str, int]
"""Session and block."""


@dataclass(frozen=True)
class Choice:
    """What a run under `auto` chose."""

    rule: str
    price: float


def choice(b: Bundle) -> Choice | None:
    """The choice of a run; None: it made none."""
    counted = {event.name: event.value for event in b.of(Counter)}
    rules = [name.removeprefix(CHOSEN) for name in counted if name.startswith(CHOSEN)]
    return Choice(rules[0].replace("_", "-"), counted.get("choice_price", 0.0)) if rules else None


def machine_share(b: Bundle) -> float | None:
    """CPU seconds over cores x time, of all processes of a run, from its first step to its last progress."""
    began = next((event.ns for event in b.of(FirstStep)), None)
    ended = max((event.ns for event in b.of(Progress)), default=None)
    if began is None or ended is None:
        return None
    within = [event for event in b.of(Usage) if began <= event.ns <= ended]
    if len(within) < 2:
        return None
    first, last = within[0], within[-1]
    return (last.cpu_s - first.cpu_s) / (b.manifest.cores * (last.ns - first.ns) / 1e9)


def rates(bundles: Iterable[Bundle]) -> dict[str, dict[Block, float]]:
    """Samples trained on a second, by system and block."""
    found: dict[str, dict[Block, float]] = {}
    for b in bundles:
        rate = disciplines.rate(b, "samples_consumed_unique", "learner")
        if rate:
            found.setdefault(label_of(b), {})[b.manifest.session, b.manifest.block] = rate
    return found


def over(one: Mapping[Block, float], other: Mapping[Block, float]) -> Estimate:
    """Samples a second over other ones, within the blocks that have both."""
    common = sorted(one.keys() & other.keys())
    return paired_ratio(
        [one[block] for block in common], [other[block] for block in common], [session for session, _ in common]
    )


def summarise(bundles: Sequence[Bundle], runs: Sequence[convergence.Run] = ()) -> list[Row]:
    """Rows of `summary.json` of one cell: those of the disciplines suite, ratios to the fastest, and shares of the machine."""
    rows = [one | {"suite": "asynchrony"} for one in disciplines.summarise(bundles) + disciplines.learnt(runs)]
    by_label: dict[str, list[Bundle]] = {}
    for b in bundles:
        by_label.setdefault(label_of(b), []).append(b)
    for label, own in sorted(by_label.items()):
        shares = [share for b in own if (share := machine_share(b)) is not None]
        if shares:
            rows.append(row(own[0].manifest.workload, label, "machine_share", "share", bootstrap_iqm(shares)))
    found = {label: own for label, own in rates(bundles).items() if not label.endswith(AGAIN)}
    if found:
        fastest = max(found, key=lambda label: math.exp(fmean(map(math.log, found[label].values()))))
        for label, own_rates in sorted(found.items()):
            if label != fastest and own_rates.keys() & found[fastest].keys():
                ratio = over(own_rates, found[fastest])
                rows.append(row(bundles[0].manifest.workload, label, "over_fastest_ratio", "ratio", ratio, baseline=fastest))
    return rows


@dataclass(frozen=True)
class Outcome:
    """What one discipline gave in a cell, over the barrier's throughput."""

    system: str
    ratio: float
    low: float | None
    """Lower end of the ratio's interval."""
    over_fastest: float | None
    """Upper end of the interval of the ratio to the fastest, or the ratio where there is none; None for the fastest."""
    age_rounds: float


@dataclass(frozen=True)
class Cell:
    """One cell, measured."""

    workload: str
    actors: int
    rho: float
    m: float
    share: float
    """Largest share of the machine that any discipline used."""
    control: bool
    outcomes: tuple[Outcome, ...]

    @property
    def contended(self) -> bool:
        """Whether the machine may have decided."""
        return self.share > CONTENDED

    @property
    def fastest(self) -> Outcome:
        """The discipline of most throughput."""
        return next(one for one in self.outcomes if one.over_fastest is None)

    @property
    def leaders(self) -> tuple[Outcome, ...]:
        """The fastest, and all that are not shown to be slower by a tenth."""
        return tuple(one for one in self.outcomes if one.over_fastest is None or one.over_fastest >= 1 - TIE)

    @property
    def winner(self) -> Outcome:
        """The freshest of the leaders."""
        first = freshest((one.system, one.age_rounds) for one in self.leaders)
        return next(one for one in self.leaders if one.system == first)

    @property
    def tie(self) -> bool | None:
        """Whether the gain over the barrier reaches into ±10 %; None without an interval."""
        if self.fastest.system == BARRIER:
            return True
        return None if self.fastest.low is None else self.fastest.low < 1 + TIE


@dataclass(frozen=True)
class Miss:
    """A prediction that was wrong."""

    workload: str
    system: str
    what: str
    predicted: str
    measured: str

    def __str__(self) -> str:
        subject = self.workload if self.what == "winner" else f"{self.workload}, {self.system}"
        return f"{subject}: {self.predicted} predicted, {self.measured} measured"


@dataclass(frozen=True)
class Score:
    """How predictions did on held-out cells that are not contended."""

    winners: int
    """Cells whose winner was predicted exactly. That the prediction is among the leaders would say little: in most cells
    `tianji-relaxed` is."""
    always: int
    """Cells that the rule which wins most often would get right, if it were predicted everywhere."""
    of: int
    """Cells that are no ties."""
    within: int
    ratios: int
    """Ratios of a discipline to the barrier."""
    misses: tuple[Miss, ...]


def score(cells: Iterable[Cell], predictions: Predictions) -> Score:
    """Compare with what was predicted. Cells that calibrate, controls and contended cells take no part.

    Winners are judged in cells that are shown to be no ties, and so in none of a session of fewer than five blocks.
    """
    right = of = within = ratios = 0
    won: dict[str, int] = {}
    misses: list[Miss] = []
    for cell in cells:
        told = predictions.of(cell.workload)
        if cell.contended or cell.control or cell.workload in predictions.calibrating or not told:
            continue
        for one in cell.outcomes:
            if one.system == BARRIER or one.system not in told:
                continue
            ratios += 1
            foretold = told[one.system].ratio
            if abs(foretold / one.ratio - 1) <= TIE:
                within += 1
            else:
                misses.append(Miss(cell.workload, one.system, "ratio", f"{foretold:.2f}", f"{one.ratio:.2f}"))
        if cell.tie is not False:
            continue
        of += 1
        best = predicted_winner(predictions, cell)
        won[cell.winner.system] = won.get(cell.winner.system, 0) + 1
        if best == cell.winner.system:
            right += 1
        if best not in {one.system for one in cell.leaders}:
            misses.append(Miss(cell.workload, best, "winner", best, cell.winner.system))
    return Score(right, max(won.values(), default=0), of, within, ratios, tuple(misses))


def predicted_winner(predictions: Predictions, cell: Cell) -> str:
    """The discipline that was predicted to win, among those that ran."""
    told = predictions.of(cell.workload)
    ran = {one.system for one in cell.outcomes}
    return winner((one.system, one.steps_per_s, one.age_rounds) for one in told.values() if one.system in ran)


def calibration(cells: Iterable[Cell], predictions: Predictions) -> float | None:
    """Geometric mean of measured over predicted ratios in the cells that calibrate; None without any."""
    logs = [
        math.log(one.ratio / told[one.system].ratio)
        for cell in cells
        if cell.workload in predictions.calibrating and not cell.contended
        for told in [predictions.of(cell.workload)]
        for one in cell.outcomes
        if one.system in told and one.system != BARRIER
    ]
    return math.exp(fmean(logs)) if logs else None


def stated_before(bundles: Sequence[Bundle], stated: Mapping[str, Statement]) -> tuple[Predictions | None, str]:
    """The predictions that a comparison may use, or None and why there are none.

    They are those in the stated plans of all sessions, which were written before the first run. Predictions that are dated
    later than a plan, or than a session's first event, are refused.
    """
    found: dict[str, Predictions] = {}
    for session in dict.fromkeys(b.manifest.session for b in bundles):
        plan = stated.get(session)
        if plan is None or plan.predictions is None:
            return None, f"Session {session} stated no predictions in its plan, so nothing is compared."
        own = plan.predictions
        began = min(
            (event.wall_ns for b in bundles if b.manifest.session == session for event in b.of(Phase)),
            default=None,
        )
        if began is None or not _seconds(own.written) <= _seconds(plan.written) <= began / 1e9:
            return None, (
                f"Predictions of session {session} are dated {own.written}, and its plan {plan.written}: they are refused, "
                "because both must come before its first run."
            )
        found[own.digest] = own
    if len(found) > 1:
        return None, "Its sessions state different predictions, so nothing is compared."
    return next(iter(found.values())), ""


def _seconds(text: str) -> float:
    """Seconds since 1970 of a date in universal time; infinite where it is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return math.inf
