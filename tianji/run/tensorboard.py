"""Curves of a run for TensorBoard: one point at each progress message of a learner."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tianji.run.display import Live


def _summary_writer() -> Any:
    """tensorboardX's writer, imported without torch.

    It would import torch if that is installed, which takes two seconds of a core that roles need.
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
    """Writer of TensorBoard events into a folder. It is a context manager."""

    def __init__(self, folder: Path) -> None:
        self._writer = _summary_writer()(str(folder), flush_secs=10)

    def add(self, live: Live) -> None:
        """Add one point to each curve, at the learners' environment steps."""
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
        if live.lengths:  # A resumed run knows the returns of earlier episodes, and not their lengths.
            points["return/length_of_100"] = float(np.mean(live.lengths))
        for name, value in points.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.close()
