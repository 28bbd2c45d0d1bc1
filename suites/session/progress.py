"""Progress of a session, with the estimated time left: a bar on a terminal, or one line per run elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from suites.session.plan import Cell


class Reporter:
    """Follows a session.

    The time left is estimated from the finished runs of each system. For a system without one, the estimate is the expected
    length of the current run, or the mean of the other systems.
    """

    def __init__(self, cells: list[Cell], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._cells = list(cells)
        self._done = 0
        self._took: dict[tuple[str, str], list[float]] = {}
        self._started = 0.0
        self._cell: Cell | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=max(1, len(self._cells)), left="")

    def __enter__(self) -> Reporter:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def begin(self, cell: Cell) -> None:
        """A cell starts."""
        self._cell, self._started = cell, time.monotonic()
        self.update(0.0, "setting up")

    def update(self, share: float, what: str) -> None:
        """The running cell is this far, 0 to 1."""
        cell = self._cell
        if cell is None:
            return
        left = self._left(cell, share)
        text = f"{cell.workload}, block {cell.block}, {cell.label}: {what}"
        self._progress.update(
            self._task,
            completed=self._done + share,
            description=text,
            left="" if left is None else f"about {_duration(left)} left",
        )

    def end(self, summary: str) -> None:
        """The running cell is finished."""
        cell = self._cell
        if cell is None:
            return
        took = time.monotonic() - self._started
        self._took.setdefault((cell.workload, cell.system), []).append(took)
        self._done += 1
        self._cells = [c for c in self._cells if c is not cell]
        self._cell = None
        left = self._left(None, 0.0)
        self._progress.update(self._task, completed=self._done)
        note = "" if left is None or not self._cells else f"; about {_duration(left)} left"
        self.console.print(
            f"[{self._done}/{self._done + len(self._cells)}] {cell.workload} block {cell.block} {cell.label}: "
            f"{summary}, {took:.0f} s{note}",
            markup=False,
            soft_wrap=True,
        )

    def _left(self, running: Cell | None, share: float) -> float | None:
        known = {key: sum(times) / len(times) for key, times in self._took.items()}
        elapsed = time.monotonic() - self._started if running else 0.0
        if running is not None and share > 0.1:
            known.setdefault((running.workload, running.system), elapsed / share)
        if not known:
            return None
        mean = sum(known.values()) / len(known)
        total = sum(known.get((cell.workload, cell.system), mean) for cell in self._cells)
        return max(0.0, total - elapsed)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
