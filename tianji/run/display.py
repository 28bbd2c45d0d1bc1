"""Progress of a run on screen: a bar on a terminal, or a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from tianji import messages
from tianji.config import TrainConfig
from tianji.disciplines.auto import Choice
from tianji.launch.events import Evaluated, Heard, Restarted
from tianji.run.watch import WINDOW
from tianji.run_folder import Tally

LINE_S = 10.0
"""Seconds between two lines if there is no terminal."""


@dataclass
class Live:
    """Current state of a run, for its display."""

    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    """Latest counters of each learner."""
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    episodes: int = 0
    restarts: int = 0
    steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    evaluated: tuple[int, float] | None = None
    """Steps and mean return of the snapshot that was evaluated last."""
    _stored: tuple[int, tuple[float, ...], tuple[int, ...]] = (0, (), ())
    """Number of episodes, latest returns and lengths at the last checkpoint."""
    _earlier: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    _rates: dict[str, tuple[float, float]] = field(default_factory=dict)

    def go_on(self, past: Tally) -> None:
        """Continue the counts of a resumed run."""
        self.returns.extend(past.returns)
        self.episodes += past.episodes
        self._stored = self.episodes, tuple(self.returns), ()

    def see(self, message: Heard) -> bool:
        """Read a message. True if it has news of a learner."""
        match message:
            case messages.Episodes(episodes=episodes):
                self.episodes += len(episodes)
                self.returns.extend(e.episode_return for e in episodes)
                self.lengths.extend(e.length for e in episodes)
            case Evaluated(steps=steps, returns=returns):
                self.evaluated = steps, float(np.mean(returns))
            case messages.Saved():
                self._stored = self.episodes, tuple(self.returns), tuple(self.lengths)
            case Restarted(role=role):
                self.restarts += 1
                if not role:
                    # Episodes since the last checkpoint are played again.
                    self.episodes, returns, lengths = self._stored
                    self.returns, self.lengths = deque(returns, maxlen=WINDOW), deque(lengths, maxlen=WINDOW)
                # Counts may have decreased.
                self._earlier.clear()
            case messages.Progress(role=role, at_ns=at, counters=counters) if role.startswith("learner"):
                self.counters[role] = counters
                self._rate(role, at, counters["steps"], counters["optimizer_steps"])
                return True
        return False

    def _rate(self, role: str, at_ns: int, steps: float, updates: float) -> None:
        earlier = self._earlier.get(role)
        self._earlier[role] = at_ns, steps, updates
        if earlier is not None and at_ns > earlier[0]:
            seconds = (at_ns - earlier[0]) / 1e9
            self._rates[role] = (steps - earlier[1]) / seconds, (updates - earlier[2]) / seconds
            self.steps_per_s = sum(rate for rate, _ in self._rates.values())
            self.updates_per_s = sum(rate for _, rate in self._rates.values())

    def total(self, name: str) -> float:
        """Sum of a counter over all learners."""
        return sum(counters.get(name, 0.0) for counters in self.counters.values())

    def mean(self, name: str) -> float:
        """Mean of a counter over all learners."""
        return self.total(name) / len(self.counters) if self.counters else 0.0

    @property
    def mean_return(self) -> float | None:
        return float(np.mean(self.returns)) if self.returns else None


class Display:
    """Listener that shows a run. It is a context manager that restores the terminal.

    Parameters
    ----------
    console
        output; a bar is shown if it is a terminal.
    """

    def __init__(self, config: TrainConfig, live: Live, console: Console | None = None) -> None:
        self._config, self._live = config, live
        self._console = console or Console(stderr=True)
        self._next_line = time.monotonic() + LINE_S
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.fields[what]}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=self._console,
                refresh_per_second=4,
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0, what="starting")
        self._begun_ns: int | None = None

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, message: Any, news: bool) -> None:
        """Show a message."""
        if isinstance(message, Restarted):
            whom = message.role or "all roles, from the last state that was stored"
            self._console.print(
                f"{message.cause}; starting again in {message.after_s:g} s: {whom}", highlight=False, soft_wrap=True
            )
        if isinstance(message, Choice):
            self._console.print(message.why, highlight=False, soft_wrap=True)
        if isinstance(message, messages.Started) and self._begun_ns is None:
            self._begun_ns = message.at_ns
        if not news:
            return
        live, share = self._live, self._share(message.at_ns)
        if self._bar is not None:
            self._bar.update(self._task, completed=share, what=self.line())
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_S
            self._console.print(
                f"{share:4.0%}  {live.total('steps'):,.0f} steps  {self.line()}", highlight=False, soft_wrap=True
            )

    def _share(self, at_ns: int) -> float:
        """Share of the run that is done, by its steps or its time, whichever limit comes first."""
        steps = self._live.total("steps") / self._config.stop_steps
        if self._config.stop_seconds is None or self._begun_ns is None:
            return min(1.0, steps)
        return min(1.0, max(steps, (at_ns - self._begun_ns) / 1e9 / self._config.stop_seconds))

    def line(self) -> str:
        """Current return, throughput and lag, as one line."""
        live = self._live
        mean = "-" if live.mean_return is None else f"{live.mean_return:.1f}"
        lag = live.mean("staleness_mean_rounds")
        return f"return {mean}  {live.steps_per_s:,.0f} steps/s  {live.updates_per_s:,.0f} updates/s  lag {lag:.1f} rounds"
