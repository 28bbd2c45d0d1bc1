"""The first screen of results: against which systems TianJi wins, by how much, and where it loses.

Pure functions from a dataset to what the README's and the summary's first lines are filled with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reports import families
from reports.bounds import Told
from reports.convergence.standings import FASTER, OPEN, SLOWER
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.overview import KIND, USUAL, Line, overview
from reports.pairs import REFERENCE, RELAXED
from reports.reached import Missed, missed
from reports.scaling.view import Scaled
from reports.staleness.view import Balanced
from reports.table import Row
from reports.transmission.view import Traffic
from reports.view import View


class Against(NamedTuple):
    """TianJi over one opponent, under one algorithm."""

    line: Line

    @property
    def shown(self) -> bool:
        """Whether TianJi is shown to be faster on every workload."""
        return self.line.agreed and self.line.points[0].state == FASTER

    @property
    def partly(self) -> bool:
        """Whether it is on any."""
        return self.count(FASTER) > 0

    def count(self, state: str) -> int:
        """Workloads in one of `reports.convergence.standings.STATES`."""
        return sum(point.state == state for point in self.line.points)


class Algorithm(NamedTuple):
    """All opponents under one algorithm."""

    name: str
    others: list[Against]
    """Systems of other code, in the order of reports."""
    same: list[Against]
    """Systems of the same code."""


class Lost(NamedTuple):
    """A workload on which an opponent is shown to be faster than TianJi."""

    title: str
    workload: str
    told: Told


class Fewer(NamedTuple):
    """A system that may be another algorithm."""

    title: str
    workload: str
    kind: str
    row: Row
    """Its steps over those of the reference."""


class Slower(NamedTuple):
    """A pipe that moves messages faster than TianJi's channel, in one place."""

    place: str
    title: str
    worst: Row
    """The lowest of the ratios whose whole interval is below 1; its interval is widened for all that it was picked from."""
    below: int
    """Number of ratios to this pipe in this place whose whole interval is below 1."""
    ratios: int
    cells: int
    """Of all pipes and places, from which the lowest is picked."""


class Duels(NamedTuple):
    """TianJi over every opponent on one workload and machine."""

    algorithm: str
    workload: str
    machine: str
    target: float
    """Evaluated return."""
    cells: list[tuple[Told, str]]
    """By opponent: the ratio, and one of `reports.convergence.standings.STATES`; it is open where they did not meet."""


class Kin(NamedTuple):
    """TianJi over one system on its own code, on all workloads."""

    title: str
    slower: list[str]
    """Workloads on which TianJi is shown to be slower."""
    faster: list[str]
    undecided: int


class Headline(NamedTuple):
    """What the first screen says."""

    algorithms: list[Algorithm]
    opponents: list[str]
    """Titles of all opponents, in the order of reports."""
    duels: list[Duels]
    """By workload and machine."""
    kin: list[Kin]
    engineering: list[float]
    """The synchronous system of the same code over the systems of other code: ratios by workload, least first."""
    relaxing: list[tuple[str, Row]]
    """By workload, how many times as fast relaxed TianJi is as strict."""
    fewer: list[Fewer]
    """Systems that need significantly fewer steps than the reference of their algorithm."""
    nodes: list[tuple[str, int, Row]]
    """By experiment and number of nodes, throughput over the XingTian-style system's."""
    lost: list[Lost]
    missed: list[Missed]
    slower: list[Slower]
    """The largest gap first."""


def headline(data: Dataset) -> Headline:
    """Everything that the first screen says of a dataset; lists are empty where nothing was measured."""
    found: dict[str, list[Against]] = {}
    for line in overview(data):
        if line.ours == REFERENCE and line.division == USUAL:
            found.setdefault(line.algorithm, []).append(Against(line))
    algorithms = [
        Algorithm(name.upper(), [one for one in own if not one.line.same_code], [one for one in own if one.line.same_code])
        for name, own in found.items()
    ]
    against = [one for algorithm in algorithms for one in (*algorithm.others, *algorithm.same)]
    return Headline(
        algorithms,
        list(dict.fromkeys(one.line.title for one in against)),
        list(_duels(data, against)),
        kin=list(_kin([one for one in against if one.line.same_code])),
        engineering=sorted(_engineering(data, {one.line.opponent for one in against if not one.line.same_code})),
        relaxing=list(_relaxing(data)),
        fewer=list(_fewer([*Trained.all(data), *Balanced.all(data)])),
        nodes=list(_nodes(data)),
        lost=[
            Lost(one.line.title, point.workload, point.told)
            for one in against
            for point in one.line.points
            if point.state == SLOWER
        ],
        missed=[one for view in Trained.all(data) for one in _missed(view)],
        slower=sorted(_slower(Traffic.all(data)), key=lambda one: one.worst["value"]),
    )


def _duels(data: Dataset, against: Sequence[Against]) -> Iterator[Duels]:
    targets = {view.workload: float(view.description["thresholds"][KIND]) for view in Trained.all(data)}
    titles = list(dict.fromkeys(one.line.title for one in against))
    met = {
        (one.line.algorithm.upper(), point.workload, point.machine, one.line.title): (point.told, point.state)
        for one in against
        for point in one.line.points
    }
    for algorithm, workload, machine in dict.fromkeys(key[:3] for key in met):
        cells = [met.get((algorithm, workload, machine, title), (Told(None), OPEN)) for title in titles]
        yield Duels(algorithm, workload, machine, targets[workload], cells)


def _kin(against: Sequence[Against]) -> Iterator[Kin]:
    for title in dict.fromkeys(one.line.title for one in against):
        points = [point for one in against if one.line.title == title for point in one.line.points]
        slower, faster = ([point.workload for point in points if point.state == state] for state in (SLOWER, FASTER))
        yield Kin(title, slower, faster, len(points) - len(slower) - len(faster))


def _missed(view: Trained) -> list[Missed]:
    """The returns that verdicts are of, and others only where another system reached them more often."""
    return [one for one in missed(view) if one.kind == KIND or one.ahead]


def _engineering(data: Dataset, opponents: Iterable[str]) -> Iterator[float]:
    for view in Trained.all(data):
        for opponent in opponents:
            told = view.fast(view.synchronous or "", opponent, KIND)
            if told.row is not None and told.exact:
                yield told.row["value"]


def _relaxing(data: Dataset) -> Iterator[tuple[str, Row]]:
    for view in Balanced.all(data):
        told = view.fast(RELAXED, KIND)
        if told.leading is not None and not told.bound:
            yield view.name, told.leading


def _fewer(views: Iterable[View]) -> Iterator[Fewer]:
    for view in views:
        for label in view.shown:
            for kind, row in view.fewer(label).items():
                yield Fewer(view.title(label), view.name, kind, row)


def _nodes(data: Dataset) -> Iterator[tuple[str, int, Row]]:
    for scaled in Scaled.all(data):
        row = scaled.over("unique_consumption_ratio", "xingtian", scaled.most)
        if row is not None:
            yield scaled.name, scaled.most, row


def _slower(places: Iterable[Traffic]) -> Iterator[Slower]:
    found = [(traffic, label, traffic.ratios(label)) for traffic in places for label in traffic.competitors]
    cells = sum(len(rows) for _, _, rows in found)
    for traffic, label, rows in found:
        shown = [row for row in rows if row["ci_high"] is not None and row["ci_high"] < 1]
        if shown:
            worst = families.extreme(min(shown, key=lambda row: row["value"]), cells)
            yield Slower(traffic.name, traffic.title(label), worst, len(shown), len(rows), cells)
