"""Records a run: events in `events.jsonl`, one per line, and snapshots as safetensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from baselines.goal import Goal
from baselines.workload import Workload
from tianji.algorithms import networks
from tianji.policy import Policy, save_policy


class FileRecorder:
    """Append-only record of one run.

    Events are kept until `flush`: writing them out is not part of what is measured. What a run told before it was
    killed is on disk up to its last snapshot.

    Parameters
    ----------
    on_first_step
        is called when the measured clock has started.
    stop_at_goal
        whether the run may end once its training return has been reached.
    """

    def __init__(
        self,
        directory: Path,
        workload: Workload,
        on_first_step: Callable[[], None] | None = None,
        *,
        stop_at_goal: bool = False,
    ) -> None:
        self.directory = directory
        self._on_first_step = on_first_step
        (directory / "snapshots").mkdir(exist_ok=True)
        self._file = (directory / "events.jsonl").open("ab")
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []
        description = workload.describe()
        self.network = networks.build(workload.network, description.features, description.actions)
        self._workload = workload
        self._goal = Goal(workload) if stop_at_goal else None
        self.steps = 0
        self.first_step_ns: int | None = None

    def _event(self, event: str, at_ns: int, **fields: Any) -> None:
        self._lines.append(self._encode({"event": event, "ns": at_ns, **fields}))

    @property
    def may_end(self) -> bool:
        return self._goal is not None and self._goal.passed

    def phase(self, name: str) -> None:
        """A phase begins: setup, train or teardown."""
        self._event("phase", time.monotonic_ns(), name=name, wall_ns=time.time_ns())
        self.flush()

    def first_step(self, at_ns: int) -> None:
        if self.first_step_ns is None:
            self.first_step_ns = at_ns
            self._event("first_step", at_ns)
            if self._on_first_step is not None:
                self._on_first_step()

    def episode(self, at_ns: int, episode_return: float, length: int, steps: int) -> None:
        self._event("episode", at_ns, **{"return": episode_return}, length=length, steps=steps)
        if self._goal is not None:
            self._goal.episode(at_ns, episode_return)

    def snapshot(self, at_ns: int, steps: int, version: int, weights: NDArray[np.float32]) -> None:
        self.steps = steps
        file = f"snapshots/{steps:09d}.safetensors"
        save_policy(self.directory / file, Policy(self.network, weights), workload=self._workload.id, steps=str(steps))
        self._event("snapshot", at_ns, steps=steps, version=version, file=file)
        if self._goal is not None:
            self._goal.snapshot(at_ns)
        self.flush()

    def process(
        self, role: str, busy_s: Mapping[str, float], wait_s: Mapping[str, float], cpu_s: float, peak_rss_bytes: int
    ) -> None:
        self._event(
            "process",
            time.monotonic_ns(),
            role=role,
            busy_s=dict(busy_s),
            wait_s=dict(wait_s),
            cpu_s=cpu_s,
            peak_rss_bytes=peak_rss_bytes,
        )

    def progress(self, at_ns: int, role: str, counts: Mapping[str, float]) -> None:
        self._event("progress", at_ns, role=role, counts=dict(counts))

    def counter(self, name: str, value: float, role: str = "") -> None:
        self._event("counter", time.monotonic_ns(), name=name, value=value, role=role)

    def histogram(self, name: str, counts: Mapping[int, int]) -> None:
        self._event("histogram", time.monotonic_ns(), name=name, counts=dict(counts))

    def flush(self) -> None:
        """Write out what was kept."""
        if self._lines:
            self._file.write(b"\n".join(self._lines) + b"\n")
            self._file.flush()
            self._lines.clear()

    def __enter__(self) -> FileRecorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.flush()
        self._file.close()
