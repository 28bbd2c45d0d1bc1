"""What the first screen says, of a README and of a report: verdicts, a table of seconds, why TianJi is fast, where it loses.

A column of the table is one workload on one machine, that on which most systems ran: seconds of machines are never pooled. Who
is faster is said by `reports.verdict` alone. Functions are pure; lists are empty where nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from reports import picker
from reports.claims import Judged
from reports.dataset import Dataset
from reports.estimate import Ratio, combined, paired, term
from reports.losses import Between, Slower, losses
from reports.pairs import REFERENCE, RELAXED, first_runs, on_own_code
from reports.picker import Bar
from reports.tables import number
from reports.training import Trained
from reports.verdict import KINDS, TUNED, Question, Verdict, questions, runs, verdicts
from reports.waiting import Mapped

KIND = KINDS[0]
"""Definition of the return that leads."""
COLUMNS = 6
OURS = (REFERENCE, RELAXED, "xingtian")
"""Systems of TianJi's code that the first page shows, beside the opponents of its questions."""
ASKED = ("ppo", "ppo-lander", "dqn", "dqn-lander")
"""Questions whose workloads are columns."""
FIRST = "ppo"
"""The question whose first workload is drawn."""
PEOPLE_USE = ("rllib", "sb3")
"""Opponents whose ratios are told first."""
DECIDED = ("faster", "slower", "the same")
"""Verdicts that answer a question."""
SAID = {"holds in analogue": "holds on a small machine"}
"""What a verdict of the ledger is called by the first page, where its own name would need an explanation."""
RATES = {
    "Pictures": ("pong84-ppo-rate", "pong42-ppo-rate"),
    "SAC": ("halfcheetah-sac-brief", "pendulum-sac-brief"),
}
"""Workloads that are for steps/s alone, by what they are of."""
GAME = "pong42-ppo"
"""A game that is trained to a return."""
ROWS = 3
"""Numbers of actors that are told of, the most at most."""


class Missed(NamedTuple):
    """A return that another system reached in more runs than strict TianJi, of blocks in which both ran. No test is made."""

    view: Trained
    kind: str
    title: str
    ours: int
    """Runs of TianJi that reached it."""
    theirs: int
    blocks: int


class Answer(NamedTuple):
    """One question with a verdict for each opponent that was measured."""

    question: Question
    verdicts: list[Verdict]


class Headline(NamedTuple):
    """What stands beside the table."""

    answers: list[Answer]
    """In the order of the questions; those of which nothing was measured are left out."""
    engineering: list[float]
    """The synchronous system of the same code over the systems of other code: ratios by workload, least first."""
    missed: list[Missed]
    slower: list[Slower]
    """The largest gap first."""
    between: list[Between]


def headline(data: Dataset) -> Headline:
    """Verdicts, engineering and losses."""
    found: dict[str, Answer] = {}
    for one in verdicts(data):
        found.setdefault(one.question.id, Answer(one.question, [])).verdicts.append(one)
    trained = Trained.all(data)
    slower, between = losses(data)
    return Headline(
        list(found.values()),
        engineering=sorted(ratio for view in trained for ratio in _engineering(view)),
        missed=[one for view in trained for one in _missed(view)],
        slower=slower,
        between=between,
    )


def _missed(view: Trained) -> Iterator[Missed]:
    every = view.points("crossings")
    for kind in KINDS:
        own = every[every["threshold_kind"] == kind]
        for label in first_runs(view.labels):
            both = paired(own, REFERENCE, label)
            ours, theirs = int(both["ours"].count()), int(both["theirs"].count())
            if theirs > ours:
                yield Missed(view, kind, view.title(label), ours, theirs, len(both))


def _engineering(view: Trained) -> Iterator[float]:
    for opponent in view.peers:
        told = view.fast(view.synchronous or "", opponent, KIND)
        if not on_own_code(opponent) and told.row is not None and told.exact:
            yield told.row["value"]


