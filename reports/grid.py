"""The grid of a report: how far each system is from the best one, by workload and machine.

Pure functions. Each suite has one quantity in the grid: seconds or core-seconds to a target return, or a rate. A distance is a
ratio to the best system of the same workload on the same machine. The best has 1; 2 is twice the time or half the rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from reports.convergence.view import Trained
from reports.dataset import Dataset
from reports.scaling.view import Scaled
from reports.sections import SUITES
from reports.staleness.view import Balanced
from reports.table import Row
from reports.tables import number, seconds_text, size_text
from reports.transmission.view import Traffic
from reports.view import View
from suites.scaling.ratios import HEADLINE
from suites.statistics.crossings import KINDS
from suites.transmission.analysis import CEILINGS

COSTS = {"seconds": "time_to_threshold_s", "core-seconds": "core_seconds_to_threshold_s"}
"""What a target return is paid with, and its metric."""
SIZE_BYTES = 1 << 20
"""Of the messages in the grid, or the largest below."""
STEPS = (1.05, 1.5, 3.0, 10.0)
"""Distances at which the colour of a cell changes."""
NONE, SOME = "none", "some"
"""Of a censored cell: no run reached the target, or only some did."""


class Choice(NamedTuple):
    """Which quantity a cell shows; suites that measure a rate have one choice without names."""

    kind: str = ""
    """Of the return: evaluated or training."""
    cost: str = ""
    """One of `COSTS`."""


class Cell(NamedTuple):
    """One system on one workload."""

    value: float | None
    """Seconds, core-seconds, or a rate; None where no run reached the target."""
    distance: float | None
    """To the best system. A lower bound where no run reached the target; None where fewer runs reached it than of the best."""
    reached: int
    runs: int
    unit: str
    watched_s: float | None = None
    """Of runs that did not reach the target, the shortest."""

    @property
    def censored(self) -> str:
        """`none` or `some` where not every run reached the target; else empty."""
        return "" if self.reached == self.runs else SOME if self.reached else NONE

    @property
    def step(self) -> int | None:
        """The colour's number, 0 for the best; None without a distance."""
        return None if self.distance is None else sum(self.distance > step for step in STEPS)

    @property
    def words(self) -> str:
        """The distance as text: `1.84x`, or a lower bound, `> 11.8x`."""
        if self.distance is None:
            return f"{self.reached} of {self.runs} runs"
        return f"{'> ' * (self.value is None)}{number(self.distance)}x"

    @property
    def detail(self) -> str:
        """The value with its unit, and how many runs reached the target where some did not."""
        if self.value is None:
            return "not reached" + (f" in {number(self.watched_s)} s" if self.watched_s is not None else "")
        told = _told(self.value, self.unit)
        if self.distance is None:
            return f"{told} if reached"
        return f"{told}, {self.reached} of {self.runs} runs" if self.censored else told


def _told(value: float, unit: str) -> str:
    if unit == "bytes/s":
        return f"{number(value / 1e9)} GB/s" if value >= 1e8 else f"{number(value / 1e6)} MB/s"
    return seconds_text(value) if unit == "s" else f"{number(value)} {unit}"


class Column(NamedTuple):
    """One workload."""

    view: View
    about: str
    """What its cells show."""

    @property
    def algorithm(self) -> str:
        """`ppo`; empty where nothing is trained."""
        return str(self.view.description.get("algo", ""))


class Grid(NamedTuple):
    """The systems and workloads of one suite on one machine."""

    suite: str
    machine: str
    columns: list[Column]
    titles: dict[str, str]
    """Rows: systems by label."""
    choices: list[Choice]
    cells: dict[tuple[str, str], dict[Choice, Cell]]
    """By label and the slug of a view."""

    def at(self, label: str, column: Column) -> dict[Choice, Cell]:
        """What is known of a system on a workload; empty where it did not run."""
        return self.cells.get((label, column.view.slug), {})


def grids(data: Dataset) -> list[Grid]:
    """A grid for each suite and machine that has anything to compare, in the order of suites."""
    found = []
    for suite in SUITES:
        views = suite.all(data)
        for machine in sorted({view.key.machine for view in views}):
            grid = _grid(suite, machine, [view for view in views if view.key.machine == machine])
            if grid.cells:
                found.append(grid)
    return found


