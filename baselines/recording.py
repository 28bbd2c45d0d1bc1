"""Records a training run as JSON lines, with Python's standard library alone (3.8 or later).

Copy this file into a program that takes part in the benchmark. It writes `events.jsonl`, one event a line, and names the
files of policies below `snapshots/`. Times are `time.monotonic_ns()` of the host, taken when the event happens.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

EVENTS, SNAPSHOTS = "events.jsonl", "snapshots"


class Recording:
    """Append-only record of one run.

    Events are kept in memory until `flush`, so that writing does not disturb what is measured. `phase`, `snapshot_file` and
    the end of the block flush.

    Parameters
    ----------
    directory
        existing folder of the run.
    on_first_step
        is called once, when the measured clock has started.
    """

    def __init__(self, directory: str | Path, on_first_step: Callable[[], None] | None = None) -> None:
        self.directory = Path(directory)
        self.snapshots = self.directory / SNAPSHOTS
        self.snapshots.mkdir(exist_ok=True)
        self.steps = 0
        self.first_step_ns: int | None = None
        self._on_first_step = on_first_step
        self._file = (self.directory / EVENTS).open("ab")
        # Numbers that are not finite have no place in JSON: they are an error here, and not when the run is read.
        self._encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
        self._lines: list[str] = []

    def event(self, event: str, ns: int, /, **fields: Any) -> None:
        """Record an event of any kind.

        Raises
        ------
        ValueError
            if a number is not finite.
        """
        self._lines.append(self._encode({"event": event, "ns": ns, **fields}))

    def phase(self, name: str) -> None:
        """Record that a phase begins: setup, train or teardown."""
        self.event("phase", time.monotonic_ns(), name=name, wall_ns=time.time_ns())
        self.flush()

    def first_step(self, at_ns: int) -> None:
        """Record the first environment step, at which the measured time starts. Later calls change nothing."""
        if self.first_step_ns is None:
            self.first_step_ns = at_ns
            self.event("first_step", at_ns)
            if self._on_first_step is not None:
                self._on_first_step()

    def episode(self, at_ns: int, episode_return: float, length: int, steps: int) -> None:
        """Record an episode that ended. `steps` counts the steps of all environments so far."""
        self.event("episode", at_ns, **{"return": episode_return}, length=length, steps=steps)

    def snapshot_file(self, at_ns: int, steps: int, version: int, file: str) -> None:
        """Record a policy that has been written to a file below the run's folder, such as `snapshots/000001024.zip`.

        Parameters
        ----------
        steps
            environment steps so far.
        version
            optimizer steps so far.
        """
        self.steps = steps
        self.event("snapshot", at_ns, steps=steps, version=version, file=file)
        self.flush()

    def process(
        self, role: str, busy_s: Mapping[str, float], wait_s: Mapping[str, float], cpu_s: float, peak_rss_bytes: int
    ) -> None:
        """Record the account of time of a process, once, at its end."""
        self.event(
            "process",
            time.monotonic_ns(),
            role=role,
            busy_s=dict(busy_s),
            wait_s=dict(wait_s),
            cpu_s=cpu_s,
            peak_rss_bytes=peak_rss_bytes,
        )

    def progress(self, at_ns: int, role: str, counts: Mapping[str, float]) -> None:
        """Record totals of a process since its start, by metric; at least once a second."""
        self.event("progress", at_ns, role=role, counts=dict(counts))

    def counter(self, name: str, value: float, role: str = "") -> None:
        """Record a total of the run, or of one process. Names are in snake_case with the unit last."""
        self.event("counter", time.monotonic_ns(), name=name, value=value, role=role)

    def histogram(self, name: str, counts: Mapping[int, int]) -> None:
        """Record a distribution of whole numbers, as the count of each value."""
        self.event("histogram", time.monotonic_ns(), name=name, counts=dict(counts))

    def flush(self) -> None:
        """Write out what was kept."""
        if self._lines:
            self._file.write("".join(line + "\n" for line in self._lines).encode())
            self._file.flush()
            self._lines.clear()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.flush()
        self._file.close()