class Column(NamedTuple):
    """One workload on one machine."""

    workload: str
    machine: str
    algorithm: str
    target: float
    bars: dict[str, Bar]
    best: set[str]
    """Systems that are not shown to be slower than the quickest."""

    def words(self, system: str) -> str:
        """`12.3`, `12.3 (7/8)`, or `> 60 (0/5)`; in bold where it is not shown to be slower than the best."""
        bar = self.bars.get(system)
        if bar is None:
            return "-"
        value = f"> {number(bar.spent_s)}" if bar.seconds is None else number(bar.seconds)
        text = value if bar.reached == bar.runs else f"{value} ({bar.counted})"
        return f"**{text}**" if system in self.best else text


def columns(data: Dataset) -> list[Column]:
    """The workloads of the questions, each on the machine on which most systems ran."""
    shown = {*OURS, *(name for one in questions() for name in one.opponents)}
    found: dict[str, list[tuple[int, int, str, dict[str, Bar]]]] = {
        name: [] for one in questions() if one.id in ASKED for name in one.workloads
    }
    for choice, every in picker.bars(data).items():
        own = {bar.system: bar for bar in sorted(every) if bar.system in shown}
        if choice.workload in found and not choice.options and choice.kind == KIND and len(own) > 1:
            found[choice.workload].append((len(own), sum(bar.runs for bar in own.values()), choice.machine, own))
    most = {name: max(places, key=lambda place: place[:3])[2:] for name, places in found.items() if places}
    return [_column(data, name, *place) for name, place in most.items()][:COLUMNS]


def _column(data: Dataset, workload: str, machine: str, bars: dict[str, Bar]) -> Column:
    every = runs(data)
    here = every[(every["threshold_kind"] == KIND) & (every["workload"] == workload) & (every["machine"] == machine)]
    quickest = min(bars.values(), key=lambda bar: (bar.seconds is None, bar.seconds or 0.0, bar.system)).system
    ratios = {system: _ratio(here, quickest, system) for system in bars}
    best = {system for system, ratio in ratios.items() if ratio and ratio.low is not None and ratio.low <= 1}
    described = next(b.manifest.configuration["workload"] for b in data.bundles if b.manifest.workload == workload)
    return Column(workload, machine, str(described["algo"]), described["thresholds"][KIND], bars, {quickest, *best})


def _ratio(some: pd.DataFrame, ours: str, theirs: str) -> Ratio | None:
    found = term(paired(some, ours, theirs))
    return None if found is None else combined([found], found.strata)


class Line(NamedTuple):
    """A row of the table."""

    system: str
    title: str
    cells: list[str]
    verdicts: list[Verdict | None]
    """By algorithm of the columns."""


def algorithms(shown: Sequence[Column]) -> list[str]:
    """Those of the columns, in their order."""
    return list(dict.fromkeys(one.algorithm for one in shown))


def lines(data: Dataset, shown: Sequence[Column], head: Headline) -> list[Line]:
    """The rows of the table: TianJi first, then the others with the quickest first."""
    titles = {b.manifest.system: b.manifest.system_title for b in data.bundles}
    systems = {system for column in shown for system in column.bars}

    def place(system: str) -> tuple[int, float]:
        rank = OURS.index(system) if system in OURS[:2] else 2
        # How far it is from TianJi in the columns where both reached the return.
        both = [(column.bars.get(system), column.bars.get(REFERENCE)) for column in shown]
        far = [bar.seconds / ours.seconds for bar, ours in both if bar and ours and bar.seconds and ours.seconds]
        return rank, sum(far) / len(far) if far else math.inf

    return [
        Line(
            system,
            titles[system],
            [column.words(system) for column in shown],
            [_verdict(head, algorithm, system) for algorithm in algorithms(shown)],
        )
        for system in sorted(systems, key=place)
    ]