def _grid(suite: type[View], machine: str, views: Iterable[View]) -> Grid:
    choices = [Choice(kind, cost) for kind in KINDS for cost in COSTS] if suite in (Trained, Balanced) else [Choice()]
    columns, titles = [], {}
    cells: dict[tuple[str, str], dict[Choice, Cell]] = {}
    for view in views:
        for choice in choices:
            for label, cell in _distances(_measured(view, choice)).items():
                cells.setdefault((label, view.slug), {})[choice] = cell
                titles[label] = view.title(label)
        if any(slug == view.slug for _, slug in cells):
            columns.append(Column(view, _about(view)))
    ordered = {label: titles[label] for label in suite.in_order(titles)}
    return Grid(suite.suite, machine, columns, ordered, choices, cells)


def _about(view: View) -> str:
    match view:
        case Scaled():
            return f"samples per second on {view.most} nodes"
        case Traffic():
            size, explorers = _place(view)
            return f"goodput, {size_text(size)}, {explorers} to one" if explorers > 1 else f"goodput, {size_text(size)}"
        case _:
            thresholds: dict[str, float] = view.description["thresholds"]
            return " / ".join(f"{kind} ≥ {thresholds[kind]:g}" for kind in KINDS)


def _place(view: Traffic) -> tuple[int, int]:
    """Size of messages and number of explorers that stand for a workload."""
    explorers = next(iter(view.explorers), 1)
    sizes = view.sizes(explorers)
    return max((size for size in sizes if size <= SIZE_BYTES), default=max(sizes, default=0)), explorers


def _measured(view: View, choice: Choice) -> dict[str, Cell]:
    """By system what was measured, without distances."""
    match view:
        case Scaled():
            rows = {label: view.find(label, HEADLINE, nodes=view.most) for label in view.systems}
            return {label: _rate(row, "samples/s") for label, row in rows.items() if row is not None}
        case Traffic():
            pipes = [label for label in view.shown if label not in CEILINGS]
            rows = {label: view.at(label, "goodput_bytes_per_s", *_place(view)) for label in pipes}
            return {label: _rate(row, "bytes/s") for label, row in rows.items() if row is not None}
        case _:
            rows = {label: view.row(label, COSTS["seconds"], threshold_kind=choice.kind) for label in view.shown}
            return {label: _time(view, label, row, choice) for label, row in rows.items() if row is not None}


def _rate(row: Row, unit: str) -> Cell:
    # A rate has its distance turned round: the best is the largest.
    return Cell(row["value"], None, row["n"], row["n"], unit)


def _time(view: View, label: str, row: Row, choice: Choice) -> Cell:
    paid = row if choice.cost == "seconds" else view.row(label, COSTS[choice.cost], threshold_kind=choice.kind)
    value = None if paid is None else paid["value"]
    # Core-seconds may be unknown where seconds are known: then there is nothing to tell.
    unit = "s" if choice.cost == "seconds" else "core-s"
    watched = _watched_s(view, label, choice.kind) if value is None and choice.cost == "seconds" else None
    return Cell(value, None, row["n"] - row["censored"], row["n"], unit, watched)


def _watched_s(view: View, label: str, kind: str) -> float | None:
    """How long the shortest run was watched that did not reach the target."""
    frame: Any = view.points("crossings" if isinstance(view, Trained) else "staleness-crossings")
    missed = frame[(frame["system"] == label) & (frame["threshold_kind"] == kind) & frame["seconds"].isna()]["measured_s"]
    return None if missed.empty else float(missed.min())


def _distances(cells: dict[str, Cell]) -> dict[str, Cell]:
    """The same cells with their distance to the best: most of its runs reached the target, and soonest.

    A system of which fewer runs reached the target has no distance: its time is of the easy runs alone.
    """
    known = [cell for cell in cells.values() if cell.value]
    if not known:
        return cells
    share = max(cell.reached / cell.runs for cell in known)
    values = [cell.value for cell in known if cell.value and cell.reached / cell.runs == share]
    rate = known[0].unit.endswith("/s")
    best = max(values) if rate else min(values)

    def far(cell: Cell) -> float | None:
        if not cell.value:
            return None if cell.watched_s is None or cell.watched_s <= best else cell.watched_s / best
        if cell.reached / cell.runs < share:
            return None
        return best / cell.value if rate else cell.value / best

    return {label: cell._replace(distance=far(cell)) for label, cell in cells.items()}


def lines(grids: Iterable[Grid]) -> list[dict[str, Any]]:
    """Every cell as a line of a CSV file."""
    return [
        {
            "suite": grid.suite,
            "machine": grid.machine,
            "workload": column.view.name,
            "system": grid.titles[label],
            "return": choice.kind,
            "quantity": choice.cost or column.about,
            "value": cell.value,
            "unit": cell.unit,
            "distance": cell.distance,
            "reached": cell.reached,
            "runs": cell.runs,
        }
        for grid in grids
        for column in grid.columns
        for label in grid.titles
        for choice, cell in grid.at(label, column).items()
    ]
