"""How many times as fast TianJi reaches a return, by opponent: the numbers of the README's picture.

A line is one opponent under one algorithm; it holds a ratio, or a bound, of each workload. Ratios of several machines stand
beside each other; seconds of several machines are never pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from reports.bounds import Told
from reports.convergence.standings import FASTER, SLOWER, state_of
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.pairs import MODES, ON_POLICY, REFERENCE, RELAXED, SAME_CODE, SYNCHRONOUS, TUNED
from reports.staleness.view import Balanced
from reports.tables import counted, how_many, number
from reports.view import View

KIND = "evaluated"
"""The return that headlines use."""
ORDER = (
    "rllib",
    "rllib-old",
    "rllib-appo",
    "rllib-impala",
    "sample-factory",
    "torchrl",
    "sb3",
    "sbx",
    *SAME_CODE,
    *SYNCHRONOUS,
    REFERENCE,
)
"""Of opponents: systems of other code first. Unknown ones come before them, by name."""
USUAL = "closed"
"""The division that needs no name: the same settings for every system."""
DIGITS = 2
STAR = "*"
"""Marks a ratio of restricted means."""
MOST_LISTED = 2
"""Workloads whose ratios are told one by one."""


class Point(NamedTuple):
    """One workload of a line."""

    workload: str
    machine: str
    told: Told
    blocks: int

    @property
    def state(self) -> str:
        """One of `reports.convergence.standings.STATES`."""
        return state_of(self.told)

    @property
    def shown(self) -> bool:
        """Whether its own interval lies on one side of 1. That is no verdict: `reports.verdict` gives them."""
        return self.state in (FASTER, SLOWER)

    @property
    def starred(self) -> bool:
        """Whether its ratio is that of restricted means, because a side missed the return in some block."""
        return self.told.leading is not None and self.told.leading is self.told.mean

    @property
    def ends(self) -> tuple[float, float]:
        """Between which values the ratio is known to lie: twice the same, or a bound and no other end."""
        row = self.told.leading
        if row is None:
            return 0.0, math.inf
        value = float(row["value"])
        if self.starred:
            return value, value
        return (0.0 if self.told.bound == "at_most" else value, math.inf if self.told.bound == "at_least" else value)


class Line(NamedTuple):
    """TianJi over one opponent, under one algorithm and in one division."""

    division: str
    algorithm: str
    opponent: str
    title: str
    ours: str
    """Which TianJi: `REFERENCE` or `RELAXED`."""
    points: list[Point]

    @property
    def mode(self) -> str:
        """`strict` or `relaxed`, or `tuned` where a tuning chose; empty under an algorithm without this choice."""
        if TUNED in self.division:
            return TUNED
        return MODES[self.ours] if self.algorithm == ON_POLICY else ""

    @property
    def same_code(self) -> bool:
        """Whether the opponent is built on TianJi's code."""
        return self.opponent in (*SAME_CODE, *SYNCHRONOUS, REFERENCE)

    @property
    def median(self) -> tuple[float, float]:
        """Between which values the median over workloads is known to lie, bounds counted in."""
        low, high = zip(*(point.ends for point in self.points), strict=True)
        return _middle(low), _middle(high)

    @property
    def said(self) -> str:
        """The median as text: `8.8x`, `> 2.8x`, `2.4x to 3.0x`, or `?` where bounds leave it open."""
        return between(*self.median)

    @property
    def values(self) -> str:
        """Up to two workloads' ratios as text, `8.8x, 8.9x` or `2.4x, > 3.1x`; of more the median."""
        if len(self.points) > MOST_LISTED:
            return f"median {self.said}"
        return ", ".join(dict.fromkeys(between(*point.ends) + STAR * point.starred for point in self.points))

    @property
    def span(self) -> str:
        """The workloads' ratios as text, from the least to the greatest, then their bounds: `1.6x to 5.1x, < 2.6x`."""
        exact = [point.ends[0] for point in self.points if point.ends[0] == point.ends[1]]
        bounds = [between(*point.ends) for point in self.points if point.ends[0] != point.ends[1]]
        return ", ".join([between(min(exact), max(exact)), *bounds] if exact else bounds)


def between(low: float, high: float) -> str:
    """A number that lies between two others, as text; bounds are rounded so that they still hold."""
    if low <= 0 and high == math.inf:
        return "?"
    if low <= 0:
        return f"< {number(_outward(high, math.ceil), DIGITS)}x"
    if high == math.inf:
        return f"> {number(_outward(low, math.floor), DIGITS)}x"
    return " to ".join(dict.fromkeys(f"{number(end, DIGITS)}x" for end in (low, high)))


