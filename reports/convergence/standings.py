"""Who reaches a return faster, at a glance: TianJi against every peer on every workload, and on how many that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reports import families
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


def state_of(told: Told, p: float | None = None) -> str:
    """Whether the reference is shown to be faster, or slower. A bound shows no win; beside it restricted means may show a loss.

    Parameters
    ----------
    p
        in a table of several, the p-value after Holm, which must show that the reference is faster. That it is slower is told
        by the interval alone: an adjustment would hide it. None: it stands alone.
    """
    row = told.leading
    if row is not None and row["ci_high"] is not None and row["ci_high"] < 1:
        return SLOWER
    if told.row is not None and told.bound:
        return BOUND
    if row is None or row["ci_low"] is None:
        return OPEN
    return FASTER if row["ci_low"] > 1 and (p is None or families.shown(p)) else OPEN


def states(found: Sequence[Told]) -> list[str]:
    """The same of every pair of one table, which is a family."""
    return [state_of(told, p) for told, p in zip(found, families.adjusted([one.leading for one in found]), strict=True)]


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
    found = iter(states([told for cell in cells.values() for told in cell.values()]))
    judged = {place: [Standing(kind, told, next(found)) for kind, told in cell.items()] for place, cell in cells.items()}
    lines = [Line(titles[peer], [judged[view, peer] for view in views]) for peer in peers]
    noun = "workload" if len({view.workload for view in views}) == len(views) else "case"
    shown = [line for line in lines if any(line.cells)]
    return Standings([view.name for view in views], [blocks[view] for view in views], shown, noun)