def _verdict(head: Headline, algorithm: str, system: str) -> Verdict | None:
    """The verdict on a system in the first question of an algorithm that asks for it; of relaxed, that on strict beside it."""
    asked = (answer for answer in head.answers if answer.question.algorithm == algorithm)
    every = (one for answer in asked for one in answer.verdicts)
    return next((one for one in every if system == (RELAXED if one.question.ours == RELAXED else one.opponent)), None)


def said(one: Verdict | None) -> str:
    """A verdict in a cell: `faster: 8.04x`, `not measured enough: 3 more blocks`."""
    if one is None:
        return "-"
    if one.word in DECIDED and one.ratio is not None:
        figure = one.figure.partition(" [")[0]
        return f"relaxed: {figure} as fast as strict" if one.question.ours == RELAXED else f"{one.word}: {figure}"
    return one.said


class People(NamedTuple):
    """What is told first of an algorithm."""

    algorithm: str
    workloads: tuple[str, ...]
    told: list[str]
    """Ratios over other makers' systems, with intervals: `8.04x [4.29, 15.1] as fast as RLlib`."""


def people(head: Headline) -> list[People]:
    """Ratios over the systems that people use; of an algorithm with few such ratios, over all other makers' systems."""
    found = []
    for answer in head.answers:
        if answer.question.id not in ASKED or len(answer.question.workloads) == 1:
            continue
        others = [one for one in answer.verdicts if not one.missing and not on_own_code(one.opponent)]
        chosen = [one for one in others if one.opponent in PEOPLE_USE]
        told = [
            f"{one.figure} as fast as {one.title}" + ("" if one.word in DECIDED else " (undecided)")
            for one in (chosen if len(chosen) > 1 else others)
        ]
        if told:
            found.append(People(answer.question.algorithm.upper(), tuple(answer.question.workloads), told))
    return found


class Tuned(NamedTuple):
    """TianJi over the quickest other system, each with settings that a tuning chose."""

    title: str
    workload: str
    ratio: Ratio
    blocks: int


def tuned(data: Dataset, shown: Sequence[Column]) -> Tuned | None:
    """Over the quickest other maker's system of the first column, so that no tuned run has a say in which one that is.

    None where the two were not tuned.
    """
    asked = next(one for one in questions() if one.id == FIRST)
    first = next((one for one in shown if one.workload in asked.workloads), None)
    bars = [bar for name, bar in first.bars.items() if name in asked.opponents and bar.seconds] if first else []
    if not first or not bars:
        return None
    other = min(bars, key=lambda bar: (bar.seconds, bar.system))
    every = runs(data, TUNED)
    every = every[(every["threshold_kind"] == KIND) & (every["workload"] == first.workload)]
    found = term(paired(every, REFERENCE, other.system))
    return None if found is None else Tuned(other.title, first.workload, combined([found], found.strata), found.pairs)


class Rate(NamedTuple):
    """How many times the steps/s of another system TianJi trains on, on one workload."""

    of: str
    workload: str
    title: str
    ratio: Ratio
    blocks: int

    @property
    def maker(self) -> str:
        """The other system without its form."""
        return self.title.partition(",")[0]


def rates(data: Dataset) -> list[Rate]:
    """Of workloads that have no return to reach: steps trained on over the whole of a run, blocks as pairs.

    Over the quickest other system, and over the quickest that people use where that is another.
    """
    every = runs(data)
    every = every[
        (every["threshold_kind"] == KIND) & every["workload"].isin([workload for some in RATES.values() for workload in some])
    ]
    each = every["measured_s"] / every["measured_steps"]
    every = every.assign(seconds=each, measured_s=each)
    titles = {b.manifest.system: b.manifest.system_title for b in data.bundles}
    found = []
    for of, workload in ((of, workload) for of, some in RATES.items() for workload in some):
        own = every[every["workload"] == workload]
        others = own[~own["system"].isin(OURS)].groupby("system")["seconds"].apply(lambda some: np.log(some).mean())
        used = others[[str(name).partition("-")[0] in PEOPLE_USE for name in others.index]]
        for other in dict.fromkeys(str(some.idxmin()) for some in (others, used) if len(some)):
            if (known := term(paired(own, REFERENCE, other))) is not None:
                found.append(Rate(of, workload, titles[other], combined([known], known.strata), known.pairs))
    return found