def _outward(value: float, way: Callable[[float], int]) -> float:
    """A positive number with `DIGITS` significant digits, rounded up or down."""
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    # What a float adds in its last places is no reason to go on to the next number.
    return way(round(value / unit, 6)) * unit


def _middle(values: Sequence[float]) -> float:
    """The median of ratios: of an even number, the geometric mean of the two in the middle."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    # A bound's missing end is 0 or infinite, and 0 times infinite is no number.
    return low if low == high else 0.0 if low == 0 else math.sqrt(low * high)


def overview(data: Dataset) -> list[Line]:
    """Every line, PPO first; workloads whose simulators wait are left out, for they stand for no claim."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], Point]] = {}
    titles: dict[str, str] = {}
    for view, ours, opponent, told in _pairs(data):
        manifest = view.bundles[0].manifest
        algorithm, division = str(view.description["algo"]), manifest.division + f", {TUNED}" * manifest.tuned
        titles.setdefault(opponent, view.titles[opponent])
        row = told.row
        blocks = row["n"] + row["censored"] if row is not None else len({b.manifest.block for b in view.bundles})
        point = Point(view.workload, view.key.machine, told, blocks)
        cell = found.setdefault((division, algorithm, opponent, ours), {})
        # Two suites may hold the same pair: the one with more blocks counts.
        if (other := cell.get(view.key[1:])) is None or other.blocks < blocks:
            cell[view.key[1:]] = point
    lines = [
        Line(division, algorithm, opponent, titles[opponent], ours, sorted(cell.values(), key=lambda point: point[:2]))
        for (division, algorithm, opponent, ours), cell in found.items()
    ]
    return sorted(lines, key=_place)


def _place(line: Line) -> tuple[str, bool, str, int, str, bool]:
    rank = ORDER.index(line.opponent) if line.opponent in ORDER else -1
    return line.division, line.algorithm != ON_POLICY, line.algorithm, rank, line.title, line.ours == RELAXED


def _pairs(data: Dataset) -> Iterator[tuple[View, str, str, Told]]:
    """TianJi strict and relaxed against every opponent, and relaxed against strict."""
    for view in filter(_counts, Trained.all(data)):
        for ours in MODES:
            for peer in view.peers:
                if peer not in MODES and KIND in view.met(ours, peer):
                    yield view, ours, peer, view.fast(ours, peer, KIND)
        if KIND in view.met(REFERENCE, RELAXED):
            yield view, RELAXED, REFERENCE, view.fast(REFERENCE, RELAXED, KIND).inverse
    for balanced in filter(_counts, Balanced.all(data)):
        told = balanced.fast(RELAXED, KIND)
        if told.row is not None or told.neither:
            yield balanced, RELAXED, REFERENCE, told


def _counts(view: View) -> bool:
    return not (view.description.get("simulator") or {}).get("step_seconds")


def machines(lines: Iterable[Line]) -> list[str]:
    """Those that the points are of."""
    return sorted({point.machine for line in lines for point in line.points})


def scope(lines: Sequence[Line]) -> str:
    """How many workloads and blocks the lines of one algorithm are of."""
    points = [point for line in lines for point in line.points]
    workloads = len({point.workload for point in points})
    blocks = how_many(point.blocks for point in points)
    return f"{counted(workloads, 'workload')}, {blocks} paired block{'s' * (blocks != '1')} each"


def found(lines: Sequence[Line]) -> list[str]:
    """What the picture shows, a sentence for each line: its alternative text."""
    said = []
    for line in lines:
        fast = _spoken(line.said)
        other = "strict TianJi" if line.opponent == REFERENCE else line.title
        several = f" (median of {len(line.points)} workloads: {line.span})" if len(line.points) > 1 else " (1 workload)"
        us = " ".join(filter(None, (line.mode.capitalize(), "TianJi")))
        mean = ", every run counted (restricted means)" * any(point.starred for point in line.points)
        where = "" if line.division == USUAL else f", {line.division.partition(',')[0]} division"
        said.append(f"{line.algorithm.upper()}{where}: {us} is {fast} as fast as {other}{_spoken(several)}{mean}.")
    return said


def _spoken(text: str) -> str:
    """Text without signs, to be read aloud."""
    for sign, word in ((">", "more than"), ("<", "less than"), ("?", "an unknown number of times")):
        text = text.replace(sign, word)
    return text
