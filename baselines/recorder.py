"""Recorder of the host process: a `Recording` that also stores flat vectors as safetensors and knows the goal of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baselines.goal import Goal
from baselines.recording import SNAPSHOTS, Recording
from baselines.workload import Workload
from tianji.policy import Policy, save_policy


class FileRecorder(Recording):
    """Record of one run of a workload.

    What a run reported before it was killed is on disk up to its last snapshot.

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
        super().__init__(directory, on_first_step)
        description = workload.describe()
        self.network = workload.flat_network(description)
        self._workload = workload
        self._goal = Goal(workload) if stop_at_goal else None

    @property
    def may_end(self) -> bool:
        return self._goal is not None and self._goal.passed

    def episode(self, at_ns: int, episode_return: float, length: int, steps: int) -> None:
        super().episode(at_ns, episode_return, length, steps)
        if self._goal is not None:
            self._goal.episode(at_ns, episode_return)

    def snapshot(self, at_ns: int, steps: int, version: int, weights: NDArray[np.float32]) -> None:
        file = f"{SNAPSHOTS}/{steps:09d}.safetensors"
        if (self.directory / file).exists():
            # Weights can change without a step, when those of other groups are adopted.
            file = f"{SNAPSHOTS}/{steps:09d}-{version}.safetensors"
        save_policy(self.directory / file, Policy(self.network, weights), workload=self._workload.id, steps=str(steps))
        self.snapshot_file(at_ns, steps, version, file)

    def snapshot_file(self, at_ns: int, steps: int, version: int, file: str) -> None:
        super().snapshot_file(at_ns, steps, version, file)
        if self._goal is not None:
            self._goal.snapshot(at_ns)

    def __enter__(self) -> FileRecorder:
        return self
