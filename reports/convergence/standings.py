"""Who reaches a return faster, at a glance: TianJi against every peer on every workload, and on how many that is shown."""

from __future__ import annotations

from typing import NamedTuple

from reports.bounds import Told
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.pairs import REFERENCE
from reports.words import Words
from suites.statistics.crossings import KINDS

FASTER, SLOWER, BOUND, OPEN = STATES = ("faster", "slower", "bound", "open")


class Standing(NamedTuple):
    """Of one pair, on one workload and return."""

    kind: str
    """Of the return: evaluated or training."""
    told: Told
    state: str
    """One of `STATES`."""

    @property
    def words(self) -> str:
        """`8.81x [4.62, 16.8]`, or a bound."""
        return self.told.words


class Counted(NamedTuple):
    """On how many workloads a pair has a state."""

    state: str
    number: int
    values: list[float]
    """The least and the greatest ratio that shows it, of those that are shown to be faster or slower."""


class Line(NamedTuple):
    """What is known of one peer."""

    peer: str
    cells: list[list[Standing]]
    """By workload, none where they did not meet; in each the evaluated return first."""

    @property
    def counts(self) -> dict[str, list[Counted]]:
        """By return, the states that there are."""
        by_kind = {kind: [one for cell in self.cells for one in cell if one.kind == kind] for kind in KINDS}
        return {kind: [*filter(None, (_counted(own, state) for state in STATES))] for kind, own in by_kind.items() if own}

    def met(self, kind: str) -> int:
        """On how many workloads there is anything to tell of a return."""
        return sum(one.kind == kind for cell in self.cells for one in cell)


class Standings(NamedTuple):
    """A line for each peer, a cell for each workload."""

    workloads: list[str]
    blocks: list[str]
    """By workload: how many."""
    lines: list[Line]
    noun: str = "workload"
    """What a cell is of: a `case` is a workload on one of several machines."""

    @property
    def sentences(self) -> list[str]:
        """One for each peer: on how many workloads TianJi is faster, by how much, and on how many that is open."""
        return Words("standings.j2", self).lines("sentences")


def state_of(told: Told) -> str:
    """Whether the reference is shown to be faster, or slower; a bound has no interval, and shows neither."""
    row = told.row
    if row is not None and told.bound:
        return BOUND
    if row is None or row["ci_low"] is None:
        return OPEN
    return FASTER if row["ci_low"] > 1 else SLOWER if row["ci_high"] < 1 else OPEN


def standings(data: Dataset) -> Standings:
    """TianJi against every peer, on the workloads on which it met any."""
    blocks = {view: view.blocks(*((REFERENCE, peer) for peer in view.peers)) for view in Trained.all(data)}
    views = [view for view, counts in blocks.items() if counts]
    peers = Trained.in_order({peer for view in views for peer in view.peers})
    titles = {label: title for view in views for label, title in view.titles.items()}
    lines = [Line(titles[peer], [_standings(view, peer) for view in views]) for peer in peers]
    noun = "workload" if len({view.workload for view in views}) == len(views) else "case"
    shown = [line for line in lines if any(line.cells)]
    return Standings([view.name for view in views], [blocks[view] for view in views], shown, noun)


def _standings(view: Trained, peer: str) -> list[Standing]:
    told = {kind: view.fast(REFERENCE, peer, kind) for kind in view.met(REFERENCE, peer)}
    return [Standing(kind, one, state_of(one)) for kind, one in told.items()]


def _counted(found: list[Standing], state: str) -> Counted | None:
    own = [one for one in found if one.state == state]
    shown = sorted(one.told.row["value"] for one in own if one.told.row is not None and state in (FASTER, SLOWER))
    return Counted(state, len(own), shown) if own else None
