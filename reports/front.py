"""What the first page shows: seconds to the training return, a column a workload, and what stands below them. Pure functions.

A column is one workload on one machine, that on which most systems ran: seconds of machines are never pooled. Seconds are
expected running times: all time spent over the number of successes. Who is faster is said by `reports.verdict` alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from reports.claims import Judged
from reports.dataset import Dataset
from reports.estimate import Ratio, combined, paired, term
from reports.headline import Headline
from reports.pairs import REFERENCE, RELAXED, on_own_code
from reports.tables import number
from reports.verdict import KINDS, Verdict, questions, runs, tuned_runs
from reports.waiting import Mapped

KIND = KINDS[0]
COLUMNS = 6
OURS = (REFERENCE, RELAXED, "xingtian")
"""Systems of TianJi's code that the first page shows, beside the opponents of its questions."""
ASKED = ("ppo", "ppo-lander", "dqn", "dqn-lander")
"""Questions whose workloads are columns."""
FIRST = "ppo"
"""The question whose first workload is drawn."""
PEOPLE_USE = ("rllib", "sb3")
"""Opponents whose ratios are told first."""
ROWS = 3
"""Numbers of actors that are told of, the most at most."""


class Cell(NamedTuple):
    """One system in a column."""

    seconds: float | None
    """Expected running time to the training return; None where no run reached it."""
    spent: float
    """Of all runs together."""
    reached: int
    runs: int
    beaten: bool
    """Whether it is shown to be slower than the column's best, or that is not known."""

    @property
    def words(self) -> str:
        """`12.3`, `12.3 (7/8)`, or `> 60 (0/5)`; in bold where it is not shown to be slower than the best."""
        value = f"> {number(self.spent)}" if self.seconds is None else number(self.seconds)
        text = value if self.reached == self.runs else f"{value} ({self.reached}/{self.runs})"
        return text if self.beaten else f"**{text}**"


class Column(NamedTuple):
    """One workload on one machine."""

    workload: str
    algorithm: str
    machine: str
    budget: int
    target: float
    cells: dict[str, Cell]
    """By system."""
    seeds: int
    """Most runs of a system."""


class Line(NamedTuple):
    """A row of the table."""

    system: str
    title: str
    cells: list[Cell | None]
    verdicts: list[Verdict | None]
    """By algorithm of the columns."""


class Actors(NamedTuple):
    """What not waiting gains with so many actors."""

    actors: int
    cells: int
    least: float
    most: float
    rules: list[str]
    """Those that win, by name."""


def columns(data: Dataset) -> list[Column]:
    """The workloads of the questions, each on the machine on which most systems ran."""
    every = runs(data)
    every = every[every["threshold_kind"] == KIND]
    names = dict.fromkeys(name for one in questions() if one.id in ASKED for name in one.workloads)
    shown = {*OURS, *(name for one in questions() for name in one.opponents)}
    found = []
    for workload in names:
        own = every[(every["workload"] == workload) & every["system"].isin(shown)]
        if own["system"].nunique() > 1:
            found.append(_column(data, workload, own))
    return found[:COLUMNS]


def _column(data: Dataset, workload: str, own: pd.DataFrame) -> Column:
    size = own.groupby("machine").agg(systems=("system", "nunique"), runs=("system", "size")).sort_index()
    machine = str(size.sort_values(["systems", "runs"], kind="stable").index[-1])
    here = own[own["machine"] == machine]
    spent = here["seconds"].fillna(here["measured_s"]).groupby(here["system"]).sum()
    reached, count = (here.groupby("system")["seconds"].agg(how) for how in ("count", "size"))
    best = min(reached.index, key=lambda system: spent[system] / reached[system] if reached[system] else math.inf)
    cells = {
        str(system): Cell(
            float(spent[system] / reached[system]) if reached[system] else None,
            float(spent[system]),
            int(reached[system]),
            int(count[system]),
            system != best and _beaten(here, str(best), str(system)),
        )
        for system in reached.index
    }
    described = next(b.manifest.configuration["workload"] for b in data.bundles if b.manifest.workload == workload)
    budget, target = described["budget_steps"], described["thresholds"][KIND]
    return Column(workload, str(described["algo"]), machine, budget, target, cells, int(count.max()))


def _beaten(here: pd.DataFrame, best: str, other: str) -> bool:
    ratio = _ratio(here, best, other)
    return ratio is None or ratio.low is None or ratio.low > 1


def _ratio(some: pd.DataFrame, ours: str, theirs: str) -> Ratio | None:
    found = term(paired(some, ours, theirs))
    return None if found is None else combined([found], found.strata)


def algorithms(shown: Sequence[Column]) -> list[str]:
    """Those of the columns, in their order."""
    return list(dict.fromkeys(one.algorithm for one in shown))


