"""The first screen of results: the declared questions with their verdicts, why TianJi is fast, and where it loses.

Pure functions from a dataset to what the README's and the summary's first lines are filled with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reports import families
from reports.dataset import Dataset
from reports.messages import Traffic
from reports.pairs import REFERENCE, first_runs, on_own_code
from reports.table import Row
from reports.training import Trained
from reports.verdict import KINDS, Question, Verdict, verdicts

KIND = KINDS[0]
"""Definition of the return that leads."""


class Runs(NamedTuple):
    """Runs of one system."""

    title: str
    reached: int
    of: int

    @property
    def words(self) -> str:
        """Such as `1 of 5`."""
        return f"{self.reached} of {self.of}"

    def above(self, other: Runs) -> bool:
        """Whether a larger share of these runs reached the return."""
        return self.reached * other.of > other.reached * self.of


class Missed(NamedTuple):
    """A return that other systems reached in a larger share of their runs than strict TianJi. No test is made."""

    view: Trained
    kind: str
    """Definition of the return."""
    ours: Runs
    others: list[Runs]

    @property
    def ahead(self) -> list[Runs]:
        """The systems that reached it in a larger share of their runs."""
        return [one for one in self.others if one.above(self.ours)]


class Answer(NamedTuple):
    """One question with a verdict for each opponent that was measured."""

    question: Question
    verdicts: list[Verdict]


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


class Headline(NamedTuple):
    """What the first screen says."""

    answers: list[Answer]
    """In the order of the questions; those of which nothing was measured are left out."""
    engineering: list[float]
    """The synchronous system of the same code over the systems of other code: ratios by workload, least first."""
    missed: list[Missed]
    slower: list[Slower]
    """The largest gap first."""


def headline(data: Dataset) -> Headline:
    """Everything that the first screen says of a dataset; lists are empty where nothing was measured."""
    found: dict[str, Answer] = {}
    for one in verdicts(data):
        found.setdefault(one.question.id, Answer(one.question, [])).verdicts.append(one)
    return Headline(
        list(found.values()),
        engineering=sorted(_engineering(data)),
        missed=[one for view in Trained.all(data) for one in _missed(view)],
        slower=sorted(_slower(Traffic.all(data)), key=lambda one: one.worst["value"]),
    )


def _missed(view: Trained) -> list[Missed]:
    """The returns that some run of TianJi missed, and another system reached in a larger share of its runs."""
    found = []
    for kind in KINDS:
        ours = _runs(view, REFERENCE, kind)
        others = [_runs(view, label, kind) for label in first_runs(view.labels) if label != REFERENCE]
        if ours is not None:
            found.append(Missed(view, kind, ours, [one for one in others if one is not None]))
    return [one for one in found if one.ahead]


def _runs(view: Trained, label: str, kind: str) -> Runs | None:
    row = view.find(label, "success_rate", threshold_kind=kind)
    return None if row is None else Runs(view.title(label), round(row["value"] * row["n"]), row["n"])


def _engineering(data: Dataset) -> Iterator[float]:
    for view in Trained.all(data):
        for opponent in view.peers:
            told = view.fast(view.synchronous or "", opponent, KIND)
            if not on_own_code(opponent) and told.row is not None and told.exact:
                yield told.row["value"]


def _slower(places: Iterable[Traffic]) -> Iterator[Slower]:
    found = [(traffic, label, traffic.ratios(label)) for traffic in places for label in traffic.competitors]
    cells = sum(len(rows) for _, _, rows in found)
    for traffic, label, rows in found:
        shown = [row for row in rows if row["ci_high"] is not None and row["ci_high"] < 1]
        if shown:
            worst = families.extreme(min(shown, key=lambda row: row["value"]), cells)
            yield Slower(traffic.name, traffic.title(label), worst, len(shown), len(rows), cells)