class Game(NamedTuple):
    """How long each system takes to a return in a game."""

    workload: str
    target: float
    told: list[str]
    """The quickest first: `14.2 TianJi`, in minutes; `> 30 (0/1) TianJi` where no run reached it."""
    runs: int
    """Of a system, at most."""


def game(data: Dataset) -> Game | None:
    """The game, on the machine on which most runs were made; None where two systems were not measured."""
    every = picker.bars(data).items()
    found = [bars for choice, bars in every if choice.workload == GAME and not choice.options and choice.kind == KIND]
    if not found:
        return None
    bars = max(found, key=lambda own: sum(bar.runs for bar in own))
    told = []
    for bar in sorted(bars, key=lambda bar: (bar.seconds is None, bar.seconds or bar.spent_s)):
        minutes = f"> {number(bar.spent_s / 60)}" if bar.seconds is None else number(bar.seconds / 60)
        told.append(f"{minutes}{'' if bar.reached == bar.runs else f' ({bar.counted})'} {bar.title}")
    described = next(b.manifest.configuration["workload"] for b in data.bundles if b.manifest.workload == GAME)
    return Game(GAME, described["thresholds"][KIND], told, max(bar.runs for bar in bars))


def of_one_workload(head: Headline) -> list[Verdict]:
    """Verdicts on other makers' systems of the questions of one workload, which no column of the table gives."""
    asked = [one for one in head.answers if one.question.id in ASKED and len(one.question.workloads) == 1]
    return [one for answer in asked for one in answer.verdicts if not on_own_code(one.opponent)]


class Actors(NamedTuple):
    """What not waiting gains with so many actors."""

    actors: int
    cells: int
    least: float
    most: float
    rules: list[str]
    """Those that win, by name."""


def waiting(data: Dataset) -> list[Actors]:
    """What the best rule gains over the barrier on slow simulators, by number of actors."""
    found: dict[int, list[tuple[float, str]]] = {}
    for view in Mapped.all(data):
        for cells in view.by_delays.values():
            for cell in cells:
                found.setdefault(cell.actors, []).append((cell.winner.ratio, view.discipline(cell.winner.system)))
    most = sorted(found, key=lambda actors: (-len(found[actors]), actors))[:ROWS]
    wins = {actors: list(zip(*found[actors], strict=True)) for actors in sorted(most)}
    return [
        Actors(actors, len(ratios), min(ratios), max(ratios), sorted(set(rules))) for actors, (ratios, rules) in wins.items()
    ]


class Paper(NamedTuple):
    """A line of the first page's claims."""

    says: str
    here: str


def papers(judged: Sequence[Judged]) -> list[Paper]:
    """What the paper says, and what was found here, in a line each."""
    rows: dict[str, list[str]] = {}
    for claim in judged:
        if claim.front:
            rows.setdefault(claim.front, []).append(_here(claim))
    return [Paper(says, "; ".join(here)) for says, here in rows.items()]


def _here(claim: Judged) -> str:
    own = [one for one in claim.evidence if one.value is not None and one.beside is None and one.system == REFERENCE]
    values = [one.value for one in own if one.value is not None]
    verdict = f"*{SAID.get(claim.verdict, claim.verdict)}*"
    if not values:
        return verdict
    ends = dict.fromkeys(f"{number(end)}{'' if claim.share else 'x'}" for end in (min(values), max(values)))
    least = min((one.corrected_low for one in own if one.corrected_low is not None), default=None)
    wide = claim.verdict == "inconclusive" and least is not None
    more = f", from {number(least)}x" if wide else " of the ceiling" if claim.share else ""
    return f"{verdict} ({' to '.join(ends)}{more})"
