"""Who reaches a return faster, at a glance: TianJi against every peer on every workload, and on how many that is shown."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from reports import bounds
from reports.bounds import Told
from reports.convergence.tables import times
from reports.dataset import REFERENCE, Dataset
from reports.tables import number
from suites.statistics.crossings import KINDS
from suites.statistics.summary import AGAIN

FASTER, SLOWER, BOUND, OPEN = STATES = ("faster", "slower", "bound", "open")
MEANING = (
    "Faster, slower: the whole 95 % interval is above or below 1. Bound (> or <): one side did not get there in every block in "
    "which the other did, and there is no interval. Open: the interval holds 1, there are fewer than five blocks, or each got "
    "there in blocks in which the other did not. In brackets of how many blocks a figure is, where not of all."
)


class Verdict(NamedTuple):
    """On one pair, workload and return."""

    kind: str
    """Of the return: evaluated or training."""
    told: Told
    state: str
    """One of `STATES`."""

    @property
    def words(self) -> str:
        """`8.81x [4.62, 16.8]`, or a bound."""
        return self.told.words


class Line(NamedTuple):
    """What is known of one peer."""

    peer: str
    cells: list[list[Verdict]]
    """By workload, none where they did not meet; in each the evaluated return first."""


class Matrix(NamedTuple):
    """A line for each peer, a cell for each workload."""

    workloads: list[str]
    blocks: list[str]
    """By workload: how many."""
    lines: list[Line]


def state_of(told: Told) -> str:
    """Whether the reference is shown to be faster, or slower; a bound has no interval, and shows neither."""
    row = told.row
    if row is not None and told.bound:
        return BOUND
    if row is None or row["ci_low"] is None:
        return OPEN
    return FASTER if row["ci_low"] > 1 else SLOWER if row["ci_high"] < 1 else OPEN


def matrix(data: Dataset) -> Matrix:
    """TianJi against every peer, on the workloads on which it met any."""
    peers = [label for label in data.systems if label != REFERENCE and not label.endswith(AGAIN)]
    cells = {(workload, peer): _verdicts(data, workload, peer) for workload in sorted(data.workloads) for peer in peers}
    workloads = [workload for workload in sorted(data.workloads) if any(cells[workload, peer] for peer in peers)]
    lines = [Line(data.titles[peer], [cells[workload, peer] for workload in workloads]) for peer in peers]
    return Matrix(
        workloads, [_blocks(data, workload, peers) for workload in workloads], [one for one in lines if any(one.cells)]
    )


def sentences(found: Matrix) -> list[str]:
    """One for each peer: on how many workloads TianJi is faster, by how much, and on how many that is open."""
    lines = []
    for line in found.lines:
        said = []
        for kind in KINDS:
            verdicts = [verdict for cell in line.cells for verdict in cell if verdict.kind == kind]
            if verdicts:
                said.append(f"{kind} return: {_counts(verdicts)}")
        lines.append(f"TianJi against {line.peer}, {'; '.join(said)}.")
    return lines


def _verdicts(data: Dataset, workload: str, peer: str) -> list[Verdict]:
    met = [kind for kind in KINDS if _ratio(data, workload, peer, kind) is not None]
    return [Verdict(kind, one, state_of(one)) for kind in met for one in [times(data, workload, REFERENCE, peer, kind)]]


def _ratio(data: Dataset, workload: str, peer: str, kind: str) -> bounds.Row | None:
    return data.find(workload, REFERENCE, bounds.METRIC, kind, peer)


def _blocks(data: Dataset, workload: str, peers: list[str]) -> str:
    rows = [row for peer in peers for kind in KINDS if (row := _ratio(data, workload, peer, kind)) is not None]
    return "/".join(map(str, sorted({row["n"] + row["censored"] for row in rows})))


def _counts(verdicts: list[Verdict]) -> str:
    """`faster on 2 of 4 workloads (8.81x and 8.87x), only a bound on 1, open on 1`."""
    count = Counter(verdict.state for verdict in verdicts)
    said: list[str] = []
    for state in STATES:
        if count[state]:
            of = f" of {len(verdicts)} workload{'s' * (len(verdicts) > 1)}" if not said else ""
            said.append(f"{'only a ' * (state == BOUND)}{state} on {count[state]}{of}{_values(verdicts, state)}")
    return ", ".join(said)


def _values(verdicts: list[Verdict], state: str) -> str:
    """Of the ratios that show it, the least and the greatest."""
    if state not in (FASTER, SLOWER):
        return ""
    values = sorted(v.told.row["value"] for v in verdicts if v.state == state and v.told.row is not None)
    joined = " and " if len(values) == 2 else " to "
    return f" ({joined.join(number(value) + 'x' for value in dict.fromkeys((values[0], values[-1])))})"
