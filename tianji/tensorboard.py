"""A run's curves for TensorBoard: one point of each, whenever a learner says how far it is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tianji.display import Live


def _summary_writer() -> Any:
    """tensorboardX's, imported without torch.

    It takes torch's tensors where torch is, for which it imports all of it: two seconds of a core that roles want.
    """
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("tensorboardX").SummaryWriter
    finally:
        if hidden:
            del sys.modules["torch"]


class Curves:
    """Writes events into a folder; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._writer = _summary_writer()(str(folder), flush_secs=10)

    def add(self, live: Live) -> None:
        """Points at the steps that learners have taken in."""
        step = int(live.total("steps"))
        points = {
            "throughput/steps_per_s": live.steps_per_s,
            "throughput/updates_per_s": live.updates_per_s,
            "training/updates": live.total("optimizer_steps"),
            "training/episodes": live.episodes,
            "staleness/mean_rounds": live.mean("staleness_mean_rounds"),
            "staleness/p99_rounds": live.mean("staleness_p99_rounds"),
            "staleness/mean_versions": live.mean("staleness_mean_versions"),
            "balance/consumption_ratio": live.mean("consumption_ratio"),
            "balance/window_chunks": live.mean("window_chunks"),
            "run/restarts": live.restarts,
        }
        if live.mean_return is not None:
            points["return/mean_of_100"] = live.mean_return
            points["return/length_of_100"] = float(np.mean(live.lengths))
        for name, value in points.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.close()
