"""One run as seen by the program that trains it, in an interpreter that cannot import this project's packages.

It needs the standard library, NumPy and safetensors, and of this project the recorder alone.
"""

from __future__ import annotations

import json
import resource
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from baselines.recording import SNAPSHOTS, Recording

SETTINGS, INITIAL = "settings.json", "initial.safetensors"
"""Files beside `task.json`: the system's settings of this task, and the policy to begin with."""
PROGRESS_S = 0.5
"""Least seconds between two reports of progress."""
Tensors = Mapping[str, NDArray[np.float32]]
"""Parameters by the names of this project: `policy.0.kernel` [inputs, outputs], `policy.0.bias`, ..., `value.2.bias`."""


class Run:
    """The task of this folder, and the record of its training.

    A stop request sets `stopping`; the program then ends its round and the block of this context, which records the rest.
    """

    def __init__(self) -> None:
        self.task: dict[str, Any] = json.loads(Path("task.json").read_text(encoding="utf-8"))
        self.workload: dict[str, Any] = self.task["workload"]
        self.settings: dict[str, Any] = json.loads(Path(SETTINGS).read_text(encoding="utf-8"))
        with safe_open(INITIAL, framework="numpy") as file:
            self._metadata: dict[str, str] = file.metadata()
            self.initial: Tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        self.recording = Recording(".")
        self.stopping = False
        self._last_snapshot, self._last_progress_s = -1, 0.0
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    @property
    def every(self) -> int:
        """Environment steps between two snapshots."""
        return int(self.workload["snapshot_every_steps"])

    def due(self, steps: int) -> bool:
        """Whether a snapshot is due after these steps."""
        return steps // self.every > self._last_snapshot // self.every

    def snapshot(self, steps: int, version: int, tensors: Tensors, at_ns: int | None = None) -> None:
        """Record a policy, unless there is one of these steps already.

        Parameters
        ----------
        at_ns
            when it became what it is; None: now.
        """
        if steps == self._last_snapshot:
            return
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        file = f"{SNAPSHOTS}/{steps:09d}.safetensors"
        whole = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
        save_file(whole, file, {**self._metadata, "steps": str(steps)})
        self.recording.snapshot_file(at_ns, steps, version, file)
        self._last_snapshot = steps

    def progress(self, produced: int, consumed: int, unique: int | None = None) -> None:
        """Record how far it is, if the last report is some time ago."""
        now = time.monotonic()
        if now - self._last_progress_s < PROGRESS_S:
            return
        self._last_progress_s = now
        counts = {
            "samples_produced": produced,
            "samples_consumed": consumed,
            "samples_consumed_unique": produced if unique is None else unique,
        }
        self.recording.progress(time.monotonic_ns(), "driver", counts)
        self.recording.flush()

    def close(self, steps: int, version: int, busy_s: Mapping[str, float], wait_s: Mapping[str, float]) -> None:
        """Record the account of time of this process and those that it has waited for, and the run's totals."""
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        self.recording.process("driver", busy_s, wait_s, cpu_s, max(usage.ru_maxrss for usage in usages) * 1024)
        self.recording.counter("learner_steps", float(steps))
        self.recording.counter("learner_optimizer_steps", float(version))

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.recording.__exit__(kind, error, trace)