def lines(data: Dataset, shown: Sequence[Column], head: Headline) -> list[Line]:
    """The rows of the table: TianJi first, then the others with the quickest first."""
    titles = {b.manifest.system: b.manifest.system_title for b in data.bundles}
    systems = {system for column in shown for system in column.cells}

    def place(system: str) -> tuple[int, float]:
        rank = OURS.index(system) if system in OURS[:2] else 2
        # How far it is from TianJi in the columns where both reached the return.
        far = [
            cell.seconds / ours.seconds
            for column in shown
            if (cell := column.cells.get(system)) and (ours := column.cells.get(REFERENCE)) and cell.seconds and ours.seconds
        ]
        return rank, sum(far) / len(far) if far else float("inf")

    return [
        Line(
            system,
            titles[system],
            [column.cells.get(system) for column in shown],
            [_verdict(head, algorithm, system) for algorithm in algorithms(shown)],
        )
        for system in sorted(systems, key=place)
    ]


def _verdict(head: Headline, algorithm: str, system: str) -> Verdict | None:
    """The verdict on a system in the first question of an algorithm that asks for it; of relaxed, that on strict beside it."""
    asked = [answer for answer in head.answers if answer.question.algorithm == algorithm]
    for answer in asked:
        for one in answer.verdicts:
            if system == (RELAXED if answer.question.ours == RELAXED else one.opponent):
                return one
    return None


def said(one: Verdict | None) -> str:
    """A verdict in a cell: `faster: 8.04x`, `not measured enough: 3 more blocks`."""
    if one is None:
        return "-"
    if one.word in ("faster", "slower", "the same") and one.ratio is not None:
        figure = one.figure.partition(" [")[0]
        return f"{one.word} than strict: {figure}" if one.question.ours == RELAXED else f"{one.word}: {figure}"
    return one.said


class Tuned(NamedTuple):
    """TianJi over the quickest other system, each with settings that a tuning chose."""

    workload: str
    title: str
    ratio: Ratio
    blocks: int


def tuned(data: Dataset, shown: Sequence[Column]) -> Tuned | None:
    """Over the quickest other maker's system of the first column, so that no tuned run has a say in which one that is.

    None where the two were not tuned.
    """
    asked = next(one for one in questions() if one.id == FIRST)
    first = [one for one in shown if one.workload in asked.workloads][:1]
    cells = [
        (cell.seconds, name) for one in first for name, cell in one.cells.items() if name in asked.opponents and cell.seconds
    ]
    if not cells:
        return None
    name = min(cells)[1]
    every = tuned_runs(data)
    every = every[(every["threshold_kind"] == KIND) & (every["workload"] == first[0].workload)]
    found = term(paired(every, REFERENCE, name))
    title = next(b.manifest.system_title for b in data.bundles if b.manifest.system == name)
    return None if found is None else Tuned(first[0].workload, title, combined([found], found.strata), found.pairs)


def of_one_workload(head: Headline) -> list[Verdict]:
    """Verdicts on other makers' systems of the questions of one workload, which no column of the table gives."""
    return [
        one
        for answer in head.answers
        if answer.question.id in ASKED and len(answer.question.workloads) == 1
        for one in answer.verdicts
        if not on_own_code(one.opponent)
    ]


def waiting(data: Dataset) -> list[Actors]:
    """What the best rule gains over the barrier on slow simulators, by number of actors."""
    found: dict[int, list[tuple[float, str]]] = {}
    for view in Mapped.all(data):
        for cells in view.by_delays.values():
            for cell in cells:
                found.setdefault(cell.actors, []).append((cell.winner.ratio, view.discipline(cell.winner.system)))
    most = sorted(found, key=lambda actors: (-len(found[actors]), actors))[:ROWS]
    return [
        Actors(
            actors,
            len(found[actors]),
            min(ratio for ratio, _ in found[actors]),
            max(ratio for ratio, _ in found[actors]),
            sorted({rule for _, rule in found[actors]}),
        )
        for actors in sorted(most)
    ]


class Paper(NamedTuple):
    """A line of the first page's claims."""

    says: str
    here: str


def papers(judged: Sequence[Judged]) -> list[Paper]:
    """What the paper says, and what was found here, in a line each."""
    rows: dict[str, list[str]] = {}
    for claim in (claim for claim in judged if claim.front):
        rows.setdefault(claim.front or "", []).append(" ".join(_here(claim)))
    return [Paper(says, "; ".join(here)) for says, here in rows.items()]


def _here(claim: Judged) -> Iterator[str]:
    values = [one.value for one in claim.evidence if one.value is not None and one.beside is None and one.system == REFERENCE]
    yield f"*{claim.verdict}*"
    if values:
        ends = dict.fromkeys(f"{number(end)}{'' if claim.share else 'x'}" for end in (min(values), max(values)))
        more = ", rebuilt on our kernels" if claim.steelman else " of the ceiling" if claim.share else ""
        yield f"({' to '.join(ends)}{more})"
