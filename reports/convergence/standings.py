"""Who reaches a return faster, at a glance: TianJi against every peer on every workload, and on how many that is shown."""

from __future__ import annotations

from typing import NamedTuple

from reports.bounds import Told
from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.pairs import REFERENCE
from reports.words import Words

FASTER, SLOWER, BOUND, OPEN = STATES = ("faster", "slower", "bound", "open")


class Standing(NamedTuple):
    """Of one pair, on one workload and return."""

    kind: str
    """Of the return: evaluated or training."""
    told: Told
    state: str
    """One of `STATES`."""

    @property
    def order(self) -> int:
        """Of its state among `STATES`."""
        return STATES.index(self.state)

    @property
    def shown(self) -> bool:
        """Whether either is shown to be faster."""
        return self.state in (FASTER, SLOWER)


class Line(NamedTuple):
    """What is known of one peer."""

    peer: str
    cells: list[list[Standing]]
    """By workload, none where they did not meet; in each the evaluated return first."""

    def of(self, kind: str) -> list[Standing]:
        """On all workloads, of one return."""
        return [one for cell in self.cells for one in cell if one.kind == kind]


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
    """On which side of 1 the interval of one cell lies. A bound shows no win; beside it restricted means may show a loss.

    A cell is one of many and no verdict: `reports.verdict` answers the declared questions.
    """
    row = told.leading
    if row is not None and row["ci_high"] is not None and row["ci_high"] < 1:
        return SLOWER
    if told.row is not None and told.bound:
        return BOUND
    if row is None or row["ci_low"] is None:
        return OPEN
    return FASTER if row["ci_low"] > 1 else OPEN


def standings(data: Dataset) -> Standings:
    """TianJi against every peer, on the workloads on which it met any."""
    blocks = {view: view.blocks(*((REFERENCE, peer) for peer in view.peers)) for view in Trained.all(data)}
    views = [view for view, counts in blocks.items() if counts]
    peers = Trained.in_order({peer for view in views for peer in view.peers})
    titles = {label: title for view in views for label, title in view.titles.items()}
    cells = {
        (view, peer): {kind: view.fast(REFERENCE, peer, kind) for kind in view.met(REFERENCE, peer)}
        for view in views
        for peer in peers
    }
    judged = {place: [Standing(kind, told, state_of(told)) for kind, told in cell.items()] for place, cell in cells.items()}
    lines = [Line(titles[peer], [judged[view, peer] for view in views]) for peer in peers]
    noun = "workload" if len({view.workload for view in views}) == len(views) else "case"
    shown = [line for line in lines if any(line.cells)]
    return Standings([view.name for view in views], [blocks[view] for view in views], shown, noun)
